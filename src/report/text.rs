//! The result for people: the histograms as bpftrace prints them, then a summary and the ledger.
//!
//! The first part is what bpftrace prints for a counter `@calls` and a histogram `@read_us` (its older
//! versions put a space behind `@read_us:`). Each line after it begins with a word to search for. When all
//! is well the ledger is one line; whatever it cannot vouch for gets a line of its own, with what to do.

use std::fmt;

use nix::errno::Errno;

use super::cost::calibration_line;
use super::meta::Meta;
use super::numbers::{grouped, time, whole_units};
use super::rows::{histogram_rows, linear_rows};
use super::utc::utc;
use super::{Interval, View, counter_name, histogram_name};
use crate::escape::escape;
use crate::histogram::log2::RECORDED_K;
use crate::histogram::{Histogram, LinearHistogram};
use crate::latency::{
    Call, ClosedBy, Counted, Elapsed, InFlight, Ledger, MissedRuns, Outcome, Snapshot, Unfollowed,
};

/// The quantiles of the summary, with their names.
pub(super) const PERCENTILES: [(&str, u64); 4] =
    [("p50", 500), ("p90", 900), ("p99", 990), ("p99.9", 999)];

/// What keeps the kernel from running a program: another tracer's, or, from Linux 7.2 on, any thread
/// that was preempted inside of the same program on the same CPU.
pub(super) const QUIETER: &str =
    "measure again while fewer threads compete for the CPUs and no other tracer runs";

/// What helps most where programs were skipped: whoever is inside of bpf(2) on a map turns off those that are
/// attached through perf on that CPU, but not those on raw tracepoints (`bpf_disable_instrumentation` in
/// `include/linux/bpf.h`; docs/kernels.md has what that costs).
const ON_RAW: &str = "measure again with `--attach raw`, if that was not used, or while fewer threads \
                      compete for the CPUs and no other tracer runs";

/// What helps when the store of starts is full.
const FEWER_CALLS: &str = "measure fewer calls at once, those on one descriptor for example";

/// Below it, every whole unit has a bucket of its own.
const EXACT_BELOW: u64 = 2 << RECORDED_K;

/// The whole result as text, ending in a line break.
///
/// ```
/// use std::time::Duration;
/// use rlat::histogram::{Histogram, Unit};
/// use rlat::latency::{Call, ClosedBy, Ledger, Outcome};
/// use rlat::report::{View, text};
///
/// let mut histogram = Histogram::new(Unit::Us);
/// histogram.record(3_210);
/// let call = Call {
///     syscall: "read".to_owned(),
///     histogram,
///     linear: None,
///     ledger: Ledger { entered: 1, recorded: 1, ..Ledger::default() },
///     in_flight: Vec::new(),
/// };
/// let outcome = Outcome {
///     calls: vec![call],
///     missed_runs: None,
///     unfollowed: None,
///     window: Duration::from_secs(30),
///     closed_by: ClosedBy::Time,
/// };
/// let text = text::measurement(&outcome, View::default());
/// assert!(text.starts_with("@calls: 1\n@read_us:\n[2, 4)                 1 |@@@"));
/// assert!(text.contains("\nledger: 1 entered = 1 recorded + 0 in flight"));
/// ```
pub fn measurement(outcome: &Outcome, view: View) -> String {
    Text(outcome, view).to_string()
}

/// The lines of the calibration and of the user's own note, as far as there are any.
pub fn note(meta: &Meta) -> String {
    let calibration = meta.calibration.as_ref().map(calibration_line).unwrap_or_default();
    let line = |note: &String| format!("remark: {}\n", escape(note.as_bytes()));
    calibration + &meta.note.as_ref().map_or_else(String::new, line)
}

/// The lines of the result that tell what it cannot vouch for: none when all is well.
pub fn doubts(outcome: &Outcome) -> String {
    Doubts(outcome).to_string()
}

/// Doubts that are displayed as text.
struct Doubts<'a>(&'a Outcome);

