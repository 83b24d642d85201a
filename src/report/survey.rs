//! A survey for people: a line for each system call, then the ledger as in [`text`](super::text).
//!
//! ```text
//! syscall      calls  errors   total    mean     p50     p99     max
//! epoll_wait   1,203       0   9.87s  8.20ms  7.86ms  12.5ms  14.1ms
//! read         4,812       9  12.3ms  2.55us  2.30us  7.16us   312us
//! total        6,015       9   9.88s
//! ```

use std::fmt::{self, Write as _};

use super::numbers::{grouped, short_time, time};
use super::text::{
    QUIETER, TO_LOOK, calls, closed_by, equation, imbalance, lost, skipped_programs, unfollowed,
};
use crate::escape::escape;
use crate::latency::Elapsed;
use crate::survey::layout::BUCKET_K;
use crate::survey::{Findings, InFlight, SurveyedCall};

/// The columns' names; all but the first are right-aligned.
const HEAD: [&str; 8] = ["syscall", "calls", "errors", "total", "mean", "p50", "p99", "max"];

/// Times have this many columns at least, so that those of two surveys stand below each other.
const TIME_COLUMNS: usize = 6;

/// The whole result as text, ending in a line break.
///
/// ```
/// use std::time::Duration;
/// use rlat::histogram::{Histogram, Unit};
/// use rlat::latency::{ClosedBy, Ledger};
/// use rlat::report::survey::survey;
/// use rlat::survey::{Findings, SurveyedCall};
///
/// let mut histogram = Histogram::new(Unit::Ns);
/// histogram.record(3_210);
/// let call =
///     SurveyedCall { name: "read".to_owned(), histogram, errors: 1, ended_without_exit: 0 };
/// let findings = Findings {
///     calls: vec![call],
///     ledger: Ledger { entered: 1, recorded: 1, ..Ledger::default() },
///     not_entered: 0,
///     in_flight: Vec::new(),
///     missed_runs: None,
///     unfollowed: None,
///     turned_32_bit: Vec::new(),
///     window: Duration::from_secs(10),
///     closed_by: ClosedBy::Time,
/// };
/// let text = survey(&findings);
/// assert!(text.contains("\nread         1       1  3.21us  3.21us  3.21us  3.21us"));
/// assert!(text.contains("\nledger: 1 entered = 1 recorded + 0 in flight"));
/// ```
pub fn survey(findings: &Findings) -> String {
    Text(findings).to_string()
}

/// Findings that are displayed as text.
struct Text<'a>(&'a Findings);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(findings) = self;
        let returned: Vec<&SurveyedCall> =
            findings.calls.iter().filter(|call| call.histogram.count() > 0).collect();
        if !returned.is_empty() {
            writeln!(f, "{}", table(&returned))?;
        }
        summary(f, &returned, findings)?;
        equation(f, &findings.ledger)?;
        imbalance(f, &findings.ledger)?;
        counted(f, &returned, findings)?;
        ended(f, findings)?;
        notes(f, &returned, findings)?;
        lost(f, &findings.ledger, "name fewer processes")?;
        for call in &findings.in_flight {
            in_flight(f, call)?;
        }
        if let Some(children) = findings.unfollowed {
            unfollowed(f, children)?;
        }
        match findings.missed_runs {
            Some(missed) => skipped_programs(f, missed, QUIETER),
            None => writeln!(f, "missed runs: unknown, the kernel did not say"),
        }
    }
}

