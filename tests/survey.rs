//! `rlat survey` on the real kernel: every call is counted as what it is, and none is lost.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use rlat::loader::kernel_version;
use rlat::process::{Activity, activity};
use support::{
    Ended, Hogs, Lines, Rlat, Workload, can_measure, rlat, send, strace_counts, until,
    workload_path,
};

/// What a survey printed, taken apart; it adds up.
struct Survey {
    text: String,
    /// By name: calls and errors.
    calls: BTreeMap<String, (u64, u64)>,
    /// entered, before the window, recorded, in flight, ended, lost
    ledger: BTreeMap<String, u64>,
}

impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the survey is:\n{}", self.text)
    }
}

impl Survey {
    fn of(text: &str) -> Self {
        let number = |text: &str| text.replace(',', "").parse::<u64>().unwrap();
        let rows = text.lines().skip_while(|line| !line.starts_with("syscall ")).skip(1);
        let rows: Vec<Vec<&str>> = rows
            .take_while(|line| !line.is_empty())
            .map(|line| line.split_ascii_whitespace().collect())
            .collect();
        let calls: BTreeMap<String, (u64, u64)> = rows
            .iter()
            .map(|row| (row[0].to_owned(), (number(row[1]), number(row[2]))))
            .filter(|(name, _)| name != "total")
            .collect();
        let ledger = text.lines().find_map(|line| line.strip_prefix("ledger: ")).unwrap();
        let ledger: BTreeMap<String, u64> = ledger
            .split(['+', '='])
            .map(|term| term.trim().split_once(' ').unwrap())
            .map(|(count, what)| (what.to_owned(), number(count)))
            .collect();
        let survey = Self { text: text.to_owned(), calls, ledger };
        let in_rows: u64 = survey.calls.values().map(|(calls, _)| calls).sum();
        let of = |what| survey.ledger.get(what).copied().unwrap_or(0);
        assert_eq!(in_rows, of("recorded"), "{survey}");
        assert_eq!(
            of("entered") + of("entered before the window"),
            of("recorded") + of("in flight") + of("ended without an exit") + of("lost"),
            "{survey}"
        );
        assert_eq!(of("lost"), 0, "{survey}");
        if let Some(total) = rows.last() {
            assert_eq!((total[0], number(total[1])), ("total", in_rows), "{survey}");
        }
        survey
    }

    fn calls(&self, name: &str) -> u64 {
        self.calls.get(name).map_or(0, |(calls, _)| *calls)
    }

    fn in_ledger(&self, what: &str) -> u64 {
        self.ledger.get(what).copied().unwrap_or(0)
    }

    /// What follows in the lines that begin so.
    fn lines(&self, beginning: &str) -> Vec<&str> {
        self.text.lines().filter_map(|line| line.strip_prefix(beginning)).collect()
    }
}

fn start_survey(pid: u32) -> Rlat {
    Rlat::with_open_window(&mut rlat(["survey", "-d", "0", &pid.to_string()]))
}

fn finish(ended: &Ended) -> Survey {
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let survey = Survey::of(&ended.stdout);
    assert!(!survey.text.contains("missed runs"), "{survey}");
    survey
}

fn interrupt(rlat: Rlat) -> Survey {
    rlat.send(Signal::SIGINT);
    finish(&rlat.ended())
}

/// A program of known calls, which waits for its first order in recvfrom().
fn known_calls(times: u64, threads: u64) -> Workload {
    let path = workload_path().with_file_name("known_calls");
    let mut command = Command::new(path);
    command.args([times.to_string(), threads.to_string()]);
    let mut workload = Workload::spawn(&mut command);
    workload.wait_until_ready();
    wait_for_order(&workload);
    workload
}

/// Waits until the program waits for an order, so that all that it did before is over.
fn wait_for_order(workload: &Workload) {
    until("it waits for an order", || {
        let now = activity(workload.pid, workload.pid);
        matches!(now, Ok(Activity::InSyscall { number: libc::SYS_recvfrom, .. })).then_some(())
    });
}

/// A survey of one order. From Linux 7.2 on, whoever competes for a CPU can make the kernel skip a program, as
/// docs/kernels.md tells: then once more.
fn undisturbed() -> (Workload, Survey) {
    for _ in 0..5 {
        let mut workload = known_calls(300, 1);
        let rlat = start_survey(workload.pid);
        workload.carry_out();
        wait_for_order(&workload);
        rlat.send(Signal::SIGINT);
        let ended = rlat.ended();
        if kernel_version().unwrap() < (7, 2) || !ended.stdout.contains("missed runs") {
            return (workload, finish(&ended));
        }
        eprintln!("disturbed: {}", ended.stdout);
    }
    panic!("the kernel skips programs again and again");
}

