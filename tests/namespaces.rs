//! A process in a PID namespace of its own, as in a container: it is measured exactly from inside and
//! from outside, and each side is shown the ids that it knows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use rlat::process::{Status, innermost_tid, tids};
use support::{
    Ended, Ledger, RLAT, Report, Rlat, Workload, can_measure, child_of, send, workload_path,
};

/// Whether a namespace can be made here. If not, the reason is printed.
fn can_unshare() -> bool {
    can_measure() && {
        let tried =
            Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).output();
        match tried {
            Ok(tried) if tried.status.success() => true,
            Ok(tried) => requirements::skip(String::from_utf8_lossy(&tried.stderr)),
            Err(error) => requirements::skip(format!("unshare(1) does not start: {error}")),
        }
    }
}

/// A workload in a PID namespace of its own, with its own /proc. Process 1 there is a shell, which stays
/// when the workload ends: for its end would be everybody's.
struct Contained {
    workload: Workload,
    shell: u32,
}

impl Contained {
    fn start<const N: usize>(args: [&str; N]) -> Self {
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--pid", "--fork", "--mount-proc"])
            .args(["sh", "-c", "\"$@\"; exec sleep infinity", "sh"])
            .arg(workload_path())
            .args(args);
        let mut workload = Workload::spawn(&mut unshare);
        workload.wait_until_ready();
        let shell = child_of(workload.pid);
        workload.pid = child_of(shell);
        Self { workload, shell }
    }

    /// The workload's id in its namespace.
    fn inner_pid(&self) -> u32 {
        innermost_tid(self.workload.pid, self.workload.pid).unwrap()
    }

    /// Measures it from inside.
    fn measure(&self) -> Inside {
        Inside::measure(self.shell, &[&self.inner_pid().to_string()])
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        // With the first process of a namespace all others in it end.
        send(Signal::SIGKILL, self.shell);
    }
}

/// rlat in the PID namespace of some process, with the /proc of that.
struct Inside {
    /// Its parent, nsenter(1), which ends with its exit code.
    nsenter: Rlat,
    /// Its id, as the tests see it.
    pid: u32,
}

impl Inside {
    fn measure(namespace_of: u32, args: &[&str]) -> Self {
        let mut nsenter = Command::new("nsenter");
        nsenter
            .args(["--target", &namespace_of.to_string(), "--pid", "--mount", "--"])
            .args([RLAT, "-d", "0"])
            .args(args);
        let nsenter = Rlat::with_open_window(&mut nsenter);
        Self { pid: child_of(nsenter.pid()), nsenter }
    }

    fn interrupt(self) -> Report {
        send(Signal::SIGINT, self.pid);
        self.nsenter.result()
    }
}

/// The id that the tests see of a thread, by the one in its own namespace.
fn visible_tid(pid: u32, inner: u32) -> u32 {
    tids(pid).into_iter().find(|tid| innermost_tid(pid, *tid) == Some(inner)).unwrap()
}

#[test]
fn both_sides_count_the_same_calls_and_all_of_them() {
    if !can_unshare() {
        return;
    }
    let mut contained = Contained::start(["reads", "500", "8"]);
    assert_ne!(contained.inner_pid(), contained.workload.pid);
    let outside = Rlat::measure(contained.workload.pid);
    let inside = contained.measure();
    contained.workload.carry_out();
    let ledger = Ledger { entered: 4000, recorded: 4000, ..Ledger::default() };
    for report in [inside.interrupt(), outside.interrupt()] {
        assert_eq!(report.ledger, ledger, "{report}");
    }
}

#[test]
fn both_sides_filter_by_descriptor() {
    if !can_unshare() {
        return;
    }
    let mut contained = Contained::start(["mixed", "100"]);
    let fd = (0..3).map(|_| contained.workload.report("descriptor ") as u32).last().unwrap();
    let outside = Rlat::measure_descriptor(contained.workload.pid, fd);
    let inner_pid = contained.inner_pid().to_string();
    let inside = Inside::measure(contained.shell, &[&inner_pid, &fd.to_string()]);
    contained.workload.carry_out();
    let ledger = Ledger { entered: 300, recorded: 300, ..Ledger::default() };
    for report in [inside.interrupt(), outside.interrupt()] {
        assert_eq!(report.ledger, ledger, "{report}");
    }
}

