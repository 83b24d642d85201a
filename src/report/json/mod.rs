//! The result for programs: one JSON object a line, each with a `type` and its `data`.
//!
//! The lines of the types `hist` and `map` have bpftrace's shape, down to the blanks, so that what reads
//! its output reads this, too. Around them are lines of our own types: `meta` comes first, then the maps
//! and histograms, then for each system call its `summary`, its `ledger` and an `inflight` line for each call
//! that had not returned, and `end` comes last. A file without `end` was cut off.
//!
//! With intervals, each begins with a line `interval`, and the maps and histograms behind it are of that
//! interval alone; those behind the line `total` are of the whole window.
//!
//! `docs/json-schema.json` describes every line. Times are nanoseconds and their keys end in `_ns`; the
//! buckets and percentiles count the unit that `meta` and `summary` name. Above 2^53 are integers that some
//! readers would round: in `hist` and `map` they are strings, as in bpftrace, in our own lines numbers.

mod layout;
mod lines;

use std::borrow::Cow;
use std::fmt::Write as _;

use super::cost::CalibrationData;
use super::meta::{CLOCK, Meta, Whom};
use super::text::PERCENTILES;
use super::utc::utc;
use super::{Interval, View, counter_name, histogram_name};
use crate::latency::{Call, ClosedBy, Counted, Elapsed, InFlight, Outcome, Returns, Snapshot, Way};
pub(super) use layout::write_line;
use lines::{
    CallInFlight, Count, Cpus, End, Entries, Errors, IntervalTimes, LedgerCounts, Line, Linear,
    LostCounts, Missed, Named, Options, Protocol, Row, Subject, Summary, Target, Total,
    UnfollowedChildren,
};

/// The whole result: every line from `meta` to `end`, each ending in a line break.
pub fn measurement(meta: &Meta, outcome: &Outcome, view: View) -> String {
    meta_line(meta) + &result(outcome, view)
}

/// The lines of one interval: which it is, then maps and histograms, as bpftrace prints them with
/// `print(@); clear(@);`.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use rlat::latency::Snapshot;
/// use rlat::report::{Interval, View, json};
///
/// let interval = Interval {
///     number: 1,
///     start: Duration::ZERO,
///     end: Duration::from_secs(1),
///     ended: UNIX_EPOCH,
///     counted: Snapshot { calls: Vec::new() },
/// };
/// assert_eq!(
///     json::interval(&interval, View::default()),
///     "{\"type\": \"interval\", \"data\": {\"number\": 1, \"start_ns\": 0, \"end_ns\": 1000000000, \
///      \"ended\": \"1970-01-01T00:00:00.000Z\"}}\n",
/// );
/// ```
pub fn interval(interval: &Interval, view: View) -> String {
    let mut text = String::new();
    let line = IntervalTimes {
        number: interval.number,
        start_ns: interval.start.as_nanos(),
        end_ns: interval.end.as_nanos(),
        ended: utc(interval.ended),
    };
    write_line(&mut text, &Line::Interval(line));
    maps(&mut text, &interval.counted, view);
    text
}

/// What follows the last of so many intervals: every line from `total` to `end`.
pub fn total(intervals: u64, outcome: &Outcome, view: View) -> String {
    let mut text = String::new();
    write_line(&mut text, &Line::Total(Total { intervals }));
    text + &result(outcome, view)
}

/// Every line behind `meta`.
fn result(outcome: &Outcome, view: View) -> String {
    let mut text = String::new();
    maps(&mut text, &Snapshot::from(outcome), view);
    for call in &outcome.calls {
        write_line(&mut text, &Line::Summary(summary(call)));
        write_line(&mut text, &Line::Ledger(ledger(call)));
        for in_flight in &call.in_flight {
            write_line(&mut text, &Line::InFlight(call_in_flight(&call.syscall, in_flight)));
        }
    }
    text + &end_line(outcome)
}

/// The first line.
pub fn meta_line(meta: &Meta) -> String {
    let options = &meta.options;
    let (command_line, command_line_hex) = arguments(&meta.command_line);
    let protocol = Protocol {
        rlat: meta.version,
        command_line,
        command_line_hex,
        kernel: meta.host.kernel.as_deref(),
        architecture: meta.host.architecture.as_deref(),
        distribution: meta.host.distribution.as_deref(),
        cpus: Cpus { online: meta.cpus.online, possible: meta.cpus.possible },
        started: utc(meta.started),
        clock: CLOCK,
        unit: options.unit.name(),
        syscalls: &meta.syscalls,
        subject: match &meta.subject {
            Whom::Processes => Subject::Processes,
            Whom::Threads => Subject::Threads,
            Whom::Family => Subject::Family,
            Whom::Named(name) => Subject::Comm { name },
            Whom::ControlGroup(path) => Subject::Cgroup { path: path.to_string_lossy() },
            Whom::All => Subject::All,
        },
        targets: meta
            .targets
            .iter()
            .map(|target| {
                let (command_line, command_line_hex) = arguments(&target.command_line);
                Target {
                    pid: target.pid,
                    tid: target.tid,
                    name: &target.name,
                    command_line,
                    command_line_hex,
                    threads: target.threads,
                }
            })
            .collect(),
        options: Options {
            duration_ns: options.duration.map(|duration| duration.as_nanos()),
            interval_ns: options.interval.map(|interval| interval.as_nanos()),
            fd: &options.descriptors,
            ret: match options.returns {
                Returns::Any => "any",
                Returns::Ok => "ok",
                Returns::Error => "error",
                Returns::Zero => "zero",
            },
            buckets: options.linear.is_none().then_some(options.k),
            linear: options.linear.map(|linear| Linear {
                min: linear.min(),
                step: linear.step(),
                overflow_from: linear.end(),
            }),
            attach: match options.way {
                Way::Tracepoint => "tracepoint",
                Way::Raw { .. } => "raw",
            },
        },
        note: meta.note.as_deref(),
        calibration: meta.calibration.as_ref().map(CalibrationData::from),
    };
    let mut text = String::new();
    write_line(&mut text, &Line::Meta(Box::new(protocol)));
    text
}

