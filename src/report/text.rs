//! The result for people: the histogram as bpftrace prints it, then a summary and the ledger.
//!
//! The first part is what bpftrace prints for a counter `@calls` and a histogram `@read_us` (its older
//! versions put a space behind `@read_us:`). Each line after it begins with a word to search for. When all
//! is well the ledger is one line; whatever it cannot vouch for gets a line of its own, with what to do.

use std::fmt;

use super::escape::escape;
use super::numbers::{grouped, time, whole_microseconds};
pub use super::rows::histogram_rows;
use crate::histogram::log2::RECORDED_K;
use crate::latency::{ClosedBy, Elapsed, InFlight, Ledger, Outcome};

/// Powers of two, undivided: the histogram that bpftrace's `hist()` gives.
const DISPLAYED_K: u32 = 0;

/// The quantiles of the summary, with their names.
const PERCENTILES: [(&str, u64); 4] = [("p50", 500), ("p90", 900), ("p99", 990), ("p99.9", 999)];

/// Below it, every whole microsecond has a bucket of its own.
const EXACT_BELOW_US: u64 = 2 << RECORDED_K;

/// The whole result as text, ending in a line break.
///
/// ```
/// use std::time::Duration;
/// use rlat::histogram::Histogram;
/// use rlat::latency::{ClosedBy, Ledger, Outcome};
/// use rlat::report::text;
///
/// let mut histogram = Histogram::new();
/// histogram.record(3_210);
/// let outcome = Outcome {
///     histogram,
///     ledger: Ledger { entered: 1, recorded: 1, ..Ledger::default() },
///     in_flight: Vec::new(),
///     window: Duration::from_secs(30),
///     closed_by: ClosedBy::Time,
/// };
/// let text = text::measurement(&outcome);
/// assert!(text.starts_with("@calls: 1\n@read_us:\n[2, 4)                 1 |@@@"));
/// assert!(text.contains("\nledger: 1 entered = 1 recorded + 0 in flight"));
/// ```
pub fn measurement(outcome: &Outcome) -> String {
    Text(outcome).to_string()
}

/// A outcome that is displayed as text.
struct Text<'a>(&'a Outcome);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(outcome) = self;
        maps(f, outcome)?;
        summary(f, outcome)?;
        balance(f, outcome)?;
        outside(f, &outcome.ledger)?;
        lost(f, &outcome.ledger)?;
        missed_runs(f, &outcome.ledger)?;
        in_flight(f, outcome)
    }
}

/// What bpftrace would print. It prints nothing for a histogram without values.
fn maps(f: &mut fmt::Formatter<'_>, outcome: &Outcome) -> fmt::Result {
    writeln!(f, "@calls: {}", outcome.ledger.recorded)?;
    let rows = outcome.histogram.rows(DISPLAYED_K);
    if !rows.is_empty() {
        write!(f, "@read_us:\n{}", histogram_rows(&rows))?;
    }
    writeln!(f)
}

fn summary(f: &mut fmt::Formatter<'_>, outcome: &Outcome) -> fmt::Result {
    let histogram = &outcome.histogram;
    let window = format!(
        "{}{}",
        time(outcome.window.as_nanos()),
        match outcome.closed_by {
            ClosedBy::Time => "",
            ClosedBy::TargetEnd => ", until the process ended",
            ClosedBy::Signal => ", until interrupted",
        }
    );
    let Some(mean) = histogram.mean_ns() else {
        return writeln!(f, "latency: no call was recorded in {window}");
    };
    write!(f, "latency: ")?;
    for (name, known) in
        [("min", histogram.min_ns), ("mean", Some(mean)), ("max", histogram.max_ns)]
    {
        if let Some(ns) = known {
            write!(f, "{name} {}, ", time(ns.into()))?;
        }
    }
    writeln!(f, "total {} in {window}", time(histogram.sum_ns.into()))?;

    let percentiles = PERCENTILES
        .map(|(name, permille)| (name, histogram.quantile_permille(permille).unwrap_or(0)));
    let texts = percentiles.map(|(name, us)| format!("{name} {}", whole_microseconds(us)));
    write!(f, "percentiles: {}", texts.join(", "))?;
    if percentiles.iter().any(|&(_, us)| us >= EXACT_BELOW_US) {
        write!(f, " (from {EXACT_BELOW_US} us up, at most 1/{} too high)", 1 << RECORDED_K)?;
    }
    writeln!(f)
}

