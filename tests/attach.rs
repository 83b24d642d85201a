//! Whether rlat attaches to the calls' own tracepoints or to the raw ones, the numbers are the same.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use std::fs;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use support::{Ledger, Report, Rlat, Workload, can_measure, rlat};

/// Measures in both ways at once.
fn both(options: &[&str]) -> [Rlat; 2] {
    ["--attach=tracepoint", "--attach=raw"]
        .map(|attach| Rlat::measure_with(&[&[attach], options].concat()))
}

/// Ends both, and returns the lines with counts, if they are the same.
fn same(measuring: [Rlat; 2]) -> Option<Vec<String>> {
    let texts = measuring.map(|rlat| {
        rlat.send(Signal::SIGINT);
        rlat.ended().stdout
    });
    if texts.iter().any(|text| text.contains("missed runs: ")) {
        eprintln!("disturbed: {texts:?}");
        return None;
    }
    let [own, raw] = texts.map(|text| {
        let counts = ["@", "ledger", "returned", "not in the histogram", "note"];
        let is_count = |line: &&str| counts.iter().any(|count| line.starts_with(count));
        text.lines().filter(is_count).map(str::to_owned).collect::<Vec<_>>()
    });
    assert_eq!(own, raw);
    Some(own)
}

#[test]
fn both_ways_find_the_same_buckets() {
    if !can_measure() {
        return;
    }
    // Each in the lower half of its bucket, so that a reader may be late.
    let delays = [2_100, 9_000, 20_000, 70_000].map(Duration::from_micros);
    let mut workload = Workload::start(["input", "1"]);
    let [own, raw] = both(&[&workload.pid.to_string()]);
    let reader = workload.start_reading(1)[0];
    for delay in delays {
        workload.wait_until_in_read(reader);
        std::thread::sleep(delay);
        workload.write(b".");
        workload.report("took ");
    }
    workload.wait_until_in_read(reader);
    let [own, raw] = [own, raw].map(Rlat::interrupt);
    assert_eq!(own.rows, raw.rows, "{own}\n{raw}");
    let ledger = Ledger { entered: 5, recorded: 4, in_flight: 1, ..Ledger::default() };
    assert_eq!((own.ledger, raw.ledger), (ledger, ledger));
    // Thread, descriptor and what it leads to.
    let waiting = |report: &Report| {
        let lines = report.in_flight();
        let (thread, rest) = lines[0].split_once(", ").unwrap();
        (thread.to_owned(), rest.split_once(" so far, ").unwrap().1.to_owned())
    };
    assert_eq!(waiting(&own), waiting(&raw));
}

#[test]
fn both_ways_count_the_same_calls() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["mixed", "500"]);
    let fds: Vec<String> = (0..3).map(|_| workload.report("descriptor ").to_string()).collect();
    let pid = workload.pid.to_string();
    for (options, expected) in [
        (vec![&*pid], 3000),
        (vec!["-e", "read,write,pread64,fsync", &pid], 3000),
        (vec!["--fd", &fds[0], &pid], 500),
        (vec!["--fd", &fds[1], "--fd", &fds[2], "-e", "@read", &pid], 2500),
        (vec!["--ret", "zero", "--linear", "0,100,10", &pid], 0),
    ] {
        for _ in 0..10 {
            let measuring = both(&options);
            workload.carry_out();
            if let Some(lines) = same(measuring) {
                let calls = lines.iter().find(|line| line.contains("calls: ")).unwrap();
                assert!(calls.ends_with(&format!("calls: {expected}")), "{options:?}: {lines:?}");
                break;
            }
        }
    }
}

#[test]
fn calls_with_the_numbers_of_32_bit_programs_are_not_mistaken() {
    if !can_measure() || !cfg!(target_arch = "x86_64") {
        return;
    }
    if !requirements::tool("cc", "Debian's package gcc") {
        return;
    }
    // Number 0 is read() for 64-bit programs; by way of `int 0x80` it is restart_syscall().
    let source = r#"
        #include <unistd.h>
        #include <stdio.h>
        int main(void) {
            char byte; long result;
            for (int i = 0; i < 7; i++)
                __asm__ volatile("int $0x80" : "=a"(result) : "a"(0L) : "memory");
            for (int i = 0; i < 5; i++)
                read(0, &byte, 1);
            return result == -4 ? 0 : 9;
        }"#;
    let folder = std::env::temp_dir().join(format!("rlat-test-compat-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (text, program) = (folder.join("compat.c"), folder.join("compat"));
    fs::write(&text, source).unwrap();
    // Static, so that no loader reads.
    let built = Command::new("cc").arg("-static").arg("-o").args([&program, &text]).status();
    assert!(built.unwrap().success());
    // Without CONFIG_IA32_EMULATION, `int 0x80` kills the program.
    let alone =
        Command::new(&program).stdin(fs::File::open("/dev/zero").unwrap()).status().unwrap();
    if alone.code() == Some(0) {
        for attach in ["--attach=tracepoint", "--attach=raw"] {
            let output = rlat([attach, "--"])
                .arg(&program)
                .stdin(fs::File::open("/dev/zero").unwrap())
                .output()
                .unwrap();
            let report = Report::of(&String::from_utf8(output.stderr).unwrap());
            assert_eq!(report.ledger.recorded, 5, "{attach}: {report}");
        }
    } else {
        requirements::skip(format!("32-bit system calls end with {alone}"));
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_way_is_chosen_and_said() {
    if !can_measure() {
        return;
    }
    let workload = Workload::start(["reads", "1", "1"]);
    let pid = workload.pid.to_string();
    let said = |options: &[&str]| {
        let output = rlat(["-v", "-d", "1ms", &pid]).args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        said.lines().find_map(|line| line.strip_prefix("attach to ")).unwrap().to_owned()
    };
    let chosen = said(&["--attach=raw"]);
    let by_type = "the raw tracepoints of all calls, the entry by its type: --attach raw";
    assert!(
        [by_type, "the raw tracepoints of all calls: --attach raw"].contains(&&*chosen),
        "{chosen}"
    );
    let has_types = fs::exists("/sys/kernel/btf/vmlinux").unwrap();
    assert_eq!(chosen == by_type, has_types, "{chosen}");
    assert!(said(&["-e", "@net"]).starts_with("the raw tracepoints of all calls"));
    let folder = std::env::temp_dir().join(format!("rlat-test-way-{}", std::process::id()));
    fs::create_dir_all(folder.join("events/sched")).unwrap();
    let option = format!("--tracefs={}", folder.display());
    let why = "there are no tracepoints of single calls (CONFIG_FTRACE_SYSCALLS)";
    let chosen = said(&[&option]);
    assert!(chosen.starts_with("the raw tracepoints of all calls"), "{chosen}");
    assert!(chosen.ends_with(why), "{chosen}");
    fs::remove_dir_all(&folder).unwrap();
}
