//! Linear histograms against those that bpftrace 0.17 printed for the same values.
//!
//! In tests/data/lhist/, `NAME.values` has the arguments `min, max, step` of lhist() and then a value a
//! line; `NAME.txt` and `NAME.json` are what bpftrace printed for them. Buckets, counts and bars have to be
//! the same. Of the labels, bpftrace has changed three since (0.21 and 0.24), and rlat writes the newer ones:
//!
//! - the overflow is labelled with the edge that it begins at, not with the maximum: `lhist(n, 0, 100, 30)`
//!   counts 95 in a row that is now `[90, ...)`, and was `[100, ...)`;
//! - K and M are used when the step is a multiple of 1,024, so that all edges look alike;
//! - a bucket of one value is `[3]`, and was `[3, 4)`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rlat::histogram::{Histogram, Linear, LinearHistogram, Unit};
use rlat::latency::{Call, ClosedBy, Ledger, Outcome};
use rlat::report::{Labels, View, csv, rows::linear_rows};

struct Golden {
    name: String,
    max: u64,
    edges: Linear,
    histogram: LinearHistogram,
    text: String,
    json: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/lhist")
}

fn all() -> Vec<Golden> {
    let files = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let values = files.filter(|path| path.extension().is_some_and(|ending| ending == "values"));
    let golden: Vec<Golden> = values.map(|path| read(&path)).collect();
    assert!(golden.len() >= 19, "{} histograms only", golden.len());
    golden
}

fn read(path: &Path) -> Golden {
    let values = fs::read_to_string(path).unwrap();
    let mut lines = values.lines();
    let args: Vec<u64> =
        lines.next().unwrap().split(", ").map(|number| number.parse().unwrap()).collect();
    let [min, max, step] = args[..] else { panic!("{}: {args:?}", path.display()) };
    let edges = Linear::new(min, max, step).unwrap();
    let mut histogram = LinearHistogram::new(edges);
    for line in lines {
        histogram.record(line.parse().unwrap());
    }
    let beside = |ending| fs::read_to_string(path.with_extension(ending)).unwrap();
    let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
    Golden { name, max, edges, histogram, text: beside("txt"), json: beside("json") }
}

/// The number that bpftrace 0.17 wrote as `1K`.
fn number(edge: &str) -> u64 {
    let digits = edge.trim_end_matches(['K', 'M']);
    let shift = match &edge[digits.len()..] {
        "" => 0,
        "K" => 10,
        _ => 20,
    };
    digits.parse::<u64>().unwrap() << shift
}

/// What newer ones print instead of that label.
fn newer_label(golden: &Golden, label: &str) -> String {
    let edge = |edge: &str| {
        if golden.edges.step().is_multiple_of(1024) {
            edge.to_owned()
        } else {
            number(edge).to_string()
        }
    };
    let (first, last) = label.trim_matches(['[', '(', ')']).split_once(", ").expect("two edges");
    match (first, last) {
        ("...", last) => format!("(..., {})", edge(last)),
        (first, "...") => {
            assert_eq!(number(first), golden.max, "{}", golden.name);
            let end = golden.edges.end();
            let is_whole = end.is_multiple_of(1024) && golden.edges.step().is_multiple_of(1024);
            let end = match end {
                0 => "0".to_owned(),
                _ if is_whole && end.is_multiple_of(1 << 20) => format!("{}M", end >> 20),
                _ if is_whole => format!("{}K", end >> 10),
                _ => end.to_string(),
            };
            format!("[{end}, ...)")
        }
        (first, last) if number(first) + 1 == number(last) => format!("[{}]", edge(first)),
        (first, last) => format!("[{}, {})", edge(first), edge(last)),
    }
}

#[test]
fn rows_counts_and_bars_are_bpftraces() {
    for golden in all() {
        let expected: Vec<String> = golden
            .text
            .lines()
            .map(|line| {
                let (label, rest) = line.split_at(line.find([')', ']']).unwrap() + 1);
                let (count, bar) = rest.trim_start().split_once(" |").unwrap();
                format!("{:<16}{count:>8} |{bar}", newer_label(&golden, label))
            })
            .collect();
        let rows = linear_rows(&golden.histogram, Unit::Us, Labels::Power);
        assert_eq!(rows.lines().collect::<Vec<_>>(), expected, "{}", golden.name);
    }
}

fn outcome(golden: &Golden) -> Outcome {
    let call = Call {
        syscall: "read".to_owned(),
        histogram: Histogram::new(Unit::Us),
        linear: Some(golden.histogram.clone()),
        ledger: Ledger::default(),
        in_flight: Vec::new(),
    };
    Outcome {
        calls: vec![call],
        missed_runs: None,
        unfollowed: None,
        window: Duration::from_secs(30),
        closed_by: ClosedBy::Time,
    }
}

#[test]
fn json_is_bpftraces_but_for_where_the_overflow_begins() {
    for golden in all() {
        let text = json(&golden);
        let line = text.lines().find(|line| line.starts_with(r#"{"type": "hist""#)).unwrap();
        let overflow = |from: u64| format!(r#"{{"min": {from}, "count""#);
        let expected = golden
            .json
            .replace(r#""@":"#, r#""@read_us":"#)
            .replace(&overflow(golden.max), &overflow(golden.edges.end()));
        assert_eq!(format!("{line}\n"), expected, "{}", golden.name);
    }
}

fn json(golden: &Golden) -> String {
    rlat::report::json::measurement(&meta(), &outcome(golden), View::default())
}

fn meta() -> rlat::report::meta::Meta {
    use rlat::report::meta::{Cpus, Meta, Options, Whom};
    Meta {
        version: "0.0.0",
        command_line: Vec::new(),
        host: rlat::host::Host { kernel: None, architecture: None, distribution: None },
        cpus: Cpus::default(),
        started: SystemTime::UNIX_EPOCH,
        syscalls: vec!["read".to_owned()],
        subject: Whom::All,
        targets: Vec::new(),
        options: Options {
            duration: None,
            descriptors: Vec::new(),
            returns: rlat::latency::Returns::Any,
            unit: Unit::Us,
            k: 0,
            linear: None,
        },
        note: None,
        calibration: None,
    }
}

#[test]
fn csv_has_the_same_rows() {
    for golden in all() {
        let text = csv::measurement(&outcome(&golden), View::default());
        let rows: Vec<(Option<u64>, Option<u64>, u64)> = text
            .lines()
            .skip(1)
            .map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                let ["read", "us", min, max, count] = fields[..] else { panic!("{line}") };
                (min.parse().ok(), max.parse().ok(), count.parse().unwrap())
            })
            .collect();
        let expected: Vec<_> =
            golden.histogram.rows().iter().map(|row| (row.min, row.max, row.count)).collect();
        assert_eq!(rows, expected, "{}", golden.name);
    }
}