impl fmt::Display for Doubts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for call in &self.0.calls {
            warnings(f, call)?;
            lost(f, &call.ledger, FEWER_CALLS)?;
        }
        missed_runs(f, self.0)
    }
}

/// An outcome that is displayed as text.
struct Text<'a>(&'a Outcome, View);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(outcome, view) = self;
        let several = outcome.calls.len() > 1;
        for call in &outcome.calls {
            let linear = call.linear.as_ref();
            maps(f, &call.syscall, &call.histogram, linear, *view, several)?;
        }
        for call in &outcome.calls {
            // One call needs no heading: it is what all of the text is about.
            if several {
                writeln!(f, "== {}", call.syscall)?;
            }
            summary(f, call, outcome)?;
            balance(f, call)?;
            outside(f, &call.ledger)?;
            lost(f, &call.ledger, FEWER_CALLS)?;
            in_flight(f, call)?;
        }
        if let Some(children) = outcome.unfollowed {
            unfollowed(f, children)?;
        }
        missed_runs(f, outcome)
    }
}

/// The histograms alone, as bpftrace would print them.
pub fn histograms(snapshot: &Snapshot, view: View) -> String {
    Histograms(snapshot, view).to_string()
}

/// One interval: when it ended, how long it was, and what was counted in it. Ends in an empty line.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use rlat::histogram::{Histogram, Unit};
/// use rlat::latency::{Counted, Snapshot};
/// use rlat::report::{Interval, View, text};
///
/// let mut histogram = Histogram::new(Unit::Us);
/// histogram.record(3_210);
/// let counted = Counted { syscall: "read".to_owned(), histogram, linear: None };
/// let interval = Interval {
///     number: 3,
///     start: Duration::from_secs(2),
///     end: Duration::from_secs(3),
///     ended: UNIX_EPOCH,
///     counted: Snapshot { calls: vec![counted] },
/// };
/// let text = text::interval(&interval, View::default());
/// assert!(text.starts_with("time: 1970-01-01T00:00:00.000Z, 1.000 s\n@calls: 1\n@read_us:\n[2, 4) "));
/// ```
pub fn interval(interval: &Interval, view: View) -> String {
    let length = interval.end.saturating_sub(interval.start);
    let (ended, length) = (utc(interval.ended), time(length.as_nanos()));
    format!("time: {ended}, {length}\n{}", Histograms(&interval.counted, view))
}

/// Histograms that are displayed as text.
struct Histograms<'a>(&'a Snapshot, View);

impl fmt::Display for Histograms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Snapshot { calls }, view) = self;
        for Counted { syscall, histogram, linear } in calls {
            maps(f, syscall, histogram, linear.as_ref(), *view, calls.len() > 1)?;
        }
        Ok(())
    }
}

/// What bpftrace would print. It prints nothing for a histogram without values.
fn maps(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    histogram: &Histogram,
    linear: Option<&LinearHistogram>,
    view: View,
    several: bool,
) -> fmt::Result {
    let unit = histogram.unit();
    writeln!(f, "{}: {}", counter_name(name, several), histogram.count())?;
    let rows = match linear {
        Some(linear) => linear_rows(linear, unit, view.labels),
        None => histogram_rows(&histogram.rows(view.k), unit, view.labels),
    };
    if !rows.is_empty() {
        write!(f, "{}:\n{rows}", histogram_name(name, unit))?;
    }
    writeln!(f)
}

fn summary(f: &mut fmt::Formatter<'_>, call: &Call, outcome: &Outcome) -> fmt::Result {
    let histogram = &call.histogram;
    let window = format!("{}{}", time(outcome.window.as_nanos()), closed_by(outcome.closed_by));
    let Some(mean) = histogram.mean_ns() else {
        let what = if call.ledger.excluded > 0 { "put into the histogram" } else { "recorded" };
        return writeln!(f, "latency: no call was {what} in {window}");
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
    let unit = histogram.unit();
    let texts = percentiles.map(|(name, n)| format!("{name} {}", whole_units(n, unit)));
    write!(f, "percentiles: {}", texts.join(", "))?;
    if percentiles.iter().any(|&(_, n)| n >= EXACT_BELOW) {
        let unit = unit.name();
        write!(f, " (from {EXACT_BELOW} {unit} up, at most 1/{} too high)", 1 << RECORDED_K)?;
    }
    writeln!(f)
}

/// Why the window closed, where that needs to be said behind its length.
pub(super) const fn closed_by(why: ClosedBy) -> &'static str {
    match why {
        ClosedBy::Time => "",
        ClosedBy::TargetEnd => ", until the process ended",
        ClosedBy::Signal => ", until interrupted",
        ClosedBy::Output => ", until the output took no more",
    }
}

