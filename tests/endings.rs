//! However a measurement ends, what was measured is printed, and nothing stays in the kernel.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use std::fs::File;
use std::io::{Read as _, Write as _, pipe};
use std::process::{Command, Stdio};

use ::rlat::process::{Activity, activity};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use support::{Ledger, RLAT, Report, Rlat, Workload, can_measure, rlat, until, workload};

/// A workload that has nothing to do, or makes 1,000 calls when it is told to.
fn target() -> Workload {
    Workload::start(["reads", "1000", "1"])
}

const A_THOUSAND: Ledger =
    Ledger { entered: 1000, before: 0, recorded: 1000, in_flight: 0, ended: 0, lost: 0 };

#[test]
fn each_signal_that_asks_for_an_end_gets_the_result() {
    if !can_measure() {
        return;
    }
    let mut target = target();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let rlat = Rlat::measure(target.pid);
        target.carry_out();
        rlat.send(signal);
        let report = rlat.result();
        assert_eq!(report.ledger, A_THOUSAND, "{signal}: {report}");
        assert!(report.text.contains(", until interrupted"), "{signal}: {report}");
    }
}

#[test]
fn an_ignored_hangup_does_not_end_it() {
    if !can_measure() {
        return;
    }
    let mut target = target();
    // As nohup(1) does, which would also choose another output.
    let mut rlat = Command::new("sh");
    rlat.args(["-c", "trap '' HUP; exec \"$@\"", "sh", RLAT, "-v", "-d", "0"]);
    let rlat = Rlat::with_open_window(rlat.arg(target.pid.to_string()));
    rlat.send(Signal::SIGHUP);
    target.carry_out();
    let report = rlat.interrupt();
    assert_eq!(report.ledger, A_THOUSAND, "{report}");
}

/// A shell has SIGINT ignored in what it starts in the background, and who sends one wants an end.
#[test]
fn an_ignored_interrupt_does_end_it() {
    if !can_measure() {
        return;
    }
    let target = target();
    let mut rlat = Command::new("sh");
    rlat.args(["-c", "trap '' INT; exec \"$@\"", "sh", RLAT, "-v", "-d", "0"]);
    let report = Rlat::with_open_window(rlat.arg(target.pid.to_string())).interrupt();
    assert_eq!(report.ledger, Ledger::default(), "{report}");
}

#[test]
fn the_end_of_the_process_ends_the_measurement() {
    if !can_measure() {
        return;
    }
    let mut target = target();
    let rlat = Rlat::measure(target.pid);
    target.carry_out();
    target.end();
    let report = rlat.result();
    assert_eq!(report.ledger, A_THOUSAND, "{report}");
    assert!(report.text.contains(", until the process ended"), "{report}");
}

#[test]
fn the_end_of_the_time_ends_the_measurement_and_all_is_quiet() {
    if !can_measure() {
        return;
    }
    let target = target();
    let ended =
        Rlat::spawn(rlat(["-d", "50ms", &target.pid.to_string()]).stdout(Stdio::piped())).ended();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stderr.starts_with("ready\nhint: "), "{ended:#?}");
    assert_eq!(Report::of(&ended.stdout).ledger, Ledger::default());
}

#[test]
fn on_a_terminal_the_progress_is_shown_and_what_is_measured() {
    if !can_measure() || !requirements::tool("script", "bsdutils") {
        return;
    }
    let target = target();
    // script(1) makes a terminal of standard error; standard output goes elsewhere.
    let command = format!("{RLAT} -d 100ms {} >/dev/null", target.pid);
    let shown = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let shown = String::from_utf8(shown.stdout).unwrap();
    let subject = format!("read() of workload (process {}, 2 threads) on Linux ", target.pid);
    assert!(shown.contains(&subject), "{shown}");
    assert!(shown.contains("1 s left, 0 calls"), "{shown}");
}

#[test]
fn a_result_that_cannot_be_written_goes_to_standard_error_with_the_reason() {
    if !can_measure() {
        return;
    }
    let mut target = target();
    let (reader, nobody_reads) = pipe().unwrap();
    drop(reader);
    let full = File::options().write(true).open("/dev/full").unwrap();
    for (stdout, reason) in [
        (Stdio::from(full), "ENOSPC: No space left on device"),
        (Stdio::from(nobody_reads), "EPIPE: Broken pipe"),
    ] {
        let mut command = rlat(["-v", "-d", "0", &target.pid.to_string()]);
        let mut rlat = Rlat::spawn(command.stdout(stdout));
        rlat.wait_for_window();
        target.carry_out();
        rlat.send(Signal::SIGINT);
        let ended = rlat.ended();
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        assert_eq!(Report::of(&ended.stderr).ledger, A_THOUSAND);
        let message = format!("rlat: cannot write the result to standard output: {reason}");
        assert!(ended.stderr.contains(&message), "{ended:#?}");
        assert!(ended.stderr.contains("\n  next: "), "{ended:#?}");
    }
}