/// What tests/support/known_calls.rs makes at an order: calls and errors, but for what it does for
/// the sake of orders and threads.
fn expected(times: u64, threads: u64) -> BTreeMap<String, (u64, u64)> {
    let often = times * threads;
    let calls = [
        ("getppid", often, 0),
        ("read", 4 * often, 3 * often),
        // The report of the end is one more.
        ("write", 2 * often + 1, 0),
        ("openat", 2 * often, often),
        ("close", often, 0),
        ("nanosleep", 3 * threads, 0),
        ("fsync", threads, 0),
        ("other", 3 * threads, 3 * threads),
    ];
    calls.into_iter().map(|(name, calls, errors)| (name.to_owned(), (calls, errors))).collect()
}

#[test]
fn every_call_is_counted_by_its_name_and_none_by_another() {
    if !can_measure() {
        return;
    }
    let (workload, survey) = undisturbed();
    assert_eq!(survey.calls, expected(300, 1), "{survey}");
    assert_eq!(survey.in_ledger("in flight"), 1, "{survey}");
    // The order that it waited for had been asked for before.
    assert!(survey.text.contains("note: 1 call in flight already when the window"), "{survey}");
    let [in_flight] = survey.lines("in flight: ")[..] else { panic!("{survey}") };
    assert!(in_flight.contains(&format!("thread {} (known_calls) in recvfrom, ", workload.pid)));
    // Each of the three sleeps took 2 ms or more, and all of them together did.
    let [sleeps] = survey.lines("nanosleep ")[..] else { panic!("{survey}") };
    let times: Vec<&str> = sleeps.split_ascii_whitespace().skip(2).collect();
    assert_eq!(times.len(), 5, "{survey}");
    assert!(times.iter().all(|time| time.ends_with("ms")), "{survey}");
    workload.end();
}

#[test]
fn many_threads_on_busy_cpus_lose_nothing() {
    if !can_measure() {
        return;
    }
    let mut workload = known_calls(3_000, 8);
    let rlat = start_survey(workload.pid);
    let hogs = Hogs::on_all_cpus();
    workload.carry_out();
    drop(hogs);
    wait_for_order(&workload);
    let mut survey = interrupt(rlat);
    survey.calls.remove("futex");
    assert_eq!(survey.calls, expected(3_000, 8), "{survey}");
    workload.end();
}

#[test]
fn two_surveys_and_a_measurement_at_once_see_the_same() {
    if !can_measure() {
        return;
    }
    let mut workload = known_calls(1_000, 1);
    let rlats = [start_survey(workload.pid), start_survey(workload.pid)];
    let reads = Rlat::measure(workload.pid);
    workload.carry_out();
    wait_for_order(&workload);
    for rlat in rlats {
        let survey = interrupt(rlat);
        assert_eq!(survey.calls, expected(1_000, 1), "{survey}");
    }
    assert_eq!(reads.interrupt().ledger.recorded, 4_000);
    workload.end();
}

#[test]
fn several_processes_are_surveyed_as_one() {
    if !can_measure() {
        return;
    }
    let mut workloads = [known_calls(10, 1), known_calls(200, 1)];
    let [one, other] = [&workloads[0], &workloads[1]].map(|workload| workload.pid.to_string());
    let rlat = Rlat::with_open_window(&mut rlat(["survey", "-vd0", &one, &other, &one]));
    for workload in &mut workloads {
        workload.carry_out();
        wait_for_order(workload);
    }
    let survey = interrupt(rlat);
    assert_eq!(survey.calls("getppid"), 210, "{survey}");
    assert_eq!(survey.lines("in flight: ").len(), 2, "{survey}");
}