/// The ledger's line, loud ones when it does not add up, and what the calls returned.
fn balance(f: &mut fmt::Formatter<'_>, call: &Call) -> fmt::Result {
    equation(f, &call.ledger)?;
    warnings(f, call)?;
    returned(f, &call.ledger)
}

/// The ledger's line.
pub(super) fn equation(f: &mut fmt::Formatter<'_>, ledger: &Ledger) -> fmt::Result {
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
    )
}

/// A loud line when the ledger does not add up.
pub(super) fn imbalance(f: &mut fmt::Formatter<'_>, ledger: &Ledger) -> fmt::Result {
    let difference = ledger.balance();
    if difference == 0 {
        return Ok(());
    }
    let missing = calls(difference.unsigned_abs());
    let what = if difference > 0 {
        format!("{missing} entered and went nowhere")
    } else {
        format!("{missing} more came out than entered")
    };
    writeln!(f, "WARNING: the ledger does not add up, {what}: do not rely on these numbers")
}

/// Loud lines for numbers that contradict each other.
fn warnings(f: &mut fmt::Formatter<'_>, call: &Call) -> fmt::Result {
    let ledger = &call.ledger;
    imbalance(f, ledger)?;
    let counted = call.histogram.count().saturating_add(ledger.excluded);
    if counted != ledger.recorded {
        writeln!(
            f,
            "WARNING: the histogram accounts for {}, but {} were recorded: do not rely on these numbers",
            calls(counted),
            grouped(ledger.recorded),
        )?;
    }
    Ok(())
}

/// What the recorded calls returned, if not all of them more than 0.
fn returned(f: &mut fmt::Formatter<'_>, ledger: &Ledger) -> fmt::Result {
    if ledger.returned_zero > 0 || ledger.returned_error > 0 {
        let zero = grouped(ledger.returned_zero);
        write!(
            f,
            "returned: {zero} of the recorded calls 0, {} an error",
            grouped(ledger.returned_error)
        )?;
        let errors: Vec<String> = ledger
            .errors
            .iter()
            .map(|(errno, count)| format!("{} {}", error_name(*errno), grouped(*count)))
            .collect();
        if !errors.is_empty() {
            write!(f, " ({})", errors.join(", "))?;
        }
        writeln!(f)?;
    }
    if ledger.excluded > 0 {
        let excluded = calls(ledger.excluded);
        writeln!(f, "note: {excluded} not in the histogram, for what they returned (--ret)")?;
    }
    Ok(())
}

/// `EAGAIN`, or the number of an error that has no name here.
pub(super) fn error_name(errno: i32) -> String {
    match Errno::from_raw(errno) {
        Errno::UnknownErrno if errno == 0 => "another error".to_owned(),
        Errno::UnknownErrno => format!("errno {errno}"),
        known => format!("{known:?}"),
    }
}

