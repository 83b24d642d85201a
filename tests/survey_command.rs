//! `rlat survey -- CMD` and `--follow`: every call of a command, and of what it starts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use support::{Ended, Rlat, can_measure, rlat, strace_counts};

/// A shell that starts three programs, and ends with status 7.
const STARTS_THREE: &str = "for i in 1 2 3; do \
                            dd if=/dev/zero of=/dev/null bs=1 count=100 status=none; done; exit 7";

/// Calls and errors by name: the first columns of the table.
type Counts = BTreeMap<String, (u64, u64)>;

fn survey(args: &[&str]) -> Ended {
    Rlat::spawn(rlat(["survey"]).args(args).stdout(Stdio::piped())).ended()
}

/// The table on standard error, below whatever the command has written there.
fn counts(text: &str) -> Counts {
    let number = |text: &str| text.replace(',', "").parse::<u64>().unwrap();
    let rows = text.lines().skip_while(|line| !line.starts_with("syscall ")).skip(1);
    let rows = rows.take_while(|line| !line.starts_with("total "));
    rows.map(|row| {
        let cells: Vec<&str> = row.split_ascii_whitespace().collect();
        (cells[0].to_owned(), (number(cells[1]), number(cells[2])))
    })
    .collect()
}

/// What `strace -c` counts of the same command.
fn strace(command: &[&str]) -> Counts {
    let table = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("survey-strace-{}", std::process::id()));
    let mut strace = Command::new("strace");
    strace.args(["-c", "-w", "-f", "-o"]).arg(&table).args(command);
    strace.stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    let text = fs::read_to_string(&table).unwrap();
    fs::remove_file(&table).unwrap();
    strace_counts(&text)
}

/// What rlat's process calls before it is the command is taken out.
fn of_the_command_alone(mut counts: Counts) -> Counts {
    for (name, own) in [("prctl", 1), ("rt_sigaction", 1)] {
        let (calls, _) = counts.get_mut(name).expect(name);
        *calls -= own;
    }
    counts
}

/// What depends on when a child ends is taken out.
fn without_chance(mut counts: Counts) -> Counts {
    for name in ["wait4", "rt_sigreturn", "futex"] {
        counts.remove(name);
    }
    // $PATH is looked through by whoever starts the command.
    if let Some((calls, errors)) = counts.get_mut("execve") {
        (*calls, *errors) = (*calls - *errors, 0);
    }
    counts.retain(|_, (calls, _)| *calls > 0);
    counts
}

#[test]
fn strace_counts_the_same_calls_of_a_command_and_its_children() {
    if !can_measure() || !requirements::tool("strace", "strace") {
        return;
    }
    let command = ["sh", "-c", STARTS_THREE];
    let ended = survey(&["--follow", "--", "sh", "-c", STARTS_THREE]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(7), ""), "{ended:#?}");
    let ours = counts(&ended.stderr);
    assert_eq!(ours["write"].0, 300, "{ended:#?}");
    let theirs = without_chance(strace(&command));
    assert_eq!(without_chance(of_the_command_alone(ours)), theirs, "{ended:#?}");
    // The shell, and each program that it started.
    assert!(ended.stderr.contains("ended without an exit: exit_group 4"), "{ended:#?}");
    assert!(ended.stderr.contains(", until the process ended"), "{ended:#?}");
}

#[test]
fn children_are_left_out_unless_asked_for() {
    if !can_measure() {
        return;
    }
    let ended = survey(&["--", "sh", "-c", STARTS_THREE]);
    assert_eq!(ended.code, Some(7), "{ended:#?}");
    assert!(!counts(&ended.stderr).contains_key("write"), "{ended:#?}");
    assert!(ended.stderr.contains("ended without an exit: exit_group 1"), "{ended:#?}");
}

#[test]
fn children_of_a_running_process_are_followed() {
    if !can_measure() {
        return;
    }
    let script = "read order; dd if=/dev/zero of=/dev/null bs=1 count=70 status=none; read order";
    let mut shell = Command::new("sh");
    let mut shell = shell.args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
    let pid = shell.id().to_string();
    let surveying =
        Rlat::with_open_window(&mut rlat(["survey", "--follow", "-v", "-d", "0", &pid]));
    let mut orders = shell.stdin.take().unwrap();
    orders.write_all(b"1\n2\n").unwrap();
    drop(orders);
    let ended = surveying.ended();
    shell.wait().unwrap();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(counts(&ended.stdout)["write"].0, 70, "{ended:#?}");
    assert!(ended.stderr.contains("program rlat_fork"), "{ended:#?}");
}

#[test]
fn the_commands_output_and_exit_status_are_its_own() {
    if !can_measure() {
        return;
    }
    let ended = survey(&["--", "sh", "-c", "echo own; exit 3"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(3), "own\n"), "{ended:#?}");
    assert_eq!(counts(&ended.stderr)["write"], (1, 0), "{ended:#?}");
    let ended = survey(&["--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(ended.code, Some(128 + 9), "{ended:#?}");
    // rlat stays with a command that goes on when the time is over.
    let ended = survey(&["-d", "20ms", "--", "sh", "-c", "sleep 0.2; echo late; exit 4"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), "late\n"), "{ended:#?}");
    assert!(ended.stderr.contains("survey: "), "{ended:#?}");
    if nix::unistd::geteuid().is_root() {
        let ended = survey(&["--user", "65534", "--", "id", "-u"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "65534\n"), "{ended:#?}");
    }
}

#[test]
fn a_signal_ends_the_survey_and_is_passed_on() {
    if !can_measure() {
        return;
    }
    let script = "trap 'exit 5' TERM; echo up >&2; while :; do sleep 0.02; done";
    let mut command = rlat(["survey", "--", "sh", "-c", script]);
    let mut surveying = Rlat::spawn(command.stdout(Stdio::piped()));
    surveying.said("up");
    surveying.send(Signal::SIGTERM);
    let ended = surveying.ended();
    assert_eq!(ended.code, Some(5), "{ended:#?}");
    assert!(ended.stderr.contains(", until interrupted"), "{ended:#?}");
}

#[test]
fn what_cannot_be_started_or_is_asked_for_twice_is_refused() {
    for (args, code) in [
        (&["--", "/no/such/program"][..], 127),
        (&["--", "/"], 126),
        (&["1", "--", "true"], 2),
        (&["--user", "root", "1"], 2),
        (&["--user", "no such user", "--", "true"], 2),
        (&["--follow"], 2),
        (&[], 2),
    ] {
        if !matches!(code, 2) && !can_measure() {
            continue;
        }
        assert_eq!(survey(args).code, Some(code), "{args:?}");
    }
}
