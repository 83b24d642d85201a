//! Histograms against those that the newest bpftrace printed for the same values.
//!
//! `scripts/newest-bpftrace --golden` makes what is in tests/data/newest/; `version` says of which one.
//! `NAME.txt` and `NAME.jsonl` are what it printed, without empty lines and without lines that are no
//! histogram. `NAME.values` are the values: for `hist` one `value count` a line, counted in the maps @k0
//! to @k5 by `hist(value, k)`; for `lhist` as in tests/data/lhist/, whose values it was given, too.
//!
//! All has to be the same, labels included, but for two things:
//!
//! - Values are signed numbers to bpftrace: from 2^63 up they are less than 0, in a row `(..., 0)` of
//!   hist() and in the underflow of lhist(). Here they are what they are, and in the last bucket.
//! - There is no blank between rows in its JSON, and one in ours, as up to bpftrace 0.23.
//!
//! The edges of lhist() are below 2^30 here. bpftrace 0.27 cuts the end of greater buckets to 32 bits, and
//! labels one with `[1024M, -2048M)`.

#![allow(clippy::unwrap_used)] // All of this file is tests.

mod meta;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rlat::histogram::log2::{RECORDED_K, bucket_index};
use rlat::histogram::{Histogram, Linear, LinearHistogram, Unit};
use rlat::latency::{Call, ClosedBy, Ledger, Outcome};
use rlat::report::rows::{histogram_rows, linear_rows};
use rlat::report::{Labels, View, json};
use serde_json::Value;

fn data(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder)
}

/// What it printed for one file of values.
struct Golden {
    name: String,
    values: String,
    text: String,
    json: String,
}

/// All in that folder of tests/data/newest/, and there are `number` of them.
fn all(of: &str, number: usize) -> Vec<Golden> {
    let folder = data("newest").join(of);
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let golden: Vec<Golden> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .map(|text| {
            let name = text.file_stem().unwrap().to_str().unwrap().to_owned();
            let own = text.with_extension("values");
            let values =
                if own.exists() { own } else { data(of).join(&name).with_extension("values") };
            Golden {
                name,
                values: fs::read_to_string(values).unwrap(),
                json: fs::read_to_string(text.with_extension("jsonl")).unwrap(),
                text: fs::read_to_string(text).unwrap(),
            }
        })
        .collect();
    assert_eq!(golden.len(), number, "{}", folder.display());
    golden
}

fn histogram(golden: &Golden) -> Histogram {
    let mut histogram = Histogram::new(Unit::Us);
    for line in golden.values.lines() {
        let (value, count) = line.split_once(' ').unwrap();
        let index = bucket_index(value.parse().unwrap(), RECORDED_K);
        histogram.add_bucket(index, count.parse().unwrap());
    }
    histogram
}

fn linear(golden: &Golden) -> LinearHistogram {
    let mut lines = golden.values.lines();
    let edges: Vec<u64> =
        lines.next().unwrap().split(", ").map(|number| number.parse().unwrap()).collect();
    let mut linear = LinearHistogram::new(Linear::new(edges[0], edges[1], edges[2]).unwrap());
    for line in lines {
        linear.record(line.parse().unwrap());
    }
    linear
}

/// The rows of one map.
fn rows_of<'a>(text: &'a str, map: &str) -> Vec<&'a str> {
    let head = format!("{map}:");
    text.lines()
        .skip_while(|line| *line != head)
        .skip(1)
        .take_while(|l| !l.starts_with('@'))
        .collect()
}

/// The same of the JSON: a list of rows.
fn json_of(lines: &str, map: &str) -> Value {
    let mut maps = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    maps.find_map(|mut line| line["data"].get_mut(map).map(Value::take)).unwrap()
}

