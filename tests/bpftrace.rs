//! rlat and bpftrace on the same process at the same time: the same number of calls, and each call whose
//! length is known in the same bucket.
//!
//! That is the bpftrace that is installed. `scripts/newest-bpftrace --agree` runs these tests with the newest.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod peer;
mod requirements;
mod support;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use ::rlat::histogram::{Histogram, Linear, LinearHistogram, Unit};
use ::rlat::report::Labels;
use ::rlat::report::rows::{histogram_rows, linear_rows};

use nix::sys::signal::Signal;
use peer::Bpftrace;
use serde_json::Value;
use support::{Report, Rlat, Workload, can_measure, rlat};

/// How often a comparison is tried anew when somebody else's bpf(2) calls made the kernel skip programs.
const ROUNDS: usize = 10;

/// bpftrace calls bpf(2) on its maps when it starts and ends, and would disturb the other test.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Which buckets both are asked for.
struct Buckets {
    /// An expression of bpftrace, of a length in us.
    theirs: &'static str,
    /// Options of rlat.
    ours: &'static [&'static str],
    /// The label of the row for a call of that length.
    label: fn(Duration) -> String,
}

const POWERS: Buckets =
    Buckets { theirs: "hist($us)", ours: &[], label: |length| label_of(length, 0) };

const QUARTERS: Buckets =
    Buckets { theirs: "hist($us, 2)", ours: &["-b", "2"], label: |length| label_of(length, 2) };

/// Of a width that every bpftrace labels alike: old ones write K for each multiple of 1,024.
const LINEAR: Buckets = Buckets {
    theirs: "lhist($us, 0, 189000, 10500)",
    ours: &["--linear", "0,189000,10500"],
    label: |length| {
        let mut histogram = LinearHistogram::new(Linear::new(0, 189_000, 10_500).unwrap());
        histogram.record(length.as_micros() as u64);
        only_label(&linear_rows(&histogram, Unit::Us, Labels::Power))
    },
};

fn label_of(length: Duration, k: u32) -> String {
    let mut histogram = Histogram::new(Unit::Us);
    histogram.record(length.as_nanos() as u64);
    only_label(&histogram_rows(&histogram.rows(k), Unit::Us, Labels::Power))
}

fn only_label(row: &str) -> String {
    rows(row).into_keys().next().unwrap().to_owned()
}

/// What bpftrace is to count: each call, and the lengths of those that return.
fn script(pid: u32, buckets: &Buckets) -> String {
    let buckets = buckets.theirs;
    format!(
        "tracepoint:syscalls:sys_enter_read /pid == {pid}/ {{
            @calls = count();
            @start[tid] = nsecs;
        }}
        tracepoint:syscalls:sys_exit_read /@start[tid]/ {{
            $us = (nsecs - @start[tid]) / 1000;
            @read_us = {buckets};
            delete(@start[tid]);
        }}
        END {{ clear(@start); }}"
    )
}

fn can_compare() -> bool {
    can_measure() && peer::bpftrace()
}

/// What follows in the line that begins so.
fn line<'a>(text: &'a str, beginning: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(beginning))
}

/// The count of each row that has one, by its label.
fn rows(text: &str) -> BTreeMap<&str, u64> {
    text.lines()
        .filter(|line| line.starts_with('['))
        .filter_map(|line| {
            let (label, rest) = line.split_at(line.find([']', ')'])? + 1);
            let count = rest.split_ascii_whitespace().next()?.parse().ok()?;
            Some((label, count)).filter(|(_, count)| *count > 0)
        })
        .collect()
}

