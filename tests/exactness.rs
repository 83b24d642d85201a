//! Every call is counted, and none that is not asked for.
//!
//! The workload says when it has made its calls; then rlat is told to end. So each number is exact,
//! however slow or busy the machine.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use std::time::Duration;

use support::{Hogs, Ledger, Report, Rlat, Workload, can_measure};

const ROUNDS: usize = 10;
const CALLS: u64 = 6_400;

/// The two ways to attach.
const WAYS: [&str; 2] = ["--attach=tracepoint", "--attach=raw"];

/// A ledger in which all calls were recorded.
fn recorded(calls: u64) -> Ledger {
    Ledger { entered: calls, recorded: calls, ..Ledger::default() }
}

/// Measures the workload while it carries out an order; anew when somebody's bpf(2) calls made the
/// kernel skip our programs, for then no exact number can be asked for, and the report says so.
fn measure_order(workload: &mut Workload, start: impl Fn(&Workload) -> Rlat) -> Report {
    for _ in 0..ROUNDS {
        let rlat = start(workload);
        workload.carry_out();
        let report = rlat.interrupt();
        if !report.was_disturbed() {
            return report;
        }
        eprintln!("disturbed: {report}");
    }
    panic!("the kernel skips programs again and again");
}

/// While every CPU is wanted by somebody else, too, so that rlat and the workload are preempted.
fn is_exact_with(threads: u64) {
    if !can_measure() {
        return;
    }
    let calls = CALLS / threads;
    let mut workload = Workload::start(["reads", &calls.to_string(), &threads.to_string()]);
    let _hogs = Hogs::on_all_cpus();
    for round in 0..ROUNDS {
        let attach = WAYS[round % WAYS.len()];
        let report = measure_order(&mut workload, |workload| {
            Rlat::measure_with(&[attach, &workload.pid.to_string()])
        });
        assert_eq!(report.ledger, recorded(CALLS), "{attach}: {report}");
    }
}

#[test]
fn all_calls_of_one_thread_are_recorded() {
    is_exact_with(1);
}

#[test]
fn all_calls_of_8_threads_are_recorded() {
    is_exact_with(8);
}

#[test]
fn all_calls_of_64_threads_are_recorded() {
    is_exact_with(64);
}

#[test]
fn more_threads_than_there_is_room_for_fit_when_each_ends_before_the_next() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["short", "5000"]);
    for attach in WAYS {
        let report = measure_order(&mut workload, |workload| {
            Rlat::measure_with(&[attach, "--starts=100", &workload.pid.to_string()])
        });
        assert_eq!(report.ledger, recorded(5000), "{attach}: {report}");
    }
}

#[test]
fn a_crowd_of_threads_fits_by_default() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["crowd", "10000"]);
    let rlat = Rlat::measure(workload.pid);
    workload.carry_out();
    let report = rlat.interrupt();
    assert_eq!(report.ledger.lost, 0, "{report}");
    assert!(report.ledger.recorded >= 10_000, "{report}");
}

#[test]
fn each_blocked_thread_without_room_is_one_lost_call() {
    if !can_measure() {
        return;
    }
    for attach in WAYS {
        let mut workload = Workload::start(["input", "8"]);
        let rlat = Rlat::measure_with(&[attach, "--starts=4", &workload.pid.to_string(), "0"]);
        workload.start_reading(8);
        let report = rlat.interrupt();
        let ledger = Ledger { entered: 8, in_flight: 4, lost: 4, ..Ledger::default() };
        assert_eq!(report.ledger, ledger, "{attach}: {report}");
    }
}

#[test]
fn calls_of_more_threads_than_there_is_room_for_are_told_as_lost() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["crowd", "4200"]);
    let fd = workload.report("descriptor ") as u32;
    let (pid, fd) = (workload.pid.to_string(), fd.to_string());
    let rlat = Rlat::measure_with(&["--starts", "4096", &pid, &fd]);
    workload.carry_out();
    let report = rlat.interrupt();
    let ledger = Ledger { entered: 4200, recorded: 4096, lost: 104, ..Ledger::default() };
    assert_eq!(report.ledger, ledger, "{report}");
    let why = "104 calls: the store of start times had no room for one more thread";
    assert_eq!(report.line("lost: "), Some(why), "{report}");
    assert_eq!(report.line("note: "), None, "{report}");
}

#[test]
fn calls_of_another_process_are_not_counted() {
    if !can_measure() {
        return;
    }
    // More calls than it can make meanwhile: it goes on until the test ends.
    let noise = Workload::start(["reads", "1000000000", "2"]);
    noise.order();
    let mut workload = Workload::start(["reads", "1000", "2"]);
    let report = measure_order(&mut workload, |workload| Rlat::measure(workload.pid));
    assert_eq!(report.ledger, recorded(2000), "{report}");
}

#[test]
fn a_descriptors_calls_are_told_from_others_in_the_same_thread() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["mixed", "1000"]);
    for times in [1, 2, 3] {
        let fd = workload.report("descriptor ") as u32;
        let report =
            measure_order(&mut workload, |workload| Rlat::measure_descriptor(workload.pid, fd));
        assert_eq!(report.ledger, recorded(times * 1000), "{report}");
        // Nor do the exits of the other ones look like exits of calls from before the window.
        assert_eq!(report.line("note: "), None, "{report}");
    }
    let all = measure_order(&mut workload, |workload| Rlat::measure(workload.pid));
    assert_eq!(all.ledger, recorded(6000), "{all}");
}

#[test]
fn a_descriptors_calls_are_told_from_waiting_ones_in_other_threads() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["input", "3"]);
    let readers = workload.start_reading(3);
    let other_fd = 99;
    let rlat = Rlat::measure_descriptor(workload.pid, other_fd);
    for _ in 0..100 {
        workload.write(b".");
        workload.report("took ");
    }
    for reader in readers {
        workload.wait_until_in_read(reader);
    }
    let report = rlat.interrupt();
    assert_eq!(report.ledger, Ledger::default(), "{report}");
    assert_eq!(report.in_flight(), [""; 0], "{report}");
}

#[test]
fn delays_are_found_in_the_bucket_of_their_length() {
    if !can_measure() {
        return;
    }
    // Each in the lower half of its bucket, so that a reader may be late.
    let delays = [2_100, 20_000, 140_000].map(Duration::from_micros);
    let mut workload = Workload::start(["input", "1"]);
    let rlat = Rlat::measure(workload.pid);
    let reader = workload.start_reading(1)[0];
    let mut known = Vec::new();
    for delay in delays {
        workload.wait_until_in_read(reader);
        std::thread::sleep(delay);
        workload.write(b".");
        let at_most = workload.report("took ");
        known.push((delay.as_micros() as u64, at_most / 1000));
    }
    workload.wait_until_in_read(reader);
    let report = rlat.interrupt();
    let ledger = Ledger { entered: 4, recorded: 3, in_flight: 1, ..Ledger::default() };
    assert_eq!(report.ledger, ledger, "{report}");
    for (at_least, at_most) in known {
        let bucket = |us: u64| us.next_power_of_two() >> u32::from(!us.is_power_of_two());
        let between = bucket(at_least)..=bucket(at_most);
        let found = report.rows.iter().any(|&(from, count)| count > 0 && between.contains(&from));
        assert!(found, "no call of {at_least} to {at_most} us, but {report}");
    }
}
