//! What it costs to be traced: the time of one read(fd, buf, 1) of /dev/zero with nothing attached, with
//! rlat, with bpftrace, and with two programs that do nothing.
//!
//! `cargo bench` prints one table. The reading process is this program, started once more; it is pinned to
//! one CPU, and this one to another. All variants are measured in turn, round by round, so that whatever
//! the machine does meanwhile concerns all of them.

#![allow(clippy::unwrap_used, clippy::panic)] // A benchmark that fails is to stop.

#[path = "../tests/peer/mod.rs"]
mod peer;
#[path = "../tests/requirements/mod.rs"]
mod requirements;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::Instant;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, read};

use rlat::histogram::Unit;
use rlat::insn::{Assembler, Reg};
use rlat::latency::{Measurement, Request, Returns, Subject, Syscall};
use rlat::loader::sys::ProgramType;
use rlat::loader::{Attachment, Tracepoint, attach, load};
use rlat::maps::cpus;
use rlat::process::Target;
use rlat::tracefs::Tracefs;

use peer::Bpftrace;

const ROUNDS: usize = 7;
/// The fastest of many short runs counts: somebody else had the CPU during the others.
const RUNS: usize = 100;
const READS: u64 = 1_000;

/// The argument that makes this program the reading process.
const READER: &str = "reader";

fn main() {
    if std::env::args().nth(1).as_deref() == Some(READER) {
        return be_reader();
    }
    if !requirements::bpf() {
        return;
    }
    let tracefs = Tracefs::open(None).unwrap_or_else(|error| panic!("{error}"));
    let with_bpftrace = peer::bpftrace();
    let cpus = allowed_cpus();
    pin(cpus[0]);
    let (measured, bystander) =
        (Reader::start(cpus[cpus.len() - 1]), Reader::start(cpus[cpus.len() - 1]));

    let mut untraced = Variant::new("nothing attached");
    let mut empty = Variant::new("two empty programs");
    let mut rlat = Variant::new("rlat");
    let mut beside_rlat = Variant::new("rlat, on another process");
    let mut bpftrace = Variant::new("bpftrace");
    let mut beside_bpftrace = Variant::new("bpftrace, on another process");
    for _ in 0..ROUNDS {
        untraced.add(measured.nanos_per_read());
        {
            let _attachments = attach_empty(&tracefs);
            empty.add(measured.nanos_per_read());
        }
        {
            let subject = Subject::Processes(vec![Target::open(measured.pid()).unwrap()]);
            let request = Request {
                subject: &subject,
                syscalls: Syscall::find_all(&tracefs, &["read".to_owned()]).unwrap(),
                descriptors: Vec::new(),
                returns: Returns::Any,
                unit: Unit::Us,
                linear: None,
                tracefs: &tracefs,
            };
            let mut measurement = Measurement::attach(request, &mut |_| {}).unwrap();
            measurement.open();
            rlat.add(measured.nanos_per_read());
            beside_rlat.add(bystander.nanos_per_read());
            assert!(measurement.recorded() > 0, "it does not measure");
        }
        if with_bpftrace {
            let running = Bpftrace::attach(&bpftrace_script(measured.pid()));
            bpftrace.add(measured.nanos_per_read());
            beside_bpftrace.add(bystander.nanos_per_read());
            running.end();
        }
    }
    print_table(&untraced, &[empty, rlat, beside_rlat, bpftrace, beside_bpftrace]);
}

/// The usual way to have the same histogram from bpftrace.
fn bpftrace_script(pid: u32) -> String {
    format!(
        "tracepoint:syscalls:sys_enter_read /pid == {pid}/ {{ @start[tid] = nsecs; }}
        tracepoint:syscalls:sys_exit_read /@start[tid]/ {{
            @read_us = hist((nsecs - @start[tid]) / 1000);
            delete(@start[tid]);
        }}"
    )
}