/// Measures by both until no program was skipped. `drive` makes the calls.
fn by_both<T>(
    workload: &mut Workload,
    buckets: &Buckets,
    drive: impl Fn(&mut Workload) -> T,
) -> (T, Report, String) {
    for _ in 0..ROUNDS {
        let bpftrace = Bpftrace::attach(&script(workload.pid, buckets));
        let mut command = rlat(["-v", "-d", "0", &workload.pid.to_string()]);
        let rlat = Rlat::with_open_window(command.args(buckets.ours));
        let driven = drive(workload);
        let report = rlat.interrupt();
        let theirs = bpftrace.end();
        // The kernel skips all programs of a tracepoint at once, so rlat speaks for both.
        if !report.was_disturbed() {
            return (driven, report, theirs);
        }
        eprintln!("disturbed: {report}");
    }
    panic!("the kernel skips programs again and again");
}

#[test]
fn many_fast_calls_of_several_threads_are_as_many_to_both() {
    const CALLS: u64 = 10_000;
    const THREADS: u64 = 4;
    if !can_compare() {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock();
    let mut workload = Workload::start(["reads", &CALLS.to_string(), &THREADS.to_string()]);
    let ((), report, theirs) = by_both(&mut workload, &POWERS, Workload::carry_out);
    let all = CALLS * THREADS;
    assert_eq!(report.ledger.entered, all, "{report}");
    assert_eq!(report.ledger.recorded, all, "{report}");
    assert_eq!(line(&theirs, "@calls: "), Some(all.to_string().as_str()), "{theirs}");
    assert_eq!(rows(&theirs).values().sum::<u64>(), all, "{theirs}");
}

/// The calls that were made, by what is known of them.
#[derive(Debug, Default)]
struct Made {
    /// Those that must be in the row with that label.
    known: BTreeMap<String, u64>,
    /// Those that a busy machine made so long that they may be in another one.
    unknown: u64,
}

impl Made {
    /// Has a waiting thread's call last for `delay` at least, and notes what its row must be: the call
    /// cannot be shorter than from when it was seen waiting until there is something to read, nor longer
    /// than the workload's own clock says.
    fn call_of(
        &mut self,
        delay: Duration,
        label: fn(Duration) -> String,
        workload: &mut Workload,
        tid: u32,
    ) {
        workload.wait_until_in_read(tid);
        let seen = Instant::now();
        thread::sleep(delay);
        let shortest = seen.elapsed();
        workload.write(b"x");
        let longest = Duration::from_nanos(workload.report("took "));
        if label(shortest) == label(longest) {
            *self.known.entry(label(shortest)).or_default() += 1;
        } else {
            self.unknown += 1;
        }
    }

    fn total(&self) -> u64 {
        self.known.values().sum::<u64>() + self.unknown
    }

    /// The counts of both must be those that are known, but for the calls of which nothing is known.
    fn assert_in(&self, rows: &BTreeMap<&str, u64>, text: &str) {
        assert_eq!(rows.values().sum::<u64>(), self.total(), "{text}");
        for (label, known) in &self.known {
            let counted = rows.get(label.as_str()).copied().unwrap_or(0);
            let most = known + self.unknown;
            assert!((*known..=most).contains(&counted), "{label} in {text}\n{self:?}");
        }
    }
}

/// The lengths are in the middle of a bucket each, so that both clocks read the same bucket.
fn each_call_of_known_length_is_in_the_same_bucket(buckets: &Buckets, delays_ms: [u64; 4]) {
    const CALLS_EACH: usize = 4;
    let _alone = ONE_AT_A_TIME.lock();
    let mut workload = Workload::start(["input", "1"]);
    let tid = workload.start_reading(1)[0];
    let (made, report, theirs) = by_both(&mut workload, buckets, |workload| {
        // This call began before anybody was there to see it.
        workload.wait_until_in_read(tid);
        workload.write(b"x");
        workload.report("took ");
        let mut made = Made::default();
        for _ in 0..CALLS_EACH {
            for delay in delays_ms {
                made.call_of(Duration::from_millis(delay), buckets.label, workload, tid);
            }
        }
        // One call more, that does not return while it is measured.
        workload.wait_until_in_read(tid);
        made
    });

    assert_eq!(report.ledger.recorded, made.total(), "{report}");
    assert_eq!(report.ledger.in_flight, 1, "{report}");
    assert_eq!(report.ledger.entered, made.total() + 1, "{report}");
    let entered = report.ledger.entered.to_string();
    assert_eq!(line(&theirs, "@calls: "), Some(entered.as_str()), "{theirs}");

    made.assert_in(&rows(&report.text), &report.text);
    made.assert_in(&rows(&theirs), &theirs);
    if made.unknown == 0 {
        assert_eq!(rows(&report.text), rows(&theirs), "rlat's and bpftrace's");
    }
    if made.known.is_empty() {
        requirements::skip("the machine was too busy for any call's length to be known");
    }
}

#[test]
fn each_call_of_known_length_is_in_the_same_power_of_two() {
    if can_compare() {
        each_call_of_known_length_is_in_the_same_bucket(&POWERS, [3, 12, 25, 200]);
    }
}

#[test]
fn each_call_of_known_length_is_in_the_same_quarter_of_a_power_of_two() {
    if !can_compare() {
        return;
    }
    if !peer::bpftrace_has_finer_buckets() {
        eprintln!("only the newest bpftrace has such: see scripts/newest-bpftrace");
        return;
    }
    each_call_of_known_length_is_in_the_same_bucket(&QUARTERS, [30, 60, 120, 245]);
}

#[test]
fn each_call_of_known_length_is_in_the_same_step() {
    if can_compare() {
        each_call_of_known_length_is_in_the_same_bucket(&LINEAR, [5, 15, 26, 240]);
    }
}

/// What is in the lines of that type.
fn json_lines(text: &str, of_type: &str) -> Vec<Value> {
    // Both also write lines that are no JSON, or of types of their own.
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["type"] == of_type).map(|mut line| line["data"].take()).collect()
}

