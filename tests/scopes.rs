//! Whose calls, which calls, and which descriptors: each option against dd, whose calls are known.
//!
//! dd makes its input descriptor 0 and its output descriptor 1. With `bs=1 count=N` it reads N times
//! from the one and writes N times to the other; what it reads while it starts is on others.

#![allow(clippy::unwrap_used)] // All of this file is tests.

mod requirements;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const RLAT: &str = env!("CARGO_BIN_EXE_rlat");

/// The number of calls in each map of a JSON result, by name.
fn counts(json: &[u8]) -> Vec<(String, u64)> {
    let lines = String::from_utf8(json.to_vec()).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["type"] == "map")
        .flat_map(|line| {
            let maps = line["data"].as_object().unwrap().clone();
            maps.into_iter().map(|(name, count)| (name, count.as_u64().unwrap()))
        })
        .collect()
}

/// What rlat counts of a command that it starts.
fn of_command(options: &[&str], command: &[&str]) -> Vec<(String, u64)> {
    let file = scratch("of_command.json");
    let ended = Command::new(RLAT)
        .args(options)
        .args(["-f", "json", "-o"])
        .arg(&file)
        .arg("--")
        .args(command)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(ended.success(), "{options:?} {command:?}");
    let result = fs::read(&file).unwrap();
    fs::remove_file(file).unwrap();
    counts(&result)
}

/// A measurement that runs until it is told to stop, its window open.
struct Running(Child);

impl Running {
    fn start(options: &[&str]) -> Self {
        let mut rlat = Command::new(RLAT)
            .args(["-d", "0", "-f", "json", "--fd", "0"])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(rlat.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{options:?}");
        Self(rlat)
    }

    fn calls(self) -> u64 {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGINT).unwrap();
        let ended = self.0.wait_with_output().unwrap();
        assert!(ended.status.success());
        counts(&ended.stdout).into_iter().map(|(_, count)| count).sum()
    }
}

fn scratch(name: &str) -> PathBuf {
    let thread = std::thread::current().name().unwrap_or("test").to_owned();
    std::env::temp_dir().join(format!("rlat-{}-{thread}-{name}", std::process::id()))
}

fn dd(count: u32) -> Vec<String> {
    ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "status=none"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("count={count}")])
        .collect()
}

fn run_dd(program: &str, count: u32) {
    assert!(Command::new(program).args(&dd(count)[1..]).status().unwrap().success());
}

#[test]
fn each_system_call_is_counted_in_a_map_of_its_own() {
    if !requirements::bpf() {
        return;
    }
    let dd = dd(300);
    let dd: Vec<&str> = dd.iter().map(String::as_str).collect();
    let found = of_command(&["-e", "read,write", "--fd", "0", "--fd", "1"], &dd);
    assert_eq!(found, [("@read_calls".to_owned(), 300), ("@write_calls".to_owned(), 300)]);
    let found = of_command(&["-e", "read,write", "--fd", "1"], &dd);
    assert_eq!(found, [("@read_calls".to_owned(), 0), ("@write_calls".to_owned(), 300)]);
    let found = of_command(&["-e", "@write", "--fd", "1"], &dd);
    assert_eq!(found[0], ("@write_calls".to_owned(), 300));
    assert!(found.len() > 1 && found[1..].iter().all(|(_, count)| *count == 0), "{found:?}");
}

#[test]
fn calls_are_chosen_by_what_they_return() {
    if !requirements::bpf() {
        return;
    }
    let file = scratch("ten bytes");
    fs::write(&file, "0123456789").unwrap();
    let input = format!("if={}", file.display());
    let command = ["dd", &input, "of=/dev/null", "bs=1", "status=none"];
    for (which, count) in [("any", 11), ("ok", 11), ("zero", 1), ("error", 0)] {
        let found = of_command(&["--fd", "0", "--ret", which], &command);
        assert_eq!(found, [("@calls".to_owned(), count)], "{which}");
    }
    fs::remove_file(file).unwrap();
}

#[test]
fn the_whole_system_is_measured_and_all_threads_of_a_name() {
    if !requirements::bpf() {
        return;
    }
    // A name that nobody else has, of the 15 bytes that the kernel keeps.
    let folder = scratch("bin");
    fs::create_dir(&folder).unwrap();
    let program = folder.join("rlat-named-dd");
    symlink("/bin/dd", &program).unwrap();
    let program = program.to_str().unwrap();

    let (named, all) = (Running::start(&["--comm", "rlat-named-dd"]), Running::start(&["--all"]));
    run_dd(program, 200);
    run_dd("dd", 50);
    assert_eq!(named.calls(), 200);
    // Others may read from their descriptor 0 meanwhile.
    assert!(all.calls() >= 250);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn several_processes_are_measured_and_one_thread() {
    if !requirements::bpf() {
        return;
    }
    // Two shells that become dd when they are told, by their own descriptor 3.
    let waiting = || {
        Command::new("sh")
            .args(["-c", "kill -STOP $$; exec \"$@\"", "sh"])
            .args(dd(70))
            .spawn()
            .unwrap()
    };
    let mut shells = [waiting(), waiting(), waiting()];
    for shell in &shells {
        let stat = format!("/proc/{}/stat", shell.id());
        while !fs::read_to_string(&stat).unwrap().contains(") T ") {
            std::thread::yield_now();
        }
    }
    let ids = shells.each_ref().map(|shell| shell.id().to_string());
    let both = Running::start(&["-p", &format!("{},{}", ids[0], ids[1])]);
    let one = Running::start(&["--tid", &ids[2]]);
    for shell in &mut shells {
        kill(Pid::from_raw(shell.id() as i32), Signal::SIGCONT).unwrap();
    }
    for shell in &mut shells {
        assert!(shell.wait().unwrap().success());
    }
    let ended = both.0.wait_with_output().unwrap();
    assert_eq!(counts(&ended.stdout), [("@calls".to_owned(), 140)]);
    let ended = one.0.wait_with_output().unwrap();
    assert_eq!(counts(&ended.stdout), [("@calls".to_owned(), 70)]);
}
