//! What `-v` tells of the programs and of the end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use nix::sys::signal::Signal;
use support::{Rlat, Workload, can_measure};

const CALLS: u64 = 10_000;

/// The count in `program NAME: 1,234 runs of 150 ns ...`; `None` where the kernel does not count.
fn runs(stderr: &str, program: &str) -> Option<u64> {
    let beginning = format!("program {program}: ");
    let mut lines = stderr.lines().filter_map(|line| line.strip_prefix(&beginning));
    let line = lines.next_back().unwrap_or_else(|| panic!("no line of {program}: {stderr}"));
    assert!(line.contains(" instructions") && line.contains(" bytes of native code"), "{line}");
    line.split_once(" runs").map(|(count, _)| count.replace(',', "").parse().unwrap())
}

#[test]
fn runs_are_counted_and_the_end_is_told() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["reads", &CALLS.to_string(), "1"]);
    let pid = workload.pid.to_string();
    for (way, names) in [
        ("--attach=tracepoint", ["rlat_read_enter", "rlat_read_exit"]),
        ("--attach=raw", ["rlat_sys_enter", "rlat_sys_exit"]),
    ] {
        let rlat = Rlat::measure_with(&["-v", way, &pid]);
        workload.carry_out();
        rlat.send(Signal::SIGINT);
        let ended = rlat.ended();
        for name in names {
            if let Some(runs) = runs(&ended.stderr, name) {
                assert!(runs >= CALLS, "{}", ended.stderr);
            }
        }
        // In the order in which it happens.
        let mut lines = ended.stderr.lines();
        for told in ["the result was written ", "detached in ", "all was done "] {
            assert!(lines.any(|line| line.starts_with(told)), "{told}: {}", ended.stderr);
        }
    }
}