/// Surveys the program while `strace -c -w -f` counts its calls.
fn strace_counts_the_same_calls_of(threads: u64) {
    let mut workload = known_calls(100, threads);
    let table = std::env::temp_dir().join(format!("rlat-strace-{}", workload.pid));
    let mut strace = Command::new("strace")
        .args(["-c", "-w", "-f", "-o"])
        .arg(&table)
        .args(["-p", &workload.pid.to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // To begin, strace interrupts what the threads are in: it has done so when they wait again.
    Lines::of(strace.stderr.take().unwrap()).take("strace: Process ");
    wait_for_order(&workload);
    let rlat = start_survey(workload.pid);
    workload.carry_out();
    wait_for_order(&workload);
    let mut survey = interrupt(rlat);
    send(Signal::SIGINT, strace.id());
    support::wait_for(&mut strace).unwrap();
    let mut strace = strace_counts(&fs::read_to_string(&table).unwrap());
    fs::remove_file(&table).unwrap();

    // These were in flight when the survey began, and strace saw them begin: one in each thread.
    assert_eq!(strace.remove("recvfrom"), Some((1, 0)), "{strace:#?}");
    let futex = strace.remove("futex").map_or(0, |(calls, _)| calls);
    assert!(futex >= survey.calls("futex"), "{strace:#?}, {survey}");
    assert!(threads > 1 || futex == 0, "{strace:#?}");
    survey.calls.remove("futex");
    // Numbers that are no calls have a name of their own to strace, or none.
    survey.calls.remove("other");
    strace.retain(|name, _| !name.starts_with("syscall_"));
    assert_eq!(survey.calls, strace, "{survey}");
    let mut expected = expected(100, threads);
    expected.remove("other");
    assert_eq!(strace, expected);
    workload.end();
}

#[test]
fn strace_counts_the_same_calls() {
    if !can_measure() || !requirements::tool("strace", "strace") {
        return;
    }
    for threads in [1, 2, 8] {
        strace_counts_the_same_calls_of(threads);
    }
}

#[test]
fn calls_in_flight_are_listed_with_their_thread_and_since_when() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["input", "2"]);
    let readers = workload.start_reading(2);
    wait_for_order(&workload);
    let survey = interrupt(start_survey(workload.pid));
    assert_eq!(survey.in_ledger("entered before the window"), 3, "{survey}");
    assert!(survey.text.starts_with("survey: no system call returned in "), "{survey}");
    for reader in &readers {
        let call = format!("thread {reader} (reader-");
        let is_it = |line: &&&str| line.starts_with(&call) && line.contains(" in read, more than ");
        assert_eq!(survey.lines("in flight: ").iter().filter(is_it).count(), 1, "{survey}");
    }

    // One byte: one of them returns, reports it, and reads again.
    let rlat = start_survey(workload.pid);
    workload.write(b".");
    workload.report("took ");
    for reader in readers {
        workload.wait_until_in_read(reader);
    }
    let survey = interrupt(rlat);
    assert_eq!(survey.in_ledger("entered before the window"), 2, "{survey}");
    assert_eq!(survey.in_ledger("in flight"), 3, "{survey}");
    let since = |line: &&&str| line.contains(" in read, ") && line.ends_with(" so far");
    assert_eq!(survey.lines("in flight: ").iter().filter(since).count(), 1, "{survey}");
}

#[test]
fn a_process_killed_in_its_calls_ends_them_without_an_exit() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["input", "3"]);
    let rlat = start_survey(workload.pid);
    workload.start_reading(3);
    wait_for_order(&workload);
    workload.kill();
    let survey = finish(&rlat.ended());
    assert_eq!(survey.in_ledger("ended without an exit"), 4, "{survey}");
    assert_eq!(survey.lines("ended without an exit: "), ["read 3, recvfrom 1"], "{survey}");
    assert!(survey.lines("in flight: ").is_empty(), "{survey}");
    assert!(survey.text.contains(", until the process ended"), "{survey}");
}

#[test]
fn exit_never_returns_and_is_not_lost() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["short", "20"]);
    let rlat = start_survey(workload.pid);
    workload.carry_out();
    workload.end();
    let survey = finish(&rlat.ended());
    assert_eq!(survey.lines("ended without an exit: "), ["exit 20, exit_group 1"], "{survey}");
    assert_eq!((survey.calls("exit"), survey.calls("exit_group")), (0, 0), "{survey}");
    assert_eq!(survey.calls("read"), 20, "{survey}");
}

#[test]
fn an_interrupted_call_is_an_error_and_its_continuation_a_call() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["handler"]);
    let rlat = start_survey(workload.pid);
    let reader = workload.start_reading(1)[0];
    for _ in 0..3 {
        send(Signal::SIGUSR1, workload.pid);
        workload.report("handled");
        workload.wait_until_in_read(reader);
    }
    workload.end_input();
    workload.report("took ");
    let survey = interrupt(rlat);
    assert_eq!(survey.calls["read"], (4, 3), "{survey}");
    assert_eq!(survey.calls("rt_sigreturn"), 3, "{survey}");
    assert!(survey.text.contains("note: 3 calls interrupted by a signal"), "{survey}");
}

/// The thread that calls execve(2) takes the id of the first one, and with it returns.
#[test]
fn a_call_that_changes_the_threads_id_does_not_stay_in_flight() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["exec", "3", "5"]);
    let rlat = start_survey(workload.pid);
    workload.start_reading(3);
    workload.order();
    workload.wait_until_ready();
    workload.write(b".....");
    workload.carry_out();
    wait_for_order(&workload);
    let survey = interrupt(rlat);
    assert_eq!(survey.in_ledger("in flight"), 1, "{survey}");
    assert!(survey.text.contains(" in recvfrom, "), "{survey}");
    assert_eq!(survey.in_ledger("ended without an exit"), 4, "{survey}");
    assert_eq!(survey.lines("ended without an exit: "), ["read 3, execve 1"], "{survey}");
}

