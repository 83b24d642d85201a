//! Whole reports of surveys against the files in tests/data/survey/.
//!
//! After an intended change, `RLAT_BLESS=1 cargo test --test survey_golden` writes the files anew; read
//! the difference before committing it.

#![allow(clippy::unwrap_used)] // All of this file is tests.

use std::path::Path;
use std::time::Duration;

use rlat::histogram::{Histogram, Unit};
use rlat::latency::{ClosedBy, Elapsed, Ledger, Lost, MissedRuns};
use rlat::report::survey::survey;
use rlat::survey::{Findings, InFlight, SurveyedCall};

fn check(name: &str, findings: &Findings) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/survey").join(name);
    let text = survey(findings);
    if std::env::var_os("RLAT_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "{name}");
    text
}

fn call(name: &str, errors: u64, latencies_ns: impl IntoIterator<Item = u64>) -> SurveyedCall {
    let mut histogram = Histogram::new(Unit::Ns);
    for ns in latencies_ns {
        histogram.record(ns);
    }
    SurveyedCall { name: name.to_owned(), histogram, errors, ended_without_exit: 0 }
}

/// Calls of which every one returned, and nothing else happened.
fn findings(calls: Vec<SurveyedCall>) -> Findings {
    let recorded = calls.iter().map(|call| call.histogram.count()).sum();
    Findings {
        ledger: Ledger {
            entered: recorded,
            recorded,
            in_flight_since_before: Some(0),
            ..Ledger::default()
        },
        calls,
        not_entered: 0,
        in_flight: Vec::new(),
        missed_runs: Some(MissedRuns::default()),
        unfollowed: None,
        turned_32_bit: Vec::new(),
        window: Duration::from_secs(10),
        closed_by: ClosedBy::Time,
    }
}

/// A server that mostly waits.
fn server() -> Findings {
    findings(vec![
        call("epoll_wait", 0, (0..1203).map(|n| 8_000_000 + n * 5_000)),
        call("fdatasync", 0, [31_000_000, 1_400_000_000]),
        call("read", 9, (0..14_812).map(|n| 900 + n % 400)),
        call("clock_gettime", 0, [61]),
    ])
}

#[test]
fn nothing() {
    check("nothing.txt", &findings(Vec::new()));
}

#[test]
fn a_server() {
    check("server.txt", &server());
}

#[test]
fn long_names_and_large_numbers_fit_into_80_columns() {
    let mut wide = call("sched_rr_get_interval", 0, [86_400_000_000_000]);
    wide.errors = 12_345;
    wide.histogram.add_bucket(100, 9_876_543);
    let wide = findings(vec![wide, call("landlock_add_rule", 0, [999, 1_000])]);
    let text = check("wide.txt", &wide);
    for line in text.lines().take_while(|line| !line.is_empty()) {
        assert!(line.len() <= 80, "{line}");
    }
}

#[test]
fn in_flight_and_ended() {
    let mut findings = server();
    let mut exit = call("exit_group", 0, []);
    exit.ended_without_exit = 1;
    findings.calls[2].ended_without_exit = 3;
    findings.calls.push(exit);
    findings.ledger.entered += 5;
    findings.ledger.ended_without_exit = 4;
    findings.ledger.in_flight = 1;
    findings.ledger.in_flight_since_before = Some(1);
    findings.ledger.exits_without_start = 2;
    findings.closed_by = ClosedBy::Signal;
    let in_flight = |tid, thread: &str, call: &str, elapsed| InFlight {
        pid: 1234,
        tid,
        thread: thread.to_owned(),
        call: call.to_owned(),
        elapsed,
    };
    findings.in_flight = vec![
        in_flight(1234, "server", "epoll_wait", Elapsed::Exactly(Duration::from_millis(4201))),
        in_flight(1235, "\u{1b}[31mred\n", "futex", Elapsed::AtLeast(Duration::from_secs(10))),
    ];
    check("in_flight.txt", &findings);
}

#[test]
fn everything_wrong() {
    let mut findings = server();
    findings.calls.push(call("other", 1, [300]));
    findings.ledger = Ledger {
        entered: 20_000,
        lost: Lost { store_full: 1000, exit_missed: 2, negative: 1, ..Lost::default() },
        exits_without_start: 1,
        in_flight_since_before: None,
        restarted: 12,
        ..findings.ledger
    };
    findings.not_entered = 7;
    findings.turned_32_bit = vec![1234];
    findings.missed_runs = Some(MissedRuns { entry: 5, exit: 1234, thread_end: 1 });
    check("everything_wrong.txt", &findings);
    findings.missed_runs = None;
    assert!(survey(&findings).ends_with("missed runs: unknown, the kernel did not say\n"));
}
