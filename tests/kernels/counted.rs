//! Each call is counted once, and in the bucket of its length, in both ways of attaching.

use std::thread::sleep;
use std::time::Duration;

use rlat::loader::kernel_version;

use crate::pinned::{allowed, pin};
use crate::support::{Ledger, Report, Rlat, Workload, can_measure};

/// How often to try again where somebody's bpf(2) made the kernel skip a program.
const TRIES: usize = 5;

/// Measures an order until nothing disturbed it, and looks whether every call was recorded.
fn is_exact(workload: &mut Workload, options: &[&str], calls: u64) {
    let pid = workload.pid.to_string();
    for _ in 0..TRIES {
        let rlat = Rlat::measure_with(&[options, &[&pid]].concat());
        workload.carry_out();
        let report = rlat.interrupt();
        if report.was_disturbed() {
            eprintln!("disturbed: {report}");
            continue;
        }
        let all = Ledger { entered: calls, recorded: calls, ..Ledger::default() };
        assert_eq!(report.ledger, all, "{options:?}: {report}");
        return;
    }
    panic!("the kernel skips programs again and again");
}

/// From Linux 7.2 on a program can be preempted, and is skipped for others on that CPU meanwhile: threads
/// that compete lose calls there, as docs/kernels.md tells.
fn threads() -> u64 {
    if kernel_version().unwrap() >= (7, 2) { 1 } else { 4 }
}

fn threads_are_counted(option: &str) {
    if !can_measure() {
        return;
    }
    let threads = threads();
    let mut workload = Workload::start(["reads", "500", &threads.to_string()]);
    is_exact(&mut workload, &[option], 500 * threads);
}

#[test]
fn every_call_is_counted_on_its_own_tracepoints() {
    threads_are_counted("--attach=tracepoint");
}

#[test]
fn every_call_is_counted_on_the_raw_tracepoints() {
    threads_are_counted("--attach=raw");
}

#[test]
fn calls_on_each_cpu_are_counted() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["reads", "200", "1"]);
    let cpus = allowed();
    // Of many the first two and the last two.
    let some = cpus.iter().take(2).chain(cpus.iter().skip(2.max(cpus.len().saturating_sub(2))));
    for &cpu in some {
        pin(workload.pid, cpu);
        for option in ["--attach=tracepoint", "--attach=raw"] {
            is_exact(&mut workload, &[option], 200);
        }
    }
}

#[test]
fn calls_are_found_in_the_buckets_of_their_lengths() {
    lengths_are_found("--attach=tracepoint");
}

#[test]
fn calls_on_the_raw_tracepoints_are_found_in_the_buckets_of_their_lengths() {
    lengths_are_found("--attach=raw");
}

fn lengths_are_found(option: &str) {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["input", "1"]);
    let rlat = Rlat::measure_with(&[option, &workload.pid.to_string()]);
    let reader = workload.start_reading(1)[0];
    let delays = [1_100, 17_000, 70_000].map(Duration::from_micros);
    let mut known = Vec::new();
    for delay in delays {
        workload.wait_until_in_read(reader);
        sleep(delay);
        workload.write(b".");
        known.push((delay.as_micros() as u64, workload.report("took ") / 1000));
    }
    workload.wait_until_in_read(reader);
    let report = rlat.interrupt();
    let ledger = Ledger { entered: 4, recorded: 3, in_flight: 1, ..Ledger::default() };
    assert_eq!(report.ledger, ledger, "{option}: {report}");
    // How long the reader saw each call take is the upper limit, and the delay the lower one.
    for (at_least, at_most) in known {
        let found = report.rows.iter().any(|&row| overlaps(row, at_least, at_most));
        assert!(found, "{option}: no call of {at_least} to {at_most} us, but {report}");
    }
}

/// Whether a row with calls has some of the lengths in between.
fn overlaps((from, count): (u64, u64), at_least: u64, at_most: u64) -> bool {
    let to = (from * 2).max(from + 1);
    count > 0 && from <= at_most && at_least < to
}

/// A measurement that the host has no tracefs for; the harness sees to that.
pub(crate) fn exact_without_options() -> Report {
    let mut workload = Workload::start(["reads", "500", "1"]);
    let rlat = Rlat::measure(workload.pid);
    workload.carry_out();
    let report = rlat.interrupt();
    let all = Ledger { entered: 500, recorded: 500, ..Ledger::default() };
    assert_eq!(report.ledger, all, "{report}");
    report
}
