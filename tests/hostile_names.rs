//! Names that processes choose so as to harm whoever reads of them. Whatever the bytes are, no control
//! character comes out, and no line or field that is not rlat's own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod meta;
mod requirements;
mod support;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::stat::Mode;
use proptest::prelude::*;
use rlat::histogram::{Histogram, Unit};
use rlat::latency::{Call, ClosedBy, Elapsed, InFlight, Ledger, Outcome};
use rlat::process::{Activity, activity, thread_name};
use rlat::report::meta::{Measured, Whom};
use rlat::report::{View, csv, json, text};
use serde_json::Value;
use support::{RLAT, can_measure, until};

/// Each fits into a thread's name, which has 15 bytes, at least with its beginning.
const NAMES: [&[u8]; 9] = [
    b"\x1b[31mred\x1b]0;t\x07",
    b"a\nledger: 7",
    b"\"}, {\"x\": \"\\",
    b"<script>&'\"",
    b"a,b\"c\r\nd",
    b"\xff\xfe\xc3\x28\x80",
    "\u{9b}2J\u{85}\u{90}".as_bytes(),
    "\u{202e}txt\u{2066}\u{2069}".as_bytes(),
    b"read{le=\"1\"} 5",
];

fn is_obeyed_by_a_terminal(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}')
}

fn assert_printable(text: &[u8], name: &[u8]) -> String {
    let text = std::str::from_utf8(text).unwrap_or_else(|_| panic!("{name:?}: no UTF-8"));
    let found = text.chars().find(|&c| c != '\n' && is_obeyed_by_a_terminal(c));
    assert_eq!(found, None, "{name:?}: {text}");
    text.to_owned()
}

/// A cat(1) of that name with that argument, in a folder of that name, that waits for input from a pipe of
/// that name.
struct Hostile {
    child: Child,
    folder: PathBuf,
    _pipe: fs::File,
}

