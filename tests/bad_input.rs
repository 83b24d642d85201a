//! Numbers that are none, names that there are not, names that would break a line, and places that take
//! no result: each is said so, before anything is loaded.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod schema;
mod support;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use support::{Folder, RLAT, Report, Rlat, Workload, can_measure, rlat, until};

const FORMATS: [&str; 3] = ["text", "json", "csv"];

/// The message of an rlat that refuses to begin. Nothing was loaded, no command started, and nothing is on
/// standard output.
fn refusal(args: &[impl AsRef<OsStr>], code: i32) -> String {
    let shown: Vec<_> = args.iter().map(AsRef::as_ref).collect();
    let output = Command::new(RLAT).args(args).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{shown:?}: {said}");
    assert!(output.stdout.is_empty(), "{shown:?}");
    let begun =
        |line: &str| line == "ready" || line.starts_with("map ") || line.starts_with("program ");
    assert!(!said.lines().any(begun), "{shown:?}: {said}");
    said
}

/// What no option takes for a number.
const NO_NUMBERS: [&str; 21] = [
    "",
    "-1",
    "-0",
    "+5",
    " 5",
    "5 ",
    "5\n",
    "nan",
    "NaN",
    "inf",
    "1e400",
    "1e3",
    "0x10",
    "0b1",
    "1_000",
    "1.5.1",
    "٣",
    "½",
    "99999999999999999999",
    "18446744073709551616",
    "five",
];

#[test]
fn what_is_no_number_is_refused_by_every_option_that_takes_one() {
    let own = std::process::id().to_string();
    let own = own.as_str();
    let id = "a whole number from 1 to 2147483647";
    let descriptor = "a whole number from 0 to 2147483647";
    let time = "up to 365 days";
    let edges = "three whole numbers from 0 to 18446744073709551615";
    // Where the value goes, what the message names, the range that it says, and more that is refused.
    let table: [(&[&str], &str, &str, &[&str]); 18] = [
        (&["-v", "VALUE"], "[PID]", id, &["0", "2147483648", "4294967297", "1.5"]),
        (&["-v", own, "VALUE"], "[FD]", descriptor, &["2147483648", "4294967296", "1.5"]),
        (&["-v", "-p", "VALUE"], "--pid", id, &["0", "2147483648", "1,,2", "1,0", ",", "1,-1"]),
        (&["-v", "--pid=VALUE"], "--pid", id, &["0", "2147483648", "1,", "1, 2"]),
        (&["-v", "--tid", "VALUE"], "--tid", id, &["0", "2147483648", "1,0", "1,", "1;2"]),
        (&["-v", "--fd", "VALUE", own], "--fd", descriptor, &["2147483648", "1,2"]),
        (&["-v", "--fd=7", "--fd=VALUE", own], "--fd", descriptor, &["2147483648"]),
        (
            &["-v", "-b", "VALUE", own],
            "--buckets",
            "a whole number from 0 to 5",
            &["6", "4294967296"],
        ),
        (&["-v", "--buckets=VALUE", own], "--buckets", "from 0 to 5", &["6", "0.5"]),
        (
            &["-v", "--ready-fd", "VALUE", own],
            "--ready-fd",
            "from 3 to 2147483647",
            &["0", "2", "2147483648"],
        ),
        (
            &["-v", "-d", "VALUE", own],
            "--duration",
            time,
            &["5d", ".5", "1.", "1s1s", "8761h", "-5s", "-inf"],
        ),
        (
            &["-v", "--starts", "VALUE", own],
            "--starts",
            "from 1 to 131072",
            &["0", "131073", "4294967296"],
        ),
        (&["-v", "-i", "VALUE", own], "--interval", time, &["5d", "8761h", "-1s"]),
        (&["-v", "--linear", "VALUE,10,1", own], "--linear", edges, &["1.5"]),
        (&["-v", "--linear", "0,VALUE,1", own], "--linear", edges, &["1.5"]),
        (&["-v", "--linear", "0,10,VALUE", own], "--linear", edges, &["1.5"]),
        (&["survey", "-v", own, "VALUE"], "[PID]", id, &["0", "2147483648"]),
        (&["survey", "-v", "-d", "VALUE", own], "--duration", time, &["5d", "8761h"]),
    ];
    for (args, named, range, more) in table {
        // As a positional argument, -nan and -inf are options that there are not, and so is -5s.
        for value in NO_NUMBERS.iter().chain(more) {
            let args: Vec<String> = args.iter().map(|arg| arg.replace("VALUE", value)).collect();
            let said = refusal(&args, 2);
            assert!(said.starts_with("error: invalid value"), "{args:?}: {said}");
            assert!(said.contains(named), "{args:?}: {said}");
            // Numbers that are too long are told the longest.
            assert!(said.contains(range) || said.contains("at most 365 days"), "{args:?}: {said}");
        }
    }
}