/// The ledger's line, and a loud one when it does not add up.
fn balance(f: &mut fmt::Formatter<'_>, outcome: &Outcome) -> fmt::Result {
    let ledger = &outcome.ledger;
    let since_before = ledger.in_flight_since_before.unwrap_or(0);
    write!(f, "ledger: {} entered", grouped(ledger.entered))?;
    if since_before > 0 {
        write!(f, " + {} entered before the window", grouped(since_before))?;
    }
    writeln!(
        f,
        " = {} recorded + {} in flight + {} ended without an exit + {} lost",
        grouped(ledger.recorded),
        grouped(ledger.in_flight.saturating_add(since_before)),
        grouped(ledger.ended_without_exit),
        grouped(ledger.lost.total()),
    )?;
    let difference = ledger.balance();
    if difference != 0 {
        let missing = calls(difference.unsigned_abs());
        let what = if difference > 0 {
            format!("{missing} entered and went nowhere")
        } else {
            format!("{missing} more came out than entered")
        };
        writeln!(f, "WARNING: the ledger does not add up, {what}: do not rely on these numbers")?;
    }
    let counted = outcome.histogram.count();
    if counted != ledger.recorded {
        writeln!(
            f,
            "WARNING: the histogram holds {}, but {} were recorded: do not rely on these numbers",
            calls(counted),
            grouped(ledger.recorded),
        )?;
    }
    Ok(())
}

/// Calls that the histogram lacks, or holds, for a reason that a reader should know. None is a fault.
fn outside(f: &mut fmt::Formatter<'_>, ledger: &Ledger) -> fmt::Result {
    for (count, what) in [
        (
            ledger.exits_without_start,
            "already in flight when the window opened, returned inside it: not in the histogram",
        ),
        (
            ledger.restarted,
            "returned -512 to -516, interrupted by a signal: recorded, or ended without an exit if \
             the thread made no other read() before it ended",
        ),
    ] {
        if count > 0 {
            writeln!(f, "note: {} {what}", calls(count))?;
        }
    }
    if ledger.in_flight_since_before.is_none() {
        let what = "calls in flight during the whole window are not known";
        writeln!(f, "note: {what}: looking at them needs CAP_SYS_PTRACE")?;
    }
    Ok(())
}

fn lost(f: &mut fmt::Formatter<'_>, ledger: &Ledger) -> fmt::Result {
    for (count, why, next) in [
        (
            ledger.lost.store_full,
            "the store of start times had no room for one more thread",
            "measure fewer calls at once, those on one descriptor for example",
        ),
        (
            ledger.lost.exit_missed,
            "the thread was in its next call already when the exit of this one had not been seen",
            "measure again while no other tracing tool runs",
        ),
        (
            ledger.lost.negative,
            "the clock at the exit was behind the clock at the entry",
            "search the kernel's messages (dmesg) for an unstable clock source",
        ),
    ] {
        if count > 0 {
            writeln!(f, "lost: {}: {why}\n  next: {next}", calls(count))?;
        }
    }
    Ok(())
}

fn missed_runs(f: &mut fmt::Formatter<'_>, ledger: &Ledger) -> fmt::Result {
    let Some(missed) = ledger.missed_runs else {
        // Not knowing is worth a line only where it could have explained something.
        if ledger.balance() != 0 || ledger.lost.total() > 0 {
            writeln!(f, "missed runs: unknown, this kernel does not count them")?;
        }
        return Ok(());
    };
    if missed.total() == 0 {
        return Ok(());
    }
    for (count, program, effect) in [
        (missed.entry, "entry", "as many calls can be missing from every number above"),
        (missed.exit, "exit", "as many calls can be counted as lost or in flight"),
        (missed.thread_end, "thread end", "as many calls can be counted as in flight"),
    ] {
        if count > 0 {
            let times = if count == 1 { "time" } else { "times" };
            writeln!(
                f,
                "missed runs: the kernel skipped the {program} program {} {times}: {effect}",
                grouped(count),
            )?;
        }
    }
    writeln!(f, "  next: measure again while no other tracing tool runs")
}

fn in_flight(f: &mut fmt::Formatter<'_>, outcome: &Outcome) -> fmt::Result {
    let listed = outcome.in_flight.len() as u64;
    for call in &outcome.in_flight {
        in_flight_call(f, call)?;
    }
    let counted =
        outcome.ledger.in_flight.saturating_add(outcome.ledger.in_flight_since_before.unwrap_or(0));
    let unlisted = counted.saturating_sub(listed);
    if unlisted > 0 {
        writeln!(f, "in flight: {} not listed", calls(unlisted))?;
    }
    Ok(())
}

fn in_flight_call(f: &mut fmt::Formatter<'_>, call: &InFlight) -> fmt::Result {
    let thread = escape(call.thread.as_bytes());
    write!(f, "in flight: thread {} ({thread}), ", call.tid)?;
    match call.elapsed {
        Elapsed::Exactly(duration) => write!(f, "{} so far", time(duration.as_nanos()))?,
        Elapsed::AtLeast(duration) => {
            let duration = time(duration.as_nanos());
            write!(f, "more than {duration} (since before the window)")?;
        }
    }
    // The kernel reads the low 32 bits only; signed, since programs pass -1 when they have no descriptor.
    write!(f, ", descriptor {}", call.descriptor as u32 as i32)?;
    match &call.target {
        Some(target) => writeln!(f, " -> {}", escape(target.as_bytes())),
        None => writeln!(f),
    }
}

/// `1 call`, `2,000 calls`.
fn calls(count: impl Into<u128>) -> String {
    let count = count.into();
    let noun = if count == 1 { "call" } else { "calls" };
    format!("{} {noun}", grouped(count))
}