/// The rows that we print as JSON.
fn our_json(histogram: Histogram, linear: Option<LinearHistogram>, k: u32) -> Value {
    let call = Call {
        syscall: "read".to_owned(),
        histogram,
        linear,
        ledger: Ledger::default(),
        in_flight: Vec::new(),
    };
    let outcome = Outcome {
        calls: vec![call],
        missed_runs: None,
        unfollowed: None,
        window: Duration::from_secs(30),
        closed_by: ClosedBy::Time,
    };
    let text = json::measurement(&meta::meta(), &outcome, View { k, ..View::default() });
    json_of(&text, "@read_us")
}

/// The one with values that bpftrace takes for negative ones.
const ABOVE_2_TO_THE_63: &str = "above_2_to_the_63";

#[test]
fn hist_of_every_k_has_the_same_rows_labels_counts_and_bars() {
    for golden in all("hist", 14).iter().filter(|golden| golden.name != ABOVE_2_TO_THE_63) {
        for k in 0..=5 {
            let ours = histogram_rows(&histogram(golden).rows(k), Unit::Us, Labels::Power);
            let theirs = rows_of(&golden.text, &format!("@k{k}"));
            assert_eq!(ours.lines().collect::<Vec<_>>(), theirs, "{}, k = {k}", golden.name);
        }
    }
}

#[test]
fn hist_of_every_k_is_the_same_in_json() {
    for golden in all("hist", 14).iter().filter(|golden| golden.name != ABOVE_2_TO_THE_63) {
        for k in 0..=5 {
            let ours = our_json(histogram(golden), None, k);
            let theirs = json_of(&golden.json, &format!("@k{k}"));
            assert_eq!(ours, theirs, "{}, k = {k}", golden.name);
        }
    }
}

#[test]
fn lhist_has_the_same_rows_labels_counts_and_bars() {
    for golden in all("lhist", 28).iter().filter(|golden| golden.name != ABOVE_2_TO_THE_63) {
        let ours = linear_rows(&linear(golden), Unit::Us, Labels::Power);
        let theirs = rows_of(&golden.text, "@");
        assert_eq!(ours.lines().collect::<Vec<_>>(), theirs, "{}", golden.name);
    }
}

#[test]
fn lhist_is_the_same_in_json() {
    for golden in all("lhist", 28).iter().filter(|golden| golden.name != ABOVE_2_TO_THE_63) {
        let ours = our_json(Histogram::new(Unit::Us), Some(linear(golden)), 0);
        assert_eq!(ours, json_of(&golden.json, "@"), "{}", golden.name);
    }
}

/// The label and the count of a row.
fn label_and_count(row: &str) -> (&str, u64) {
    let (label, rest) = row.split_at(row.find([')', ']']).unwrap() + 1);
    (label, rest.split_ascii_whitespace().next().unwrap().parse().unwrap())
}

#[test]
fn from_2_to_the_63_up_values_are_negative_to_bpftrace_and_great_to_us() {
    let find = |of, number| {
        let mut all = all(of, number).into_iter();
        all.find(|golden| golden.name == ABOVE_2_TO_THE_63).unwrap()
    };
    let hist = find("hist", 14);
    for k in 0..=5 {
        let theirs = rows_of(&hist.text, &format!("@k{k}"));
        assert_eq!(label_and_count(theirs[0]), ("(..., 0)", 4), "k = {k}");
        let row = json_of(&hist.json, &format!("@k{k}"))[0].take();
        assert_eq!(row, serde_json::json!({"max": -1, "count": 4}), "k = {k}");
    }
    let ours = histogram(&hist);
    let rows = histogram_rows(&ours.rows(0), Unit::Us, Labels::Power);
    assert_eq!(label_and_count(rows.lines().last().unwrap()), ("[8E, 16E)", 4));

    let lhist = find("lhist", 28);
    let theirs = rows_of(&lhist.text, "@");
    assert_eq!(label_and_count(theirs[0]), ("(..., 0)", 2));
    assert_eq!(label_and_count(theirs.last().unwrap()), ("[100, ...)", 1));
    let ours = linear_rows(&linear(&lhist), Unit::Us, Labels::Power);
    assert_eq!(label_and_count(ours.lines().last().unwrap()), ("[100, ...)", 3));
}