#[test]
fn numbers_that_do_not_fit_together_are_refused_with_the_reason() {
    let own = std::process::id().to_string();
    for (option, value, why) in [
        ("-i", "0", "at least 100ms"),
        ("-i", "99ms", "at least 100ms"),
        ("-d", "0.0000000001", "less than a nanosecond"),
        ("--linear", "0,0,1", "the maximum must be greater"),
        ("--linear", "10,0,1", "the maximum must be greater"),
        ("--linear", "0,10,0", "the step must be greater than 0"),
        ("--linear", "0,18446744073709551615,1", "at most 1,000 steps"),
        ("--linear", "0,10", "give three numbers"),
        ("--linear", "0,10,1,1", "give three numbers"),
    ] {
        let said = refusal(&["-v", option, value, &own], 2);
        assert!(said.contains(why), "{option} {value}: {said}");
    }
    for option in ["-d", "-b", "-i"] {
        let said = refusal(&[option, "1", option, "2", &own], 2);
        assert!(said.contains("cannot be used multiple times"), "{said}");
    }
    let bytes: [OsString; 2] = ["-d".into(), OsStr::from_bytes(b"5\xff").to_owned()];
    refusal(&bytes, 2);
}

#[test]
fn a_number_that_no_user_has_is_refused() {
    for user in ["-1", "+0", "", " 0", "0x0", "4294967295", "4294967296", "nan", "no such user"] {
        let option = format!("--user={user}");
        let said = refusal(&[option.as_str(), "--", "true"], 2);
        assert!(said.contains("there is no such user"), "{user}: {said}");
    }
}