#[test]
fn a_call_that_a_seccomp_filter_refuses_is_noted_and_in_no_row() {
    if !can_measure() {
        return;
    }
    let known_calls = workload_path().with_file_name("known_calls");
    let mut command = support::workload();
    command
        .args(["refuse", &libc::SYS_getppid.to_string(), "1"])
        .arg(known_calls)
        .args(["50", "1"]);
    let mut workload = Workload::spawn(&mut command);
    workload.wait_until_ready();
    wait_for_order(&workload);
    let rlat = start_survey(workload.pid);
    workload.carry_out();
    wait_for_order(&workload);
    let survey = interrupt(rlat);
    let mut without = expected(50, 1);
    without.remove("getppid");
    assert_eq!(survey.calls, without, "{survey}");
    assert!(survey.text.contains("note: 50 calls refused before they entered"), "{survey}");
}

#[test]
fn what_cannot_be_surveyed_is_refused_with_its_own_exit_code() {
    for (arguments, code) in [
        (&["survey"][..], 2),
        (&["survey", "0"], 2),
        (&["survey", "-1"], 2),
        (&["survey", "4294967296"], 2),
        (&["survey", "-d", "1e3", "1"], 2),
        (&["survey", "2147483647"], 6),
    ] {
        let tried = rlat([]).args(arguments).output().unwrap();
        assert_eq!(tried.status.code(), Some(code), "{arguments:?}");
        assert!(tried.stdout.is_empty(), "{arguments:?}");
    }
}

#[cfg(target_arch = "x86_64")]
mod programs_of_32_bits {
    use std::fs::Permissions;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::*;

    /// The smallest program for i386: it calls pause() for ever.
    #[rustfmt::skip]
    fn elf32() -> Vec<u8> {
        const AT: u32 = 0x0804_8000;
        const CODE: [u8; 9] = [
            0xb8, 29, 0, 0, 0, // mov eax, 29: pause
            0xcd, 0x80,        // int 0x80
            0xeb, 0xf7,        // back to the first
        ];
        let (header, segment) = (52_u32, 32_u32);
        let entry = AT + header + segment;
        let mut elf = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        let half = |elf: &mut Vec<u8>, value: u16| elf.extend(value.to_le_bytes());
        let word = |elf: &mut Vec<u8>, value: u32| elf.extend(value.to_le_bytes());
        half(&mut elf, 2); // an executable
        half(&mut elf, 3); // for i386
        for value in [1, entry, header, 0, 0] { word(&mut elf, value); }
        for value in [52, 32, 1, 40, 0, 0] { half(&mut elf, value); }
        let size = header + segment + CODE.len() as u32;
        for value in [1, 0, AT, AT, size, size, 5, 0x1000] { word(&mut elf, value); }
        elf.extend(CODE);
        elf
    }

    /// Writes the program to a file that is not there yet, and makes sure that this kernel runs it.
    fn program(name: &str) -> Option<PathBuf> {
        let path = std::env::temp_dir().join(format!("rlat-{name}-{}", std::process::id()));
        fs::write(&path, elf32()).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        match Command::new(&path).spawn() {
            Ok(mut child) => {
                child.kill().unwrap();
                child.wait().unwrap();
                Some(path)
            }
            Err(error) => {
                fs::remove_file(&path).unwrap();
                // Many kernels are built without, so that no test environment can require it.
                eprintln!("skipped: this kernel runs no 32-bit programs: {error}");
                None
            }
        }
    }

    #[test]
    fn are_refused() {
        let Some(path) = program("refused").filter(|_| can_measure()) else { return };
        let mut child = Command::new(&path).spawn().unwrap();
        let tried = rlat(["survey", "-d", "1", &child.id().to_string()]).output().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_file(&path).unwrap();
        let said = String::from_utf8_lossy(&tried.stderr);
        assert_eq!(tried.status.code(), Some(4), "{said}");
        assert!(said.contains("it runs a 32-bit program"), "{said}");
    }

    #[test]
    fn are_told_of_when_a_process_turns_into_one() {
        let Some(path) = program("turned").filter(|_| can_measure()) else { return };
        let mut shell = Command::new("sh")
            .args(["-c", "read go; exec \"$0\""])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let rlat = start_survey(shell.id());
        shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
        until("it is a 32-bit program", || rlat::process::is_32_bit(shell.id()).filter(|is| *is));
        let survey = interrupt(rlat);
        shell.kill().unwrap();
        shell.wait().unwrap();
        fs::remove_file(&path).unwrap();
        let warning = format!("WARNING: process {} has become a 32-bit program", shell.id());
        assert!(survey.text.contains(&warning), "{survey}");
    }
}
