//! The result for programs: one JSON object a line, each with a `type` and its `data`.
//!
//! The lines of the types `hist` and `map` have bpftrace's shape, down to the blanks, so that what reads
//! its output reads this, too. Around them are lines of our own types: `meta` comes first, then the maps
//! and histograms, then for each system call its `summary`, its `ledger` and an `inflight` line for each call
//! that had not returned, and `end` comes last. A file without `end` was cut off.
//!
//! `docs/json-schema.json` describes every line. Times are nanoseconds and their keys end in `_ns`; the
//! buckets and percentiles count the unit that `meta` and `summary` name. All integers are whole, also those
//! above 2^53, which some readers round.

mod layout;
mod lines;

use std::borrow::Cow;
use std::fmt::Write as _;

use super::cost::CalibrationData;
use super::meta::{CLOCK, Meta, Whom};
use super::text::PERCENTILES;
use super::utc::utc;
use super::{View, counter_name, histogram_name};
use crate::latency::{Call, ClosedBy, Elapsed, InFlight, Outcome, Returns};
pub(super) use layout::write_line;
use lines::{
    CallInFlight, Cpus, End, Entries, Errors, LedgerCounts, Line, Linear, LostCounts, Missed,
    Named, Options, Protocol, Row, Subject, Summary, Target, UnfollowedChildren,
};

/// The whole result: every line from `meta` to `end`, each ending in a line break.
pub fn measurement(meta: &Meta, outcome: &Outcome, view: View) -> String {
    let mut text = meta_line(meta);
    let several = outcome.calls.len() > 1;
    for call in &outcome.calls {
        maps(&mut text, call, view, several);
    }
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

/// What bpftrace would print for the same call.
fn maps(text: &mut String, call: &Call, view: View, several: bool) {
    let counter = counter_name(&call.syscall, several);
    write_line(text, &Line::Map(Named(counter, call.histogram.count())));
    let rows: Vec<Row> = match &call.linear {
        Some(linear) => linear.rows().iter().map(Row::from).collect(),
        None => call.histogram.rows(view.k).iter().map(Row::from).collect(),
    };
    let name = histogram_name(&call.syscall, call.histogram.unit());
    write_line(text, &Line::Hist(Named(name, rows)));
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