#[test]
fn what_cannot_be_a_call_is_a_matter_of_usage() {
    let own = std::process::id().to_string();
    for (names, why) in [
        ("", "a name in it is empty"),
        ("read,", "a name in it is empty"),
        (",", "a name in it is empty"),
        ("@raed", "there is no such group; near: @read"),
        ("@READ", "near: @read"),
        ("@", "the groups are @read, @write, @sync, @net, @poll, @open"),
        ("exit", "exit: it never returns"),
        ("read,exit_group", "exit_group: it never returns"),
        ("read*", "no name of a call; near: read"),
        (" read", "no name of a call; near: read"),
        ("read write", "no name of a call"),
        ("../../sched/sched_switch", "no name of a call"),
        ("a\nb\u{1b}[31m", r#""a\nb\u{1b}[31m""#),
    ] {
        for whom in [&[own.as_str()][..], &["--", "true"]] {
            let args = [&["-v", "-e", names][..], whom].concat();
            let said = refusal(&args, 2);
            assert!(said.contains("rlat: cannot use --syscall "), "{names}: {said}");
            assert!(said.contains(why), "{names}: {said}");
        }
    }
}

#[test]
fn a_call_that_this_kernel_does_not_have_is_told_near_names() {
    if !can_measure() {
        return;
    }
    let own = std::process::id().to_string();
    for (name, near) in [
        ("raed", "; near: read\n"),
        ("Read", "; near: read\n"),
        ("sys_read", "; near: read\n"),
        ("sys_enter_read", "; near: read\n"),
        ("openatt", "; near: openat"),
        ("pread", "pread64"),
        ("quite_another_thing", "no such system call to trace\n"),
    ] {
        let said = refusal(&["-v", "-e", &format!("write,{name}"), &own], 4);
        assert!(said.contains(&format!("cannot use --syscall {name}: ")), "{said}");
        assert!(said.contains(near), "{name}: {said}");
        assert!(said.contains("`rlat list 'sys_enter_*'`"), "{said}");
    }
}

/// A name with a line break, a byte that is no text, and what a terminal would obey.
const WILD: &[u8] = b"a\n\xff\"\x1b[31m";

/// A program of that name that hangs in read().
fn wild(folder: &Path) -> (PathBuf, Child) {
    let program = folder.join(OsStr::from_bytes(WILD));
    symlink("/bin/cat", &program).unwrap();
    let child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    until("it hangs in read()", || {
        use ::rlat::process::{Activity, activity};
        let now = activity(child.id(), child.id());
        matches!(now, Ok(Activity::InSyscall { number: libc::SYS_read, .. })).then_some(())
    });
    (program, child)
}

fn is_printable(text: &str) -> bool {
    text.chars().all(|character| character == '\n' || !character.is_control())
}

#[test]
fn a_name_that_is_no_text_breaks_no_line_in_any_format() {
    if !can_measure() {
        return;
    }
    let scratch = Folder::new("wild");
    let (_, mut hangs) = wild(&scratch.0);
    let pid = hangs.id().to_string();
    let run = |args: &[&str]| {
        let output = Command::new(RLAT).args(args).arg(&pid).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(is_printable(std::str::from_utf8(&output.stderr).unwrap()), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&["-d", "1ms", "-i", "100ms"]);
    assert!(is_printable(&text), "{text:?}");
    assert_eq!(text.lines().filter(|line| line.starts_with("in flight: thread ")).count(), 1);
    assert!(text.contains(r"(a\n"), "{text:?}");

    let lines = schema::lines(&run(&["-d", "1ms", "-f", "json"]));
    let in_flight = lines.iter().find(|line| line["type"] == "inflight").unwrap();
    assert_eq!(in_flight["data"]["thread"], "a\n\u{fffd}\"\u{1b}[31m");

    assert_eq!(run(&["-d", "1ms", "-f", "csv"]), "syscall,unit,min,max,count\n");
    let table = run(&["survey", "-d", "1ms"]);
    assert!(is_printable(&table), "{table:?}");
    assert!(table.contains(r"(a\n"), "{table:?}");
    hangs.kill().unwrap();
    hangs.wait().unwrap();
}

#[test]
fn a_command_whose_name_is_no_text_is_measured_in_any_format() {
    if !can_measure() {
        return;
    }
    let scratch = Folder::new("wild-command");
    let program = scratch.0.join(OsStr::from_bytes(WILD));
    symlink("/bin/true", &program).unwrap();
    let result = scratch.0.join("result");
    for format in FORMATS {
        let args = ["-f", format, "-o"].map(OsStr::new);
        let measured = Command::new(RLAT).args(args).arg(&result).arg("--").arg(&program).output();
        let output = measured.unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = fs::read_to_string(&result).unwrap();
        assert!(is_printable(&text), "{text:?}");
        if format == "json" {
            let lines = schema::lines(&text);
            let command_line = &lines[0]["data"]["command_line_hex"];
            assert!(command_line.to_string().contains("610aff221b5b33316d"), "{command_line}");
        }
    }
    // There is none of that name.
    fs::remove_file(&program).unwrap();
    let output = Command::new(RLAT).arg("--").arg(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{output:?}");
    assert!(is_printable(&String::from_utf8_lossy(&output.stderr)), "{output:?}");
}

#[test]
fn a_glob_with_brackets_is_a_glob() {
    if !can_measure() {
        return;
    }
    let list = |glob: &str| {
        let output = Command::new(RLAT).args(["list", glob]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let read = "tracepoint:syscalls:sys_enter_read\n";
    for glob in
        ["sys_enter_[r]ead", "sys_enter_[q-s]ead", "[]s]ys_enter_read", "sys_enter_rea[!a-c]"]
    {
        assert_eq!(list(glob), (Some(0), read.to_owned()), "{glob}");
    }
    for glob in ["[", "[]", "[!]", "[z-a]", "sys_enter_rea[d", "sys_enter_[!r]ead", "[\n]", "[[[["]
    {
        assert_eq!(list(glob), (Some(4), String::new()), "{glob}");
    }
}

#[test]
fn a_pipe_with_a_name_takes_every_format() {
    if !can_measure() {
        return;
    }
    let target = Workload::start(["reads", "1", "1"]);
    let scratch = Folder::new("fifos");
    for format in FORMATS {
        let path = scratch.0.join(format);
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let reader = thread::spawn({
            let path = path.clone();
            move || fs::read_to_string(path).unwrap()
        });
        let pid = target.pid.to_string();
        let args = ["-d", "1ms", "-f", format, "-o", path.to_str().unwrap(), &pid];
        let ended = Rlat::spawn(rlat(args).stdout(Stdio::piped())).ended();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:#?}");
        let text = reader.join().unwrap();
        match format {
            "json" => drop(schema::lines(&text)),
            "csv" => assert_eq!(text, "syscall,unit,min,max,count\n"),
            _ => assert_eq!(Report::of(&text).ledger.entered, 0),
        }
    }
}

/// Runs in mounts of its own, where a file system of 64 KiB is full.
#[test]
fn a_full_disk_costs_no_result_in_any_format() {
    if !can_measure() || !requirements::tool("unshare", "util-linux") {
        return;
    }
    let target = Workload::start(["reads", "1", "1"]);
    let scratch = Folder::new("full-disk");
    let script = r#"mount -t tmpfs -o size=64k tmpfs "$1" && cd "$1" || exit 99
        echo old >result; cat /dev/zero >filler 2>/dev/null
        "$0" -d 1ms -f "$3" -o result "$2"
        echo "status $?, $(cat result), $(ls -A | tr '\n' ' ')""#;
    for format in FORMATS {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, RLAT]).arg(&scratch.0);
        command.args([&target.pid.to_string(), format]).stdout(Stdio::piped());
        let ended = Rlat::spawn(&mut command).ended();
        assert_eq!(ended.stdout, "status 1, old, filler result \n", "{ended:#?}");
        assert!(ended.stderr.contains("cannot write the result to result: ENOSPC"), "{ended:#?}");
        let result = ended.stderr.strip_prefix("ready\n").unwrap();
        let result = result.split_once("rlat: cannot").unwrap().0;
        match format {
            "json" => drop(schema::lines(&without_hints(result))),
            "csv" => assert_eq!(without_hints(result), "syscall,unit,min,max,count\n"),
            _ => assert_eq!(Report::of(result).ledger.entered, 0),
        }
    }
}

fn without_hints(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("hint: ")).collect()
}
