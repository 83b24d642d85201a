//! Whole text reports against the files in tests/data/report/.
//!
//! After an intended change, `RLAT_BLESS=1 cargo test --test report_golden` writes the files anew; read the
//! difference before committing it.

#![allow(clippy::unwrap_used)] // All of this file is tests.

use std::path::Path;
use std::time::Duration;

use rlat::histogram::{Histogram, Unit};
use rlat::latency::{Call, ClosedBy, Elapsed, InFlight, Ledger, Lost, MissedRuns, Outcome};
use rlat::report::View;
use rlat::report::text::measurement;

fn check(name: &str, outcome: &Outcome) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/report").join(name);
    let text = measurement(outcome, View::default());
    if std::env::var_os("RLAT_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "{name}");
}

/// A outcome in which every value was recorded, and nothing else happened.
fn recorded(values_ns: impl IntoIterator<Item = u64>) -> Outcome {
    let mut histogram = Histogram::new(Unit::Us);
    for ns in values_ns {
        histogram.record(ns);
    }
    let call = Call {
        syscall: "read".to_owned(),
        ledger: Ledger {
            entered: histogram.count(),
            recorded: histogram.count(),
            in_flight_since_before: Some(0),
            ..Ledger::default()
        },
        histogram,
        linear: None,
        in_flight: Vec::new(),
    };
    Outcome {
        calls: vec![call],
        missed_runs: Some(MissedRuns::default()),
        unfollowed: None,
        window: Duration::from_secs(30),
        closed_by: ClosedBy::Time,
    }
}

/// 1,992 fast calls and a few slow ones.
fn wide() -> Outcome {
    recorded((0..1992).map(|n| 700 + n * 3).chain([31_000, 90_000, 1_234_567, 1_000_000_000]))
}

#[test]
fn empty() {
    check("empty.txt", &recorded([]));
}

#[test]
fn one_bucket() {
    check("one_bucket.txt", &recorded([812]));
}

#[test]
fn many_buckets_until_the_process_ended() {
    check("wide.txt", &Outcome { closed_by: ClosedBy::TargetEnd, ..wide() });
}

#[test]
fn in_flight() {
    let mut outcome = wide();
    outcome.calls[0].ledger.entered += 2;
    outcome.calls[0].ledger.in_flight = 2;
    outcome.calls[0].ledger.in_flight_since_before = Some(2);
    outcome.calls[0].ledger.ended_without_exit = 1;
    outcome.calls[0].ledger.entered += 1;
    outcome.calls[0].in_flight = vec![
        InFlight {
            pid: 1234,
            tid: 1234,
            thread: "reader".to_owned(),
            descriptor: Some(5),
            target: Some("pipe:[77213]".to_owned()),
            elapsed: Elapsed::Exactly(Duration::from_millis(4201)),
        },
        InFlight {
            pid: 1234,
            tid: 1235,
            thread: "\u{1b}[31mred\n".to_owned(),
            descriptor: Some(-1),
            target: None,
            elapsed: Elapsed::Exactly(Duration::from_nanos(950)),
        },
        InFlight {
            pid: 1234,
            tid: 1236,
            thread: "main loop".to_owned(),
            descriptor: Some(0),
            target: Some("/tmp/a\u{202e}b (deleted)".to_owned()),
            elapsed: Elapsed::AtLeast(Duration::from_secs(30)),
        },
    ];
    check("in_flight.txt", &outcome);
}

#[test]
fn everything_wrong() {
    let mut outcome = wide();
    outcome.calls[0].ledger = Ledger {
        entered: 3000,
        recorded: 1995,
        in_flight: 0,
        ended_without_exit: 1,
        lost: Lost { store_full: 1000, exit_missed: 2, negative: 1, ..Lost::default() },
        exits_without_start: 1,
        in_flight_since_before: None,
        restarted: 12,
        excluded: 2,
        returned_zero: 3,
        returned_error: 9,
        errors: vec![(0, 1), (11, 5), (4, 3)],
    };
    outcome.missed_runs = Some(MissedRuns { entry: 5, exit: 1234, thread_end: 1 });
    check("everything_wrong.txt", &outcome);
}

#[test]
fn missed_runs_unknown() {
    let mut outcome = recorded([3_000, 4_000]);
    outcome.calls[0].ledger.entered += 2;
    outcome.calls[0].ledger.lost.exit_missed = 1;
    outcome.missed_runs = None;
    check("missed_runs_unknown.txt", &outcome);
}

#[test]
fn several_calls() {
    let mut outcome = wide();
    let mut write = recorded([3_000, 4_000]).calls.remove(0);
    write.syscall = "write".to_owned();
    outcome.calls.push(write);
    check("several_calls.txt", &outcome);
}