/// Programs that return at once, where rlat attaches its own: what no tracer there can go below.
fn attach_empty(tracefs: &Tracefs) -> [Attachment; 2] {
    let mut asm = Assembler::new("empty");
    asm.mov(Reg::R0, 0);
    asm.exit();
    let program = load(&asm.finish().unwrap(), ProgramType::Tracepoint, &[]).unwrap();
    ["sys_exit_read", "sys_enter_read"].map(|name| {
        let id = tracefs.tracepoint_id("syscalls", name).unwrap();
        let tracepoint = Tracepoint { category: "syscalls".to_owned(), name: name.to_owned(), id };
        attach(&program, &tracepoint, cpus::first_online().unwrap()).unwrap()
    })
}

/// The numbers of one row.
struct Variant {
    name: &'static str,
    /// In ns per read, one a round.
    rounds: Vec<f64>,
}

impl Variant {
    fn new(name: &'static str) -> Self {
        Self { name, rounds: Vec::new() }
    }

    fn add(&mut self, nanos: f64) {
        self.rounds.push(nanos);
    }

    fn min(&self) -> f64 {
        self.rounds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn median(&self) -> f64 {
        let mut sorted = self.rounds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }
}

fn print_table(untraced: &Variant, traced: &[Variant]) {
    println!("one read(fd, buf, 1) of /dev/zero, in ns; {ROUNDS} rounds");
    println!("{:<30} {:>7} {:>7} {:>7} {:>7}", "", "min", "median", "added", "median");
    let (min, median) = (untraced.min(), untraced.median());
    println!("{:<30} {min:>7.0} {median:>7.0}", untraced.name);
    for variant in traced.iter().filter(|variant| !variant.rounds.is_empty()) {
        let (least, middle) = (variant.min(), variant.median());
        println!(
            "{:<30} {least:>7.0} {middle:>7.0} {:>+7.0} {:>+7.0}",
            variant.name,
            least - min,
            middle - median
        );
    }
    let added = |name: &str| {
        let variant = traced.iter().find(|variant| variant.name == name)?;
        (!variant.rounds.is_empty()).then(|| (variant.min() - min, variant.median() - median))
    };
    if let (Some(ours), Some(theirs)) = (added("rlat"), added("bpftrace")) {
        println!(
            "rlat adds {:.2} of what bpftrace adds (medians: {:.2})",
            ours.0 / theirs.0,
            ours.1 / theirs.1
        );
    }
}

/// The process that reads, seen from here.
struct Reader {
    child: Child,
    orders: UnixStream,
}

impl Reader {
    fn start(cpu: usize) -> Self {
        let (orders, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([READER, &cpu.to_string()])
            .stdin(OwnedFd::from(theirs))
            .spawn()
            .unwrap();
        Self { child, orders }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn nanos_per_read(&self) -> f64 {
        let run = || {
            (&self.orders).write_all(&[1]).unwrap();
            let mut nanos = [0; 8];
            (&self.orders).read_exact(&mut nanos).unwrap();
            u64::from_ne_bytes(nanos)
        };
        let fastest = (0..RUNS).map(|_| run()).min().unwrap();
        fastest as f64 / READS as f64
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// At each order: [`READS`] reads, and how long they took together.
fn be_reader() {
    pin(std::env::args().nth(2).unwrap().parse().unwrap());
    // From a socket the standard library receives by recvfrom(2): all calls of read(2) are counted ones.
    let mut orders = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().unwrap());
    let zero = File::open("/dev/zero").unwrap();
    while matches!(orders.read(&mut [0]), Ok(1)) {
        let started = Instant::now();
        for _ in 0..READS {
            read(&zero, &mut [0]).unwrap();
        }
        let nanos = started.elapsed().as_nanos() as u64;
        orders.write_all(&nanos.to_ne_bytes()).unwrap();
    }
}

fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap()).collect()
}

fn pin(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();
}