#[test]
fn calls_in_flight_are_listed_with_the_ids_that_each_side_sees() {
    if !can_unshare() {
        return;
    }
    let mut contained = Contained::start(["input", "2"]);
    let pid = contained.workload.pid;
    let outside = Rlat::measure(pid);
    let inside = contained.measure();
    contained.workload.order();
    let inner: Vec<u32> = (0..2).map(|_| contained.workload.report("thread ") as u32).collect();
    let outer: Vec<u32> = inner.iter().map(|tid| visible_tid(pid, *tid)).collect();
    for tid in &outer {
        contained.workload.wait_until_in_read(*tid);
    }
    for (report, tids) in [(inside.interrupt(), inner), (outside.interrupt(), outer)] {
        let ledger = Ledger { entered: 2, in_flight: 2, ..Ledger::default() };
        assert_eq!(report.ledger, ledger, "{report}");
        for tid in tids {
            let thread = format!("thread {tid} (reader-");
            let listed = |call: &&str| call.starts_with(&thread) && call.contains("-> pipe:[");
            assert!(report.in_flight().iter().any(listed), "{thread} is not listed; {report}");
        }
    }
    // And those that began before the window.
    let outside = Rlat::measure(pid).interrupt();
    let inside = contained.measure().interrupt();
    for report in [inside, outside] {
        let ledger = Ledger { before: 2, in_flight: 2, ..Ledger::default() };
        assert_eq!(report.ledger, ledger, "{report}");
    }
}

#[test]
fn the_end_of_the_process_is_seen_from_both_sides() {
    if !can_unshare() {
        return;
    }
    let mut contained = Contained::start(["reads", "10", "1"]);
    let outside = Rlat::measure(contained.workload.pid);
    let inside = contained.measure();
    contained.workload.carry_out();
    contained.workload.dismiss();
    for report in [inside.nsenter.result(), outside.result()] {
        assert_eq!(report.ledger.recorded, 10, "{report}");
        assert!(report.text.contains(", until the process ended"), "{report}");
    }
}

/// Ids are given again soon in a small namespace: here to threads of the very same process.
#[test]
fn a_reused_thread_id_does_not_inherit_the_call_of_the_thread_that_had_it() {
    if !can_unshare() {
        return;
    }
    let mut contained = Contained::start(["reuse", "4", "5"]);
    let workload = &mut contained.workload;
    let rlat = Rlat::measure_descriptor(workload.pid, 0);
    workload.order();
    for _ in 0..4 {
        let tid = visible_tid(workload.pid, workload.report("thread ") as u32);
        workload.wait_until_in_read(tid);
    }
    // execve(2) ends the four inside of their calls; then four threads with their ids call.
    workload.order();
    workload.wait_until_ready();
    workload.write(&[b'.'; 20]);
    workload.carry_out();
    let report = rlat.interrupt();
    let ledger = Ledger { entered: 24, recorded: 20, ended: 4, ..Ledger::default() };
    assert_eq!(report.ledger, ledger, "{report}");
    assert_eq!(report.in_flight(), [""; 0], "{report}");
}

#[test]
fn a_proc_of_another_namespace_is_refused_since_its_ids_mean_others() {
    if !can_unshare() {
        return;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", RLAT, "-d", "10ms", "1"]).stdout(Stdio::piped());
    let ended = Rlat::spawn(&mut unshare).ended();
    let Ended { code, stdout, stderr } = &ended;
    assert_eq!((*code, stdout.as_str()), (Some(1), ""), "{ended:#?}");
    assert!(stderr.contains("/proc was mounted for another PID namespace"), "{stderr}");
    assert!(stderr.contains("\n  next: mount its own over it"), "{stderr}");
}

#[test]
fn a_process_in_a_namespace_within_the_namespace_is_counted_from_all_three() {
    if !can_unshare() {
        return;
    }
    let around = Contained::start(["reads", "1", "1"]);
    let mut nested = Command::new("nsenter");
    nested
        .args(["--target", &around.shell.to_string(), "--pid", "--mount"])
        .args(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(workload_path())
        .args(["reads", "500", "2"]);
    let mut nested = Workload::spawn(&mut nested);
    nested.wait_until_ready();
    let pid = child_of(child_of(nested.pid));
    let ids = Status::read(pid).unwrap().namespace_tids;
    let [.., in_the_middle, innermost] = ids[..] else { panic!("{ids:?}") };

    let outside = Rlat::measure(pid);
    let between = Inside::measure(around.shell, &[&in_the_middle.to_string()]);
    let inside = Inside::measure(pid, &[&innermost.to_string()]);
    nested.carry_out();
    let ledger = Ledger { entered: 1000, recorded: 1000, ..Ledger::default() };
    for report in [inside.interrupt(), between.interrupt(), outside.interrupt()] {
        assert_eq!(report.ledger, ledger, "{report}");
    }
}
