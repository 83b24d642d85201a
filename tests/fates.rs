//! What becomes of calls that do not simply return: each is told, and none gets a made-up latency.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use std::io::Write as _;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use rlat::process::{Activity, activity, thread_name};
use support::{Ledger, Report, Rlat, Workload, can_measure, send, until};

/// The lines of a report that begin with `note: `.
fn notes(report: &Report) -> Vec<&str> {
    report.text.lines().filter_map(|line| line.strip_prefix("note: ")).collect()
}

#[test]
fn a_process_killed_inside_its_calls_leaves_nothing_behind() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["input", "3"]);
    let rlat = Rlat::measure(workload.pid);
    workload.start_reading(3);
    workload.kill();
    let report = rlat.result();
    assert_eq!(report.ledger, Ledger { entered: 3, ended: 3, ..Ledger::default() }, "{report}");
    assert_eq!(report.in_flight(), [""; 0], "{report}");
    assert!(report.text.contains(", until the process ended"), "{report}");
}

#[test]
fn threads_that_execve_ends_inside_their_calls_are_counted_and_the_process_goes_on() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["exec", "3", "5"]);
    let rlat = Rlat::measure_descriptor(workload.pid, 0);
    workload.start_reading(3);
    workload.order();
    workload.wait_until_ready();
    workload.write(b".....");
    workload.carry_out();
    let report = rlat.interrupt();
    let ledger = Ledger { entered: 8, recorded: 5, ended: 3, ..Ledger::default() };
    assert_eq!(report.ledger, ledger, "{report}");
    assert_eq!(report.in_flight(), [""; 0], "{report}");
}

#[test]
fn a_call_from_before_the_window_that_returns_inside_it_is_noted_and_not_recorded() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["input", "2"]);
    workload.start_reading(2);
    let rlat = Rlat::measure(workload.pid);
    // The end of the input: both calls return, and no others follow.
    workload.end_input();
    workload.report("took ");
    workload.report("took ");
    let report = rlat.interrupt();
    assert_eq!(report.ledger, Ledger::default(), "{report}");
    assert_eq!(
        notes(&report),
        [
            "2 calls already in flight when the window opened, on any descriptor, came back inside it: not \
             in the histogram"
        ],
        "{report}"
    );
}

#[test]
fn a_call_that_is_still_in_flight_at_the_end_is_listed_with_its_thread_and_descriptor() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["input", "2"]);
    let rlat = Rlat::measure(workload.pid);
    let readers = workload.start_reading(2);
    let input = std::fs::read_link(format!("/proc/{}/fd/0", workload.pid)).unwrap();
    let report = rlat.interrupt();
    assert_eq!(report.ledger, Ledger { entered: 2, in_flight: 2, ..Ledger::default() }, "{report}");
    assert_eq!(report.in_flight().len(), 2, "{report}");
    for reader in readers {
        let name = std::fs::read_to_string(format!("/proc/{reader}/comm")).unwrap();
        let call = format!("thread {reader} ({}) of process {}, ", name.trim_end(), workload.pid);
        let ends = format!(" so far, descriptor 0 -> {}", input.display());
        let is_it = |line: &&str| line.starts_with(&call) && line.ends_with(&ends);
        assert!(report.in_flight().iter().any(is_it), "{call} ... {ends} in {report}");
    }
}

/// It is the very call that somebody came for, and no program of ours ever sees it.
#[test]
fn a_call_that_hangs_for_the_whole_window_is_listed() {
    if !can_measure() {
        return;
    }
    let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    wait_until_in_read(cat.id());
    let rlat = Rlat::measure(cat.id());
    let report = rlat.interrupt();
    is_in_read_all_the_time(&report, cat.id(), "pipe:[");
    cat.stdin.take().unwrap().write_all(b".").unwrap();
    cat.wait().unwrap();
}

#[test]
fn cat_at_a_terminal_is_in_one_call_and_makes_no_other() {
    if !can_measure() || !requirements::tool("script", "bsdutils") {
        return;
    }
    // script(1) gives cat a terminal; its own input stays open, so that cat waits.
    let mut script = Command::new("script")
        .args(["--quiet", "--command", "exec cat", "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let cat = support::child_of(script.id());
    wait_until_in_read(cat);
    let report = Rlat::measure(cat).interrupt();
    is_in_read_all_the_time(&report, cat, "/dev/pts/");
    drop(script.stdin.take());
    script.wait().unwrap();
}

fn wait_until_in_read(cat: u32) {
    until("cat reads its input", || {
        let is_cat = thread_name(cat, cat).as_deref() == Some("cat");
        let reads = matches!(
            activity(cat, cat),
            Ok(Activity::InSyscall { number: libc::SYS_read, args: [0, ..], .. })
        );
        (is_cat && reads).then_some(())
    });
}

fn is_in_read_all_the_time(report: &Report, cat: u32, target: &str) {
    let ledger = Ledger { before: 1, in_flight: 1, ..Ledger::default() };
    assert_eq!(report.ledger, ledger, "{report}");
    let [call] = report.in_flight()[..] else { panic!("{report}") };
    assert!(call.starts_with(&format!("thread {cat} (cat), more than ")), "{report}");
    let ends = format!(" (since before the window), descriptor 0 -> {target}");
    assert!(call.contains(&ends), "{report}");
}

#[test]
fn a_call_that_a_handled_signal_interrupts_is_recorded_and_so_is_its_continuation() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["handler"]);
    let rlat = Rlat::measure(workload.pid);
    let reader = workload.start_reading(1)[0];
    for _ in 0..3 {
        send(Signal::SIGUSR1, workload.pid);
        // Once the handler has run, the call is no longer the same one: the kernel restarts it.
        workload.report("handled");
        workload.wait_until_in_read(reader);
    }
    workload.end_input();
    workload.report("took ");
    let report = rlat.interrupt();
    // One call for the program, four for the kernel: three interrupted ones, and the one that returned.
    assert_eq!(report.ledger, Ledger { entered: 4, recorded: 4, ..Ledger::default() }, "{report}");
    let notes = notes(&report);
    let [note] = notes[..] else { panic!("{report}") };
    assert!(note.starts_with("3 calls returned -512 to -516, interrupted by a signal"), "{report}");
}

#[test]
fn a_call_interrupted_by_a_deadly_signal_counts_as_ended_and_not_as_recorded() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["handler"]);
    let rlat = Rlat::measure(workload.pid);
    let reader = workload.start_reading(1)[0];
    send(Signal::SIGUSR1, workload.pid);
    workload.report("handled");
    workload.wait_until_in_read(reader);
    send(Signal::SIGTERM, workload.pid);
    let report = rlat.result();
    let ledger = Ledger { entered: 2, recorded: 1, ended: 1, ..Ledger::default() };
    assert_eq!(report.ledger, ledger, "{report}");
}
