//! Whole JSON reports against the files in tests/data/json/, and the schema.
//!
//! After an intended change, `RLAT_BLESS=1 cargo test --test json_golden` writes the files anew; read the
//! difference before committing it. What is in tests/data/json/bpftrace/ was printed by bpftrace 0.17 for the
//! values beside it: `@read_us = hist(value)`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod schema;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rlat::histogram::{Histogram, Linear, LinearHistogram, Unit};
use rlat::host::Host;
use rlat::latency::{
    Call, ClosedBy, Elapsed, InFlight, Ledger, Lost, MissedRuns, Outcome, Returns, Way,
};
use rlat::report::meta::{Cpus, Measured, Meta, Options, Whom};
use rlat::report::{View, csv, json};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/json").join(name)
}

fn check(name: &str, meta: &Meta, outcome: &Outcome) {
    let view = View { k: meta.options.k, ..View::default() };
    let text = json::measurement(meta, outcome, view);
    schema::lines(&text);
    check_file(&data(&format!("{name}.jsonl")), &text);
    check_file(&data(&format!("{name}.csv")), &csv::measurement(outcome, view));
}

fn check_file(path: &Path, text: &str) {
    if std::env::var_os("RLAT_BLESS").is_some() {
        fs::write(path, text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(path).unwrap(), "{}", path.display());
}

fn bytes(arguments: &[&str]) -> Vec<Vec<u8>> {
    arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect()
}

fn meta() -> Meta {
    Meta {
        version: "0.0.0",
        command_line: bytes(&["rlat", "-f", "json", "1234"]),
        host: Host {
            kernel: Some("Linux 6.12.57+deb13-amd64".to_owned()),
            architecture: Some("x86_64".to_owned()),
            distribution: Some("Debian GNU/Linux 13 (trixie)".to_owned()),
        },
        cpus: Cpus { online: Some(2), possible: Some(4) },
        started: SystemTime::UNIX_EPOCH + Duration::from_millis(1_709_164_799_999),
        syscalls: vec!["read".to_owned()],
        subject: Whom::Processes,
        targets: vec![Measured {
            pid: 1234,
            tid: None,
            name: "cat".to_owned(),
            command_line: bytes(&["cat", "a file"]),
            threads: 1,
        }],
        options: Options {
            duration: Some(Duration::from_secs(30)),
            interval: None,
            descriptors: Vec::new(),
            returns: Returns::Any,
            unit: Unit::Us,
            k: 0,
            linear: None,
            way: Way::Tracepoint,
        },
        note: None,
        calibration: None,
    }
}

fn call(syscall: &str, histogram: Histogram) -> Call {
    Call {
        syscall: syscall.to_owned(),
        ledger: Ledger {
            entered: histogram.count(),
            recorded: histogram.count(),
            in_flight_since_before: Some(0),
            ..Ledger::default()
        },
        histogram,
        linear: None,
        in_flight: Vec::new(),
    }
}

fn outcome(calls: Vec<Call>) -> Outcome {
    Outcome {
        calls,
        missed_runs: Some(MissedRuns::default()),
        unfollowed: None,
        window: Duration::from_nanos(30_000_061_342),
        closed_by: ClosedBy::Time,
    }
}

fn recorded(unit: Unit, values_ns: &[u64]) -> Histogram {
    let mut histogram = Histogram::new(unit);
    for ns in values_ns {
        histogram.record(*ns);
    }
    histogram
}

#[test]
fn empty() {
    check("empty", &meta(), &outcome(vec![call("read", recorded(Unit::Us, &[]))]));
}

#[test]
fn one_bucket() {
    check("one_bucket", &meta(), &outcome(vec![call("read", recorded(Unit::Us, &[812, 900]))]));
}

/// The last bucket of all, and numbers that a reader with floating point would round.
#[test]
fn two_to_the_63() {
    let mut meta = meta();
    meta.options.unit = Unit::Ns;
    let values = [(1 << 53) + 1, (1 << 63) - 1, 1 << 63, u64::MAX];
    check("two_to_the_63", &meta, &outcome(vec![call("read", recorded(Unit::Ns, &values))]));
}

fn linear(edges: (u64, u64, u64), values_us: &[u64]) -> (Meta, Outcome) {
    let edges = Linear::new(edges.0, edges.1, edges.2).unwrap();
    let values_ns: Vec<u64> = values_us.iter().map(|us| us * 1000).collect();
    let mut call = call("read", recorded(Unit::Us, &values_ns));
    let mut linear = LinearHistogram::new(edges);
    for us in values_us {
        linear.record(*us);
    }
    call.linear = Some(linear);
    let mut meta = meta();
    meta.options.linear = Some(edges);
    (meta, outcome(vec![call]))
}

#[test]
fn linear_with_both_ends() {
    let (meta, outcome) = linear((10, 100, 20), &[0, 9, 10, 29, 30, 89, 90, 1000]);
    check("linear", &meta, &outcome);
}

#[test]
fn overflow_only() {
    let (meta, outcome) = linear((0, 100, 30), &[95, 100, 1_000_000]);
    check("overflow_only", &meta, &outcome);
}

#[test]
fn several_calls_in_finer_buckets() {
    let mut meta = meta();
    meta.syscalls = vec!["read".to_owned(), "fsync".to_owned()];
    meta.subject = Whom::Family;
    meta.options.k = 2;
    meta.options.descriptors = vec![0, 7];
    meta.options.returns = Returns::Ok;
    meta.note = Some("cold cache; \"/srv/a\"\nsecond run".to_owned());
    let mut read = call("read", recorded(Unit::Us, &[700, 1_000, 9_000, 10_000, 1_234_567]));
    read.ledger.recorded += 3;
    read.ledger.entered += 3;
    read.ledger.excluded = 3;
    let fsync = call("fsync", recorded(Unit::Us, &[20_000_000]));
    check("several_calls", &meta, &outcome(vec![read, fsync]));
}

/// Names that hold whatever bytes, and calls that did not return.
#[test]
fn in_flight_and_strange_names() {
    let mut meta = meta();
    meta.subject = Whom::Threads;
    meta.options.duration = None;
    meta.targets[0].tid = Some(1235);
    meta.targets[0].name = "\u{1b}[31mred\n".to_owned();
    meta.targets[0].command_line = vec![b"/bin/caf\xe9".to_vec(), b"a\nb\x7f\xff".to_vec(), vec![]];
    meta.host = Host { kernel: None, architecture: None, distribution: None };
    meta.cpus = Cpus::default();
    let mut call = call("read", recorded(Unit::Us, &[]));
    call.ledger.entered = 2;
    call.ledger.in_flight = 2;
    call.ledger.in_flight_since_before = Some(1);
    let in_flight = |tid, thread: &str, descriptor, target: Option<&str>, elapsed| InFlight {
        pid: 1234,
        tid,
        thread: thread.to_owned(),
        descriptor,
        target: target.map(str::to_owned),
        elapsed,
    };
    let second = Duration::from_secs(1);
    call.in_flight = vec![
        in_flight(1234, "reader", Some(5), Some("pipe:[77213]"), Elapsed::Exactly(second)),
        in_flight(1235, "\u{1b}[31mred\n", Some(-1), None, Elapsed::Exactly(second)),
        in_flight(
            1236,
            "a \u{fffd} b",
            None,
            Some("/tmp/a\u{202e}b\u{2028}\"\\ (deleted)"),
            Elapsed::AtLeast(second),
        ),
    ];
    let outcome = Outcome { closed_by: ClosedBy::Signal, ..outcome(vec![call]) };
    check("in_flight", &meta, &outcome);
}

#[test]
fn everything_wrong() {
    let mut call = call("read", recorded(Unit::Us, &[1_000, 2_000]));
    call.ledger = Ledger {
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
        errors: vec![(0, 1), (11, 5), (4, 3), (500, 1)],
    };
    let mut outcome = outcome(vec![call]);
    outcome.missed_runs = Some(MissedRuns { entry: 5, exit: 1234, thread_end: 1 });
    outcome.closed_by = ClosedBy::TargetEnd;
    let mut meta = meta();
    meta.subject = Whom::Named("x\"y".to_owned());
    meta.targets.clear();
    check("everything_wrong", &meta, &outcome);
    outcome.missed_runs = None;
    meta.subject = Whom::ControlGroup("/sys/fs/cgroup/a b".into());
    check("missed_runs_unknown", &meta, &outcome);
}

#[test]
fn what_bpftrace_prints_is_what_we_print() {
    let folder = data("bpftrace");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let values: Vec<_> = files.filter(|path| path.extension().unwrap() == "values").collect();
    assert!(values.len() >= 5);
    for path in values {
        let mut histogram = Histogram::new(Unit::Us);
        for line in fs::read_to_string(&path).unwrap().lines() {
            histogram.record(line.parse::<u64>().unwrap() * 1000);
        }
        let text =
            json::measurement(&meta(), &outcome(vec![call("read", histogram)]), View::default());
        schema::lines(&text);
        let line = text.lines().find(|line| line.starts_with(r#"{"type": "hist""#)).unwrap();
        let theirs = fs::read_to_string(path.with_extension("jsonl")).unwrap();
        assert_eq!(format!("{line}\n"), theirs, "{}", path.display());
    }
}

#[test]
fn a_report_that_was_cut_off_lacks_its_last_line() {
    let text = json::measurement(
        &meta(),
        &outcome(vec![call("read", recorded(Unit::Us, &[]))]),
        View::default(),
    );
    assert_eq!(text.matches(r#"{"type": "end""#).count(), 1);
    assert!(text.lines().last().unwrap().starts_with(r#"{"type": "end""#));
}
