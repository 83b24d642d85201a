//! What is measured may be gone, going, stopped, a thread; and others may look at it, too.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod documented;
mod held;
mod peer;
mod requirements;
mod support;

use std::process::{Command, Stdio};

use documented::assert_documented;
use held::Held;
use nix::sys::signal::Signal;
use peer::Bpftrace;
use serde_json::Value;
use support::{Ended, Ledger, RLAT, Report, Rlat, Workload, can_measure, rlat, send, until};

/// How often a comparison is tried anew when bpf(2) calls of others made the kernel skip programs.
const ROUNDS: usize = 10;

fn run(command: &mut Command) -> Ended {
    Rlat::spawn(command.stdout(Stdio::piped())).ended()
}

#[test]
fn a_process_that_ends_at_any_moment_ends_the_measurement() {
    if !can_measure() {
        return;
    }
    let target = Workload::start(["reads", "10", "1"]);
    let mut held = Held::start(&mut rlat(["-v", "-d", "0", &target.pid.to_string()]));
    target.end();
    held.release();
    let report = held.result();
    assert_eq!(report.ledger, Ledger::default(), "{report}");
    assert!(report.text.contains(", until the process ended"), "{report}");
    assert_documented("the process ends before the window opens", Some(0), "");

    let mut target = Workload::start(["reads", "10", "1"]);
    let rlat = Rlat::measure(target.pid);
    target.carry_out();
    target.end();
    let ended = rlat.ended();
    let report = Report::of(&ended.stdout);
    assert_eq!(report.ledger.recorded, 10, "{report}");
    assert!(report.text.contains(", until the process ended"), "{report}");
    assert_documented("the process ends while it is measured", ended.code, &ended.stderr);
}

#[test]
fn a_thread_stands_for_its_process_unless_it_is_asked_for_alone() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["input", "1"]);
    let thread = target.start_reading(1)[0].to_string();
    let ended = run(&mut rlat(["-d", "1ms", &thread]));
    assert_documented("the id is that of a thread", ended.code, &ended.stderr);
    let ended = run(&mut rlat(["-d", "1ms", "--tid", &thread]));
    assert_documented("the id is that of a thread, `--tid`", ended.code, &ended.stderr);
    assert_eq!(Report::of(&ended.stdout).ledger.in_flight, 1);
}

#[test]
fn a_suspended_process_is_told_of_and_measured_when_it_goes_on() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["reads", "10", "1"]);
    send(Signal::SIGSTOP, target.pid);
    until("it is stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", target.pid)).unwrap();
        stat.rsplit(") ").next()?.starts_with('T').then_some(())
    });
    let ended = run(&mut rlat(["-d", "1ms", &target.pid.to_string()]));
    assert_documented("the process is suspended", ended.code, &ended.stderr);

    let rlat = Rlat::measure(target.pid);
    target.order();
    send(Signal::SIGCONT, target.pid);
    target.report("done");
    assert_eq!(rlat.interrupt().ledger.recorded, 10);
}

/// Two of the same and one of another kind: nobody takes a call from anybody.
#[test]
fn several_tracers_at_once_count_every_call() {
    const CALLS: u64 = 2_000;
    if !can_measure() || !peer::bpftrace() {
        return;
    }
    let mut target = Workload::start(["reads", &CALLS.to_string(), "1"]);
    let script = format!(
        "tracepoint:syscalls:sys_enter_read /pid == {0}/ {{ @entered = count(); }}
         tracepoint:syscalls:sys_exit_read /pid == {0}/ {{ @returned = count(); }}",
        target.pid
    );
    for _ in 0..ROUNDS {
        let pid = target.pid.to_string();
        let bpftrace = Bpftrace::attach(&script);
        let rlats = ["tracepoint", "raw"].map(|way| {
            Rlat::with_open_window(&mut rlat(["-d", "0", "-f", "json", "--attach", way, &pid]))
        });
        target.carry_out();
        let ended = rlats.map(|rlat| {
            rlat.send(Signal::SIGINT);
            rlat.ended()
        });
        let theirs = bpftrace.end();
        let mut is_disturbed = false;
        let counts = ended.iter().map(|ended| {
            let lines: Vec<Value> =
                ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let missed = &lines.last().unwrap()["data"]["missed_runs"];
            let mut missed = missed.as_object().into_iter().flat_map(|missed| missed.values());
            is_disturbed |= missed.any(|runs| *runs != 0);
            let ledger = lines.iter().find(|line| line["type"] == "ledger").unwrap();
            ledger["data"]["recorded"].as_u64().unwrap()
        });
        let counts: Vec<u64> = counts.collect();
        if is_disturbed {
            continue;
        }
        assert_eq!(counts, [CALLS, CALLS], "{ended:#?}");
        for map in ["@entered", "@returned"] {
            assert!(theirs.contains(&format!("{map}: {CALLS}\n")), "{theirs}");
        }
        for ended in ended {
            let wrong = "another rlat and bpftrace measure the same process";
            assert_documented(wrong, ended.code, &ended.stderr);
        }
        return;
    }
    panic!("the kernel skips programs again and again");
}

/// There the clock of rlat is not that of its programs. (Nobody may set the kernel's monotonic clock.)
#[test]
fn in_a_time_namespace_a_call_in_flight_is_no_older_than_it_is() {
    const OFFSET_S: u64 = 1_000_000;
    if !can_measure() || !requirements::tool("unshare", "util-linux") {
        return;
    }
    let offset = format!("--monotonic={OFFSET_S}");
    let unshare = ["unshare", "--fork", "--kill-child", "--time", &offset];
    let unshared = Command::new(unshare[0]).args(&unshare[1..]).arg("true").status().unwrap();
    if !unshared.success() {
        requirements::skip("time namespaces cannot be had");
        return;
    }
    for command in [&["-d", "0", "-f", "json"] as &[_], &["survey", "-d", "0"]] {
        let mut target = Workload::start(["input", "1"]);
        let mut command_line = Command::new(unshare[0]);
        command_line.args(&unshare[1..]).arg(RLAT).args(command).arg(target.pid.to_string());
        let mut rlat = Rlat::spawn(command_line.stdout(Stdio::piped()));
        rlat.wait_for_window();
        target.start_reading(1);
        send(Signal::SIGINT, support::child_of(rlat.pid()));
        let ended = rlat.ended();
        assert_documented("rlat runs in a time namespace", ended.code, &ended.stderr);
        if command[0] == "survey" {
            let in_flight = ended.stdout.lines().filter(|line| line.starts_with("in flight: "));
            let since = in_flight.filter(|line| line.contains(" in read, ")).collect::<Vec<_>>();
            assert_eq!(since.len(), 1, "{ended:#?}");
            assert!(!since[0].contains(&OFFSET_S.to_string()), "{ended:#?}");
        } else {
            let lines =
                ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let lines: Vec<Value> = lines.filter(|line| line["type"] == "inflight").collect();
            assert_eq!(lines.len(), 1, "{ended:#?}");
            let elapsed = lines[0]["data"]["elapsed_ns"].as_u64().unwrap();
            assert!(elapsed < OFFSET_S * 1_000_000_000, "{lines:#?}");
        }
    }
}