impl Hostile {
    fn start(name: &[u8]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let own = format!("rlat-{}-hostile-{number}", std::process::id());
        let folder = std::env::temp_dir().join(own);
        let inner = folder.join(OsStr::from_bytes(name));
        fs::create_dir_all(&inner).unwrap();
        let program = inner.join(OsStr::from_bytes(name));
        // By another process: a test that forks meanwhile would hold a file open that this one writes.
        assert!(Command::new("cp").arg("/bin/cat").arg(&program).status().unwrap().success());
        let pipe = inner.join("pipe");
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        let pipe = fs::File::options().read(true).write(true).open(pipe).unwrap();
        let child = Command::new(&program)
            .args([OsStr::new("-"), OsStr::from_bytes(name)])
            .stdin(pipe.try_clone().unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let reads = |pid| {
            let waits = matches!(
                activity(pid, pid),
                Ok(Activity::InSyscall { number: libc::SYS_read, args: [0, ..], .. })
            );
            waits.then_some(())
        };
        until("cat waits for input", || reads(child.id()));
        Self { child, folder, _pipe: pipe }
    }

    fn rlat(&self, arguments: &[&str]) -> Output {
        let output = Command::new(RLAT)
            .args(arguments)
            .arg(self.child.id().to_string())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn measured_in_every_format(name: &[u8]) {
    let hostile = Hostile::start(name);
    let pid = hostile.child.id();
    assert!(thread_name(pid, pid).is_some());
    for options in [&[][..], &["-v"], &["-i", "100ms"]] {
        let output = hostile.rlat(&[options, &["-d", "100ms", "--fd", "0"]].concat());
        let text = assert_printable(&output.stdout, name);
        let stderr = assert_printable(&output.stderr.replace_tabs(), name);
        let lines = |beginning: &str| text.lines().filter(|l| l.starts_with(beginning)).count();
        assert_eq!((lines("ledger: "), lines("in flight: ")), (1, 1), "{text}");
        assert!(!stderr.contains("ledger: 7"), "{stderr}");
    }
    let json = hostile.rlat(&["-d", "100ms", "-i", "100ms", "-f", "json"]);
    for line in assert_printable(&json.stdout, name).lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let kind = value["type"].as_str().unwrap();
        if kind == "inflight" {
            let thread = value["data"]["thread"].as_str().unwrap();
            assert!(String::from_utf8_lossy(name).starts_with(thread.trim_end_matches('\u{fffd}')));
        }
    }
    let csv = hostile.rlat(&["-d", "100ms", "-f", "csv"]);
    for line in assert_printable(&csv.stdout, name).lines() {
        assert_eq!(line.split(',').count(), 5, "{line}");
    }
    let survey = hostile.rlat(&["survey", "-d", "100ms"]);
    let survey = assert_printable(&survey.stdout, name);
    assert_eq!(survey.lines().filter(|line| line.starts_with("ledger: ")).count(), 1, "{survey}");
}

trait ReplaceTabs {
    fn replace_tabs(&self) -> Vec<u8>;
}

impl ReplaceTabs for Vec<u8> {
    /// The verifier's log has some.
    fn replace_tabs(&self) -> Vec<u8> {
        self.iter().map(|byte| if *byte == b'\t' { b' ' } else { *byte }).collect()
    }
}

#[test]
fn a_process_with_a_hostile_name_is_measured_in_every_format() {
    if !can_measure() {
        return;
    }
    for name in NAMES {
        measured_in_every_format(name);
    }
}

#[test]
fn a_terminal_is_told_of_hostile_names_without_harm() {
    if !can_measure() || !requirements::tool("script", "Debian's package bsdutils") {
        return;
    }
    let ours = |c: char| c == '\r' || c == '\n';
    for name in [NAMES[0], NAMES[5], NAMES[6]] {
        let hostile = Hostile::start(name);
        let command = format!("TERM=dumb {RLAT} -d 10ms {} 0", hostile.child.id());
        let output = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("read() of "), "{text:?}");
        // What it draws itself, to show how far it is, erases a line.
        let text = text.replace("\x1b[K", "").replace("\x1b[2K", "");
        let found = text.chars().find(|&c| !ours(c) && is_obeyed_by_a_terminal(c));
        assert_eq!(found, None, "{name:?}: {text:?}");
    }
}

#[test]
fn a_command_and_files_with_hostile_names_are_named_without_harm() {
    for name in NAMES {
        let name = OsString::from_vec(name.to_vec());
        let ways: [&[&OsStr]; 5] = [
            &["--".as_ref(), &name],
            &["asm".as_ref(), &name],
            &["disasm".as_ref(), &name],
            &["--tracefs".as_ref(), &name, "1".as_ref()],
            &["--cgroup".as_ref(), &name],
        ];
        for way in ways {
            let output = Command::new(RLAT).args(way).stdin(Stdio::null()).output().unwrap();
            assert!(!output.status.success());
            assert_printable(&output.stderr, name.as_bytes());
        }
    }
}

fn outcome(thread: String, target: String) -> Outcome {
    let call = Call {
        syscall: "read".to_owned(),
        histogram: Histogram::new(Unit::Us),
        linear: None,
        ledger: Ledger { entered: 1, ..Ledger::default() },
        in_flight: vec![InFlight {
            pid: 1,
            tid: 2,
            thread,
            descriptor: Some(3),
            target: Some(target),
            elapsed: Elapsed::Exactly(Duration::from_secs(1)),
        }],
    };
    Outcome {
        calls: vec![call],
        missed_runs: None,
        unfollowed: None,
        window: Duration::from_secs(1),
        closed_by: ClosedBy::Time,
    }
}

proptest! {
    #[test]
    fn no_name_adds_a_line_or_a_control_character(
        thread: Vec<u8>, target: Vec<u8>, characters: String,
    ) {
        let plain = outcome("cat".to_owned(), "/dev/null".to_owned());
        let of = |outcome: &Outcome| text::measurement(outcome, View::default());
        let thread = String::from_utf8_lossy(&thread).into_owned() + &characters;
        let target = String::from_utf8_lossy(&target).into_owned() + &characters;
        let hostile = outcome(thread, target);
        let text = of(&hostile);
        assert_printable(text.as_bytes(), b"");
        prop_assert_eq!(text.lines().count(), of(&plain).lines().count());
        prop_assert_eq!(
            csv::measurement(&hostile, View::default()),
            csv::measurement(&plain, View::default())
        );
    }

    /// Every text that the JSON result has from elsewhere comes back from it as it was, and bytes that are
    /// no text by their hexadecimal digits.
    #[test]
    fn names_come_back_from_json(
        names: [String; 6], argument: Vec<u8>, arguments: Vec<Vec<u8>>,
    ) {
        let [thread, target, process, subject, note, call] = names;
        let mut outcome = outcome(thread.clone(), target.clone());
        outcome.calls[0].syscall.clone_from(&call);
        let mut meta = meta::meta();
        meta.syscalls = vec![call.clone()];
        meta.subject = Whom::Named(subject.clone());
        meta.note = Some(note.clone());
        meta.command_line.clone_from(&arguments);
        meta.targets = vec![Measured {
            pid: 1,
            tid: None,
            name: process.clone(),
            command_line: vec![argument.clone()],
            threads: 1,
        }];
        let text = json::measurement(&meta, &outcome, View::default());
        assert_printable(text.as_bytes(), b"");
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let data = |kind: &str| {
            &lines.iter().find(|line| line["type"] == kind).expect("each is there")["data"]
        };
        let meta = data("meta");
        prop_assert_eq!(&meta["syscalls"][0], &call);
        prop_assert_eq!(&meta["subject"]["name"], &subject);
        prop_assert_eq!(&meta["note"], &note);
        prop_assert_eq!(&meta["targets"][0]["name"], &process);
        prop_assert_eq!(arguments_in(meta), arguments);
        prop_assert_eq!(arguments_in(&meta["targets"][0]), [argument]);
        prop_assert_eq!(&data("inflight")["thread"], &thread);
        prop_assert_eq!(&data("inflight")["target"], &target);
        for kind in ["summary", "ledger", "inflight"] {
            prop_assert_eq!(&data(kind)["syscall"], &call);
        }
        let map = data("map").as_object().unwrap();
        prop_assert_eq!(map.len(), 1);
    }
}

/// Arguments as their reader gets them: the text, or where it is not whole, the bytes.
fn arguments_in(data: &Value) -> Vec<Vec<u8>> {
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    match data.get("command_line_hex") {
        None | Some(Value::Null) => {
            strings(&data["command_line"]).into_iter().map(String::into_bytes).collect()
        }
        Some(hex) => strings(hex)
            .iter()
            .map(|hex| {
                let digits = hex.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
                digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()
            })
            .collect(),
    }
}