/// The lines of the table, as wide as their longest cells.
fn table(returned: &[&SurveyedCall]) -> String {
    let mut lines: Vec<[String; 8]> = vec![HEAD.map(str::to_owned)];
    lines.extend(returned.iter().map(|call| cells(call)));
    let sum = |of: fn(&SurveyedCall) -> u64| -> u128 {
        returned.iter().map(|call| u128::from(of(call))).sum()
    };
    let empty = String::new;
    lines.push([
        "total".to_owned(),
        grouped(sum(|call| call.histogram.count())),
        grouped(sum(|call| call.errors)),
        short_time(sum(|call| call.histogram.sum_ns)),
        empty(),
        empty(),
        empty(),
        empty(),
    ]);

    let width = |column: usize| {
        let longest = lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
        if column >= 3 { longest.max(TIME_COLUMNS) } else { longest }
    };
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut text = String::new();
    for line in &lines {
        let mut row = format!("{:<1$}", line[0], widths[0]);
        for (cell, width) in line.iter().zip(widths).skip(1) {
            // Writing to a string cannot fail.
            let _ = write!(row, "  {cell:>width$}");
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

fn cells(call: &SurveyedCall) -> [String; 8] {
    let histogram = &call.histogram;
    let time = |ns: Option<u64>| short_time(ns.unwrap_or(0).into());
    [
        call.name.clone(),
        grouped(histogram.count()),
        grouped(call.errors),
        time(Some(histogram.sum_ns)),
        time(histogram.mean_ns()),
        time(histogram.quantile_permille(500)),
        time(histogram.quantile_permille(990)),
        time(histogram.max_ns),
    ]
}

fn summary(
    f: &mut fmt::Formatter<'_>,
    returned: &[&SurveyedCall],
    findings: &Findings,
) -> fmt::Result {
    let window = time(findings.window.as_nanos());
    let window = format!("{window}{}", closed_by(findings.closed_by));
    match returned.len() {
        0 => return writeln!(f, "survey: no system call returned in {window}"),
        1 => writeln!(f, "survey: 1 system call in {window}")?,
        different => writeln!(f, "survey: {different} different system calls in {window}")?,
    }
    let parts = 1 << BUCKET_K;
    writeln!(f, "percentiles: at most 1/{parts} too high; calls, total, mean and max are exact")
}

/// A loud line when the table does not hold what the ledger says.
fn counted(
    f: &mut fmt::Formatter<'_>,
    returned: &[&SurveyedCall],
    findings: &Findings,
) -> fmt::Result {
    let in_table: u128 = returned.iter().map(|call| u128::from(call.histogram.count())).sum();
    if in_table != u128::from(findings.ledger.recorded) {
        writeln!(
            f,
            "WARNING: the table accounts for {}, but {} were recorded: do not rely on these numbers",
            calls(in_table),
            grouped(findings.ledger.recorded),
        )?;
    }
    for pid in &findings.turned_32_bit {
        writeln!(
            f,
            "WARNING: process {pid} has become a 32-bit program: calls that it made since then \
             have wrong names"
        )?;
    }
    Ok(())
}

/// Which calls ended without an exit.
fn ended(f: &mut fmt::Formatter<'_>, findings: &Findings) -> fmt::Result {
    let ended: Vec<String> = findings
        .calls
        .iter()
        .filter(|call| call.ended_without_exit > 0)
        .map(|call| format!("{} {}", call.name, grouped(call.ended_without_exit)))
        .collect();
    if ended.is_empty() {
        return Ok(());
    }
    writeln!(f, "ended without an exit: {}", ended.join(", "))
}

/// What a reader should know of calls that the table lacks, or holds. None is a fault.
fn notes(
    f: &mut fmt::Formatter<'_>,
    returned: &[&SurveyedCall],
    findings: &Findings,
) -> fmt::Result {
    let ledger = &findings.ledger;
    let not_entered = if findings.missed_runs.is_some_and(|missed| missed.entry == 0) {
        "refused before they entered, by a seccomp filter or a tracer: in no row"
    } else {
        "refused before they entered, or entered while the kernel skipped the entry program: in no row"
    };
    for (count, what) in [
        (
            ledger.exits_without_start,
            "in flight already when the window opened, or the first return of a new thread: in no \
             row",
        ),
        (findings.not_entered, not_entered),
        (
            ledger.restarted,
            "interrupted by a signal: among the errors, or ended without an exit if the thread made \
             no other call before it ended",
        ),
    ] {
        if count > 0 {
            writeln!(f, "note: {} {what}", calls(count))?;
        }
    }
    if returned.iter().any(|call| call.name == "other") {
        let what = "calls by numbers that this kernel's own table does not have";
        writeln!(f, "note: other: {what}")?;
    }
    if ledger.in_flight_since_before.is_none() {
        let what = "calls in flight during the whole window are not known";
        writeln!(f, "note: {what}: {TO_LOOK}")?;
    }
    Ok(())
}

fn in_flight(f: &mut fmt::Formatter<'_>, call: &InFlight) -> fmt::Result {
    write!(f, "in flight: thread {} ({})", call.tid, escape(call.thread.as_bytes()))?;
    if call.pid != call.tid {
        write!(f, " of process {}", call.pid)?;
    }
    match call.elapsed {
        Elapsed::Exactly(duration) => {
            writeln!(f, " in {}, {} so far", call.call, time(duration.as_nanos()))
        }
        Elapsed::AtLeast(duration) => {
            let duration = time(duration.as_nanos());
            writeln!(f, " in {}, more than {duration} (since before the window)", call.call)
        }
    }
}