#[test]
fn a_reader_that_wants_one_line_only_gets_it_without_a_complaint() {
    if !can_measure() {
        return;
    }
    let target = target();
    let shell = format!("{RLAT} -d 10ms {} | head -n 1", target.pid);
    let output = Command::new("sh").args(["-c", &shell]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "@calls: 0\n");
    let stderr = String::from_utf8(output.stderr).unwrap();
    let expected = |line: &str| line == "ready" || line.starts_with("hint: ");
    assert!(stderr.lines().all(expected), "{stderr}");
}

#[test]
fn a_reader_that_leaves_in_the_middle_hears_no_complaint_either() {
    if !can_measure() {
        return;
    }
    // Each of them is a line of the result, which is therefore more than a pipe holds.
    let mut target = Workload::start(["input", "1500"]);
    target.start_reading(1500);
    let (reader, stdout) = pipe().unwrap();
    let mut rlat = Rlat::spawn(rlat(["-v", "-d", "0", &target.pid.to_string()]).stdout(stdout));
    rlat.wait_for_window();
    rlat.send(Signal::SIGINT);
    wait_until_in_write(&rlat);
    drop(reader);
    let ended = rlat.ended();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(!ended.stderr.contains("rlat: "), "{ended:#?}");
    assert!(!ended.stderr.contains("@calls"), "{ended:#?}");
}

#[test]
fn a_second_interrupt_ends_it_even_when_nobody_takes_the_result() {
    if !can_measure() {
        return;
    }
    let target = target();
    let (mut reader, mut full) = pipe().unwrap();
    fcntl(&full, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while full.write(b"x").is_ok() {}
    fcntl(&full, FcntlArg::F_SETFL(OFlag::empty())).unwrap();

    let mut rlat = Rlat::spawn(rlat(["-v", "-d", "0", &target.pid.to_string()]).stdout(full));
    rlat.wait_for_window();
    rlat.send(Signal::SIGINT);
    wait_until_in_write(&rlat);
    rlat.send(Signal::SIGINT);
    let ended = rlat.ended();
    assert_eq!(ended.code, Some(128 + libc::SIGINT), "{ended:#?}");
    let mut taken = String::new();
    reader.read_to_string(&mut taken).unwrap();
    assert!(taken.bytes().all(|byte| byte == b'x'));
}

/// Waits until rlat waits for somebody to take its result.
fn wait_until_in_write(rlat: &Rlat) {
    until("rlat is in write()", || {
        let now = activity(rlat.pid(), rlat.pid());
        matches!(now, Ok(Activity::InSyscall { number: libc::SYS_write, args: [1, ..], .. }))
            .then_some(())
    });
}

/// The ids of all programs in the kernel.
fn programs() -> Vec<u32> {
    let output = workload().arg("programs").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(|id| id.parse().unwrap()).collect()
}

/// rlat, and the ids of the programs that it has loaded and attached.
fn measure_with_programs(pid: u32) -> (Rlat, Vec<u32>) {
    let mut rlat = Rlat::measure_with(&["-v", &pid.to_string()]);
    let loaded: Vec<u32> = ["rlat_read_enter", "rlat_read_exit", "rlat_thread_end"]
        .iter()
        .map(|name| {
            let said = rlat.said(&format!("program {name}: id "));
            said.split(',').next().unwrap().parse().unwrap()
        })
        .collect();
    let now = programs();
    assert!(loaded.iter().all(|id| now.contains(id)), "{loaded:?} are not among {now:?}");
    (rlat, loaded)
}

/// The kernel lets go of programs some time after their last user has.
fn wait_until_gone(loaded: &[u32]) {
    until("the programs are gone", || {
        let now = programs();
        (!loaded.iter().any(|id| now.contains(id))).then_some(())
    });
}

#[test]
fn its_programs_leave_the_kernel_with_it() {
    if !can_measure() {
        return;
    }
    let target = target();
    let (rlat, loaded) = measure_with_programs(target.pid);
    rlat.interrupt();
    wait_until_gone(&loaded);
}

#[test]
fn even_when_it_is_killed_its_programs_leave_the_kernel() {
    if !can_measure() {
        return;
    }
    let target = target();
    let (rlat, loaded) = measure_with_programs(target.pid);
    rlat.send(Signal::SIGKILL);
    let ended = rlat.ended();
    assert_eq!((ended.code, ended.stdout.as_str()), (None, ""), "{ended:#?}");
    wait_until_gone(&loaded);
}
