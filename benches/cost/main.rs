//! What it costs to be traced, and what it costs those who are not: the time of one read(fd, buf, 1) of
//! /dev/zero of the measured process, of another one, and of one getppid() of that other one, with this
//! and that attached.
//!
//! `cargo bench` prints one table. The calling processes are this program, started once more; they are
//! pinned to one CPU, and this one to another. All rows are measured in turn, round by round, so that
//! whatever the machine does meanwhile concerns all of them.

#![allow(clippy::unwrap_used, clippy::panic)] // A benchmark that fails is to stop.

#[path = "../../tests/peer/mod.rs"]
mod peer;
#[path = "../../tests/requirements/mod.rs"]
mod requirements;
mod setups;
mod workload;

use rlat::tracefs::Tracefs;

use setups::Setup;
use workload::{CALLER, Call, Caller, allowed_cpus, be_caller, pin};

const ROUNDS: usize = 7;

/// What is measured in each row.
const COLUMNS: [&str; 3] = ["read", "other's read", "other's getppid"];

fn main() {
    if std::env::args().nth(1).as_deref() == Some(CALLER) {
        return be_caller();
    }
    if !requirements::bpf() {
        return;
    }
    let tracefs = Tracefs::open(None).unwrap_or_else(|error| panic!("{error}"));
    let with_bpftrace = peer::bpftrace();
    let cpus = allowed_cpus();
    pin(cpus[0]);
    let last = cpus[cpus.len() - 1];
    let (measured, other) = (Caller::start(last), Caller::start(last));

    let setups = Setup::ALL.into_iter().filter(|setup| with_bpftrace || *setup != Setup::Bpftrace);
    let mut rows: Vec<Row> = setups.map(Row::new).collect();
    for _ in 0..ROUNDS {
        for row in &mut rows {
            row.setup.run(measured.pid(), &tracefs, || {
                row.rounds[0].push(measured.nanos_per(Call::Read));
                row.rounds[1].push(other.nanos_per(Call::Read));
                row.rounds[2].push(other.nanos_per(Call::Getppid));
            });
        }
    }
    print_table(&rows);
}

/// The numbers of one row.
struct Row {
    setup: Setup,
    /// For each column, in ns per call, one a round.
    rounds: [Vec<f64>; COLUMNS.len()],
}

impl Row {
    fn new(setup: Setup) -> Self {
        Self { setup, rounds: std::array::from_fn(|_| Vec::new()) }
    }

    fn min(&self, column: usize) -> f64 {
        self.rounds[column].iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn median(&self, column: usize) -> f64 {
        let mut sorted = self.rounds[column].clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }
}

fn print_table(rows: &[Row]) {
    println!("ns added to one call: minimum of {ROUNDS} rounds (median)");
    print!("{:<28}", "");
    for column in COLUMNS {
        print!(" {column:>18}");
    }
    println!();
    let Some((untraced, traced)) = rows.split_first() else { return };
    print!("{:<28}", "nothing: the call itself");
    for column in 0..COLUMNS.len() {
        print!(" {:>10.0} ({:>5.0})", untraced.min(column), untraced.median(column));
    }
    println!();
    for row in traced {
        print!("{:<28}", row.setup.name());
        for column in 0..COLUMNS.len() {
            let least = row.min(column) - untraced.min(column);
            let middle = row.median(column) - untraced.median(column);
            print!(" {least:>+10.0} ({middle:>+5.0})");
        }
        println!();
    }
    let added = |setup, column| {
        let row = traced.iter().find(|row| row.setup == setup)?;
        Some(row.min(column) - untraced.min(column))
    };
    println!();
    for (ours, theirs, column, bar) in [
        (Setup::Rlat, Setup::Bpftrace, 0, 0.50),
        (Setup::RlatRaw, Setup::Bpftrace, 0, 0.35),
        (Setup::Rlat, Setup::EmptyWithClock, 0, 1.25),
        (Setup::Rlat, Setup::Empty, 1, 1.10),
        (Setup::Rlat, Setup::Empty, 2, 1.05),
    ] {
        if let (Some(us), Some(them)) = (added(ours, column), added(theirs, column)) {
            println!(
                "{:<16} {:<18} {:>5.2} of {} (goal: {bar:.2})",
                COLUMNS[column],
                ours.name(),
                us / them,
                theirs.name()
            );
        }
    }
}