/// Calls that the histogram lacks, or holds, for a reason that a reader should know. None is a fault.
fn outside(f: &mut fmt::Formatter<'_>, ledger: &Ledger) -> fmt::Result {
    for (count, what) in [
        (
            ledger.exits_without_start,
            "already in flight when the window opened, on any descriptor, came back inside it: not in \
             the histogram",
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
        writeln!(f, "note: {what}: {TO_LOOK}, and processes named by their ids")?;
    }
    Ok(())
}

/// What it takes to look at what the threads of others do: the file in /proc is its owner's alone, and the
/// kernel then asks for ptrace access.
pub(super) const TO_LOOK: &str =
    "that needs CAP_SYS_PTRACE, for processes of other users CAP_DAC_READ_SEARCH, too";

/// Calls that were lost, by cause. `fewer` is what to do when there were too many threads.
pub(super) fn lost(f: &mut fmt::Formatter<'_>, ledger: &Ledger, fewer: &str) -> fmt::Result {
    for (count, why, next) in [
        (ledger.lost.store_full, "the store of start times had no room for one more thread", fewer),
        (
            ledger.lost.exit_missed,
            "the thread was in its next call already when the exit of this one had not been seen",
            QUIETER,
        ),
        (
            ledger.lost.entry_missed,
            "the exit was seen, but not the entry: the kernel skipped our program there, or a seccomp \
             filter refused the call",
            QUIETER,
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

/// Children whose calls are in no number, as far as that is known.
pub(super) fn unfollowed(f: &mut fmt::Formatter<'_>, children: Unfollowed) -> fmt::Result {
    let Unfollowed { no_room, missed_forks } = children;
    if no_room > 0 {
        writeln!(
            f,
            "WARNING: there was no room to follow {} more processes and threads: their calls are \
             missing\n  next: follow a smaller part of the work",
            grouped(no_room),
        )?;
    }
    match missed_forks {
        Some(missed @ 1..) => writeln!(
            f,
            "WARNING: the kernel skipped the fork program {} {}: the calls of as many children can \
             be missing
  next: {QUIETER}",
            grouped(missed),
            if missed == 1 { "time" } else { "times" },
        ),
        _ => Ok(()),
    }
}

fn missed_runs(f: &mut fmt::Formatter<'_>, outcome: &Outcome) -> fmt::Result {
    let Some(missed) = outcome.missed_runs else {
        let what = "unknown, this kernel does not count them: calls can be missing unnoticed";
        return writeln!(f, "missed runs: {what}");
    };
    skipped_programs(f, missed, ON_RAW)
}

/// How often the kernel skipped which program, if it did, and what to do `next`.
pub(super) fn skipped_programs(
    f: &mut fmt::Formatter<'_>,
    missed: MissedRuns,
    next: &str,
) -> fmt::Result {
    if missed.total() == 0 {
        return Ok(());
    }
    let MissedRuns { entry, exit, thread_end } = missed;
    for (count, program, effect) in [
        (
            entry,
            "entry",
            "as many calls can be missing from every number above, unless they are counted as lost",
        ),
        (
            exit,
            "exit",
            "as many calls can be counted as lost or in flight, and a latency can be too long",
        ),
        (thread_end, "thread end", "as many calls can be counted as in flight"),
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
    writeln!(f, "  next: {next}")
}

fn in_flight(f: &mut fmt::Formatter<'_>, call: &Call) -> fmt::Result {
    for in_flight in &call.in_flight {
        in_flight_call(f, in_flight)?;
    }
    Ok(())
}

fn in_flight_call(f: &mut fmt::Formatter<'_>, call: &InFlight) -> fmt::Result {
    write!(f, "in flight: thread {} ({})", call.tid, escape(call.thread.as_bytes()))?;
    if call.pid != call.tid {
        write!(f, " of process {}", call.pid)?;
    }
    match call.elapsed {
        Elapsed::Exactly(duration) => write!(f, ", {} so far", time(duration.as_nanos()))?,
        Elapsed::AtLeast(duration) => {
            let duration = time(duration.as_nanos());
            write!(f, ", more than {duration} (since before the window)")?;
        }
    }
    if let Some(descriptor) = call.descriptor {
        write!(f, ", descriptor {descriptor}")?;
    }
    match &call.target {
        Some(target) => writeln!(f, " -> {}", escape(target.as_bytes())),
        None => writeln!(f),
    }
}

/// `1 call`, `2,000 calls`.
pub(super) fn calls(count: impl Into<u128>) -> String {
    let count = count.into();
    let noun = if count == 1 { "call" } else { "calls" };
    format!("{} {noun}", grouped(count))
}