#[test]
fn maps_and_histograms_are_the_same_in_json() {
    const DELAYS_MS: [u64; 3] = [3, 12, 25];
    if !can_compare() {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock();
    let mut workload = Workload::start(["input", "1"]);
    let tid = workload.start_reading(1)[0];
    let pid = workload.pid;
    // It counts the calls that have returned, as rlat does.
    let script = format!(
        "tracepoint:syscalls:sys_enter_read /pid == {pid}/ {{ @start[tid] = nsecs; }}
        tracepoint:syscalls:sys_exit_read /@start[tid]/ {{
            @calls = count();
            @read_us = hist((nsecs - @start[tid]) / 1000);
            delete(@start[tid]);
        }}
        END {{ clear(@start); }}"
    );
    for _ in 0..ROUNDS {
        let bpftrace = Bpftrace::attach_with(&["-f", "json"], &script);
        let mut command = rlat(["-v", "-d", "0", "-f", "json", &pid.to_string()]);
        let rlat = Rlat::with_open_window(&mut command);
        // This call began before anybody was there to see it.
        workload.write(b"x");
        workload.report("took ");
        let mut made = Made::default();
        for delay in DELAYS_MS {
            made.call_of(Duration::from_millis(delay), POWERS.label, &mut workload, tid);
        }
        workload.wait_until_in_read(tid);
        rlat.send(Signal::SIGINT);
        let (ours, theirs) = (rlat.ended().stdout, bpftrace.end());
        let missed = json_lines(&ours, "end")[0]["missed_runs"].take();
        let was_disturbed = missed.as_object().is_some_and(|m| m.values().any(|runs| *runs != 0));
        // Of a call that a busy machine made longer, nobody knows the bucket.
        if was_disturbed || made.unknown > 0 {
            continue;
        }
        assert_eq!(json_lines(&ours, "map"), json_lines(&theirs, "map"), "{ours}{theirs}");
        assert_eq!(json_lines(&ours, "hist"), json_lines(&theirs, "hist"), "{ours}{theirs}");
        assert_eq!(json_lines(&ours, "map")[0]["@calls"], DELAYS_MS.len(), "{ours}{theirs}");
        return;
    }
    requirements::skip("the machine was too busy for the lengths of all calls to be known");
}