/// The last line.
pub fn end_line(outcome: &Outcome) -> String {
    let end = End {
        window_ns: outcome.window.as_nanos(),
        closed_by: match outcome.closed_by {
            ClosedBy::Time => "time",
            ClosedBy::TargetEnd => "target_end",
            ClosedBy::Signal => "signal",
            ClosedBy::Output => "output",
        },
        missed_runs: outcome.missed_runs.map(|missed| Missed {
            entry: missed.entry,
            exit: missed.exit,
            thread_end: missed.thread_end,
        }),
        unfollowed: outcome.unfollowed.map(|children| UnfollowedChildren {
            no_room: children.no_room,
            missed_forks: children.missed_forks,
        }),
    };
    let mut text = String::new();
    write_line(&mut text, &Line::End(end));
    text
}

/// What bpftrace would print for the same calls.
fn maps(text: &mut String, Snapshot { calls }: &Snapshot, view: View) {
    for Counted { syscall, histogram, linear } in calls {
        let counter = counter_name(syscall, calls.len() > 1);
        write_line(text, &Line::Map(Named(counter, Count(histogram.count()))));
        let rows: Vec<Row> = match linear {
            Some(linear) => linear.rows().iter().map(Row::from).collect(),
            None => histogram.rows(view.k).iter().map(Row::from).collect(),
        };
        let name = histogram_name(syscall, histogram.unit());
        write_line(text, &Line::Hist(Named(name, rows)));
    }
}

fn summary(call: &Call) -> Summary<'_> {
    let histogram = &call.histogram;
    let percentiles = PERCENTILES
        .map(|(name, permille)| (name.to_owned(), histogram.quantile_permille(permille)))
        .to_vec();
    Summary {
        syscall: &call.syscall,
        count: histogram.count(),
        min_ns: histogram.min_ns,
        mean_ns: histogram.mean_ns(),
        max_ns: histogram.max_ns,
        sum_ns: histogram.sum_ns,
        unit: histogram.unit().name(),
        percentiles: Entries(percentiles),
    }
}

fn ledger(call: &Call) -> LedgerCounts<'_> {
    let ledger = &call.ledger;
    LedgerCounts {
        syscall: &call.syscall,
        entered: ledger.entered,
        recorded: ledger.recorded,
        in_flight: ledger.in_flight,
        ended_without_exit: ledger.ended_without_exit,
        lost: LostCounts {
            store_full: ledger.lost.store_full,
            exit_missed: ledger.lost.exit_missed,
            entry_missed: ledger.lost.entry_missed,
            negative: ledger.lost.negative,
        },
        balance: ledger.balance(),
        adds_up: ledger.balance() == 0
            && call.histogram.count().saturating_add(ledger.excluded) == ledger.recorded,
        exits_without_start: ledger.exits_without_start,
        in_flight_since_before: ledger.in_flight_since_before,
        restarted: ledger.restarted,
        excluded: ledger.excluded,
        returned_zero: ledger.returned_zero,
        returned_error: ledger.returned_error,
        errors: Errors(&ledger.errors),
    }
}

fn call_in_flight<'a>(syscall: &'a str, call: &'a InFlight) -> CallInFlight<'a> {
    let (elapsed, since_before_window) = match call.elapsed {
        Elapsed::Exactly(duration) => (duration, false),
        Elapsed::AtLeast(duration) => (duration, true),
    };
    CallInFlight {
        syscall,
        pid: call.pid,
        tid: call.tid,
        thread: &call.thread,
        fd: call.descriptor,
        target: call.target.as_deref(),
        elapsed_ns: elapsed.as_nanos(),
        since_before_window,
    }
}

/// Arguments as text; and, if any of them is no UTF-8 and therefore not whole there, their bytes.
fn arguments(arguments: &[Vec<u8>]) -> (Vec<Cow<'_, str>>, Option<Vec<String>>) {
    let text: Vec<_> = arguments.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
    let is_whole = arguments.iter().all(|bytes| std::str::from_utf8(bytes).is_ok());
    (text, (!is_whole).then(|| arguments.iter().map(|bytes| hex(bytes)).collect()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
