//! What it costs to be traced, and what it costs those who are not; how much memory and time rlat
//! itself takes; and how all of this compares with its goals.
//!
//! `cargo bench` prints the tables. The calling processes are pinned to one CPU, and this one to another.
//! All rows are measured in turn, round by round, so that whatever the machine does meanwhile concerns
//! all of them. `benches/peers` adds other tracers.

#![allow(clippy::unwrap_used, clippy::panic)] // A benchmark that fails is to stop.

mod calls;
mod crowd;
mod goals;
mod peers;
#[path = "../../tests/requirements/mod.rs"]
mod requirements;
mod setups;
mod whole;

use rlat::calibration::{CALLER, allowed_cpus, be_caller, pin};
use rlat::host::Host;
use rlat::tracefs::Tracefs;

use goals::Goals;
use peers::Peer;
use setups::Setup;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).filter(|arg| *arg != "--bench").collect();
    match args[..] {
        [CALLER, cpu] => be_caller(cpu.parse().unwrap()).unwrap(),
        [crowd::CROWD, threads] => crowd::be_crowd(threads.parse().unwrap()),
        [] => measure(&[]),
        ["--peers", ref roots @ ..] => measure(&Peer::find(roots)),
        _ => panic!("`cargo bench --bench cost [-- --peers [ROOT]]`; {args:?} is not known"),
    }
}

fn measure(peers: &[Peer]) {
    if !requirements::bpf() {
        return;
    }
    let tracefs = Tracefs::open(None).unwrap_or_else(|error| panic!("{error}"));
    let host = Host::read();
    let cpus = allowed_cpus().unwrap();
    let known = |fact: Option<String>| fact.unwrap_or_else(|| "unknown".to_owned());
    println!("{}, {}, {} CPUs", known(host.kernel), known(host.architecture), cpus.len());
    // It takes all CPUs, so it comes before this process is pinned.
    let crowd = crowd::compare(&cpus);
    pin(cpus[0]).unwrap();

    let setups = Setup::ALL.into_iter().map(calls::Traced::By);
    let traced: Vec<calls::Traced<'_>> =
        setups.chain(peers.iter().map(calls::Traced::ByPeer)).collect();
    let table = calls::measure(&traced, &tracefs, cpus[cpus.len() - 1]);
    table.print();
    crowd.print();
    let whole = whole::measure(cpus[cpus.len() - 1]);
    whole.print();
    let attaching = peers::measure_starts(peers);
    peers::print_starts(&attaching);

    let mut goals = Goals::default();
    calls::judge(&table, &mut goals);
    crowd.judge(&mut goals);
    whole.judge(&attaching, &mut goals);
    goals.print();
}
