//! What tracing costs: the calibration, and what `rlat cost` found, for people and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::json::write_line;
use super::numbers::{grouped, time};
use crate::calibration::{Added, CALLS, Calibration, SignedRank, signed_rank};
use crate::escape::escape;

/// The calls of a process, counted for a while.
#[derive(Clone, Debug)]
pub struct Rates {
    /// The process.
    pub pid: u32,
    /// The name of its leader.
    pub name: String,
    /// How long it was watched.
    pub window: Duration,
    /// The calls that would be measured.
    pub measured: u64,
    /// Its other calls.
    pub others: u64,
    /// The CPU time that it used meanwhile; `None` where that is not known.
    pub cpu_time: Option<Duration>,
}

/// A command's runs, in pairs of one without and one with tracing.
#[derive(Clone, Debug)]
pub struct Runs {
    /// How long each took without and with.
    pub pairs: Vec<(Duration, Duration)>,
    /// How many calls were measured in each run with tracing.
    pub calls: Vec<u64>,
}

/// The line of a measurement that was calibrated.
///
/// ```
/// use std::time::Duration;
/// use rlat::calibration::{Added, Calibration, Nanos};
/// use rlat::report::cost;
///
/// let nanos = |min| Nanos { min, median: min + 10.0 };
/// let added = |to, by| Added { untraced: nanos(to), traced: nanos(to + by) };
/// let calibration = Calibration {
///     cpu: 1,
///     turns: 9,
///     runs: 800,
///     length: Duration::from_secs(2),
///     measured_call: added(250.0, 412.0),
///     same_call_of_another: added(250.0, 340.0),
///     other_call_of_another: added(60.0, 68.0),
/// };
/// assert_eq!(
///     cost::calibration_line(&calibration),
///     "calibration: +412 ns to each measured call, +340 ns to the same call of another process, \
///      +68 ns to its other calls, on this machine now\n"
/// );
/// ```
pub fn calibration_line(calibration: &Calibration) -> String {
    format!(
        "calibration: {:+.0} ns to each measured call, {:+.0} ns to the same call of another process, \
         {:+.0} ns to its other calls, on this machine now\n",
        calibration.measured_call.added().min,
        calibration.same_call_of_another.added().min,
        calibration.other_call_of_another.added().min,
    )
}

/// The calibration as a table.
pub fn calibration_text(calibration: &Calibration) -> String {
    let mut text = format!("{:<38} {:>9} {:>9} {:>9}\n", "ns", "untraced", "added", "(median)");
    for (what, added) in [
        ("a measured call", calibration.measured_call),
        ("the same call of another process", calibration.same_call_of_another),
        ("another call of another process", calibration.other_call_of_another),
    ] {
        let more = added.added();
        let (min, median) = (more.min, format!("({:+.0})", more.median));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{what:<38} {:>9.0} {min:>+9.0} {median:>9}", added.untraced.min);
    }
    let _ = writeln!(
        text,
        "\ncalibration: the fastest (the median) of {} runs of {} calls each, on CPU {}, without and \
         with tracing in {} turns, in {}",
        grouped(calibration.runs as u64),
        grouped(CALLS),
        calibration.cpu,
        calibration.turns,
        time(calibration.length.as_nanos()),
    );
    text
}

/// What tracing costs a process, by its rate of calls.
pub fn rates_text(rates: &Rates, calibration: &Calibration) -> String {
    let Shares { measured, others, of_cpu_time } = Shares::of(rates, calibration);
    let mut text = format!(
        "process: {} ({}) makes {} measured and {} other calls a second\n\
         cost: {:.2} % of a CPU for its measured calls, {:.2} % for the others",
        escape(rates.name.as_bytes()),
        rates.pid,
        grouped(per_second(rates.measured, rates.window)),
        grouped(per_second(rates.others, rates.window)),
        measured * 100.0,
        others * 100.0,
    );
    if let Some(share) = of_cpu_time {
        let _ = write!(text, "; {:.2} % of the CPU time that it uses while traced", share * 100.0);
    }
    text + "\n"
}

/// What tracing does to the run time of a command.
pub fn runs_text(runs: &Runs, calibration: &Calibration) -> String {
    let found = Comparison::of(runs);
    let SignedRank { p, .. } = found.test;
    let verdict = if found.test.is_too_small() {
        "too few runs to tell it from the noise: give -n 6 or more"
    } else if found.test.stands_out() {
        "it stands out of the noise"
    } else {
        "it does not stand out of the noise"
    };
    let spread = |spread: Spread| {
        format!("{} ({} to {})", seconds(spread.median), seconds(spread.min), seconds(spread.max))
    };
    let sign = if found.difference_ns < 0.0 { '-' } else { '+' };
    format!(
        "runs: {} without and {} with tracing, in turn\n\
         without: {}, the median (and the range)\n\
         with: {}\n\
         difference: {sign}{} ({:+.2} %), the median of all pairs\n\
         test: p {}: {verdict} (Wilcoxon's signed-rank test over pairs, exact, two-sided, p < {})\n\
         calls: {} measured in a run (median); by the calibration, they take {} of CPU time\n",
        runs.pairs.len(),
        runs.pairs.len(),
        spread(found.without),
        spread(found.with),
        seconds(found.difference_ns.abs()),
        found.difference_ns / found.without.median * 100.0,
        probability(p),
        SignedRank::SIGNIFICANT,
        grouped(found.calls),
        seconds(found.expected_ns(calibration).max(0.0)),
    )
}

/// The calibration as the first line of what `rlat cost -f json` prints.
pub fn calibration_json(calibration: &Calibration) -> String {
    line("calibration", &CalibrationData::from(calibration))
}

/// The cost to a process as a line of JSON.
pub fn rates_json(rates: &Rates, calibration: &Calibration) -> String {
    let shares = Shares::of(rates, calibration);
    line(
        "process",
        &RatesData {
            pid: rates.pid,
            name: &rates.name,
            window_ns: rates.window.as_nanos(),
            measured_calls: rates.measured,
            other_calls: rates.others,
            cpu_time_ns: rates.cpu_time.map(|time| time.as_nanos()),
            share_of_cpu: shares.measured + shares.others,
            share_of_cpu_time: shares.of_cpu_time,
        },
    )
}

/// The run times of a command as a line of JSON.
pub fn runs_json(runs: &Runs, calibration: &Calibration) -> String {
    let found = Comparison::of(runs);
    line(
        "runs",
        &RunsData {
            without_ns: runs.pairs.iter().map(|(without, _)| without.as_nanos()).collect(),
            with_ns: runs.pairs.iter().map(|(_, with)| with.as_nanos()).collect(),
            measured_calls: &runs.calls,
            difference_ns: found.difference_ns.round() as i64,
            expected_ns: found.expected_ns(calibration).round() as i64,
            test: "Wilcoxon signed-rank, exact, two-sided",
            p: found.test.p,
            stands_out: found.test.stands_out(),
        },
    )
}

fn line(type_name: &'static str, data: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Line<'a, T> {
        r#type: &'static str,
        data: &'a T,
    }
    let mut text = String::new();
    write_line(&mut text, &Line { r#type: type_name, data });
    text
}

/// A calibration, in whole ns.
#[derive(Serialize)]
pub(super) struct CalibrationData {
    cpu: usize,
    turns: usize,
    runs: usize,
    length_ns: u128,
    measured_call: AddedData,
    same_call_of_another: AddedData,
    other_call_of_another: AddedData,
}

#[derive(Serialize)]
#[allow(clippy::struct_field_names)] // They are the keys.
struct AddedData {
    untraced_ns: i64,
    added_ns: i64,
    untraced_median_ns: i64,
    added_median_ns: i64,
}

#[derive(Serialize)]
struct RatesData<'a> {
    pid: u32,
    name: &'a str,
    window_ns: u128,
    measured_calls: u64,
    other_calls: u64,
    cpu_time_ns: Option<u128>,
    share_of_cpu: f64,
    share_of_cpu_time: Option<f64>,
}

#[derive(Serialize)]
struct RunsData<'a> {
    without_ns: Vec<u128>,
    with_ns: Vec<u128>,
    measured_calls: &'a [u64],
    difference_ns: i64,
    expected_ns: i64,
    test: &'static str,
    p: f64,
    stands_out: bool,
}

impl From<&Calibration> for CalibrationData {
    fn from(calibration: &Calibration) -> Self {
        Self {
            cpu: calibration.cpu,
            turns: calibration.turns,
            runs: calibration.runs,
            length_ns: calibration.length.as_nanos(),
            measured_call: calibration.measured_call.into(),
            same_call_of_another: calibration.same_call_of_another.into(),
            other_call_of_another: calibration.other_call_of_another.into(),
        }
    }
}

impl From<Added> for AddedData {
    fn from(added: Added) -> Self {
        let more = added.added();
        Self {
            untraced_ns: added.untraced.min.round() as i64,
            added_ns: more.min.round() as i64,
            untraced_median_ns: added.untraced.median.round() as i64,
            added_median_ns: more.median.round() as i64,
        }
    }
}

/// Parts of a CPU's time that the tracing of one process takes; 1 is all of it.
struct Shares {
    measured: f64,
    others: f64,
    /// Of the time that the process used while it was traced.
    of_cpu_time: Option<f64>,
}

impl Shares {
    fn of(rates: &Rates, calibration: &Calibration) -> Self {
        let ns = |calls: u64, added: Added| calls as f64 * added.added().min.max(0.0);
        let measured = ns(rates.measured, calibration.measured_call);
        // The programs leave a call alone at nearly the same place, whosever it is.
        let others = ns(rates.others, calibration.other_call_of_another);
        let window = (rates.window.as_nanos() as f64).max(1.0);
        let cpu_time = rates.cpu_time.filter(|time| !time.is_zero());
        Self {
            measured: measured / window,
            others: others / window,
            of_cpu_time: cpu_time.map(|time| (measured + others) / time.as_nanos() as f64),
        }
    }
}

/// What the pairs of runs say.
struct Comparison {
    without: Spread,
    with: Spread,
    difference_ns: f64,
    test: SignedRank,
    /// The median of the calls that were measured in a run.
    calls: u64,
}

#[derive(Clone, Copy)]
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

impl Comparison {
    fn of(runs: &Runs) -> Self {
        let ns = |time: &Duration| time.as_nanos() as f64;
        let differences: Vec<f64> =
            runs.pairs.iter().map(|(without, with)| ns(with) - ns(without)).collect();
        let calls: Vec<f64> = runs.calls.iter().map(|calls| *calls as f64).collect();
        Self {
            without: Spread::of(runs.pairs.iter().map(|(without, _)| ns(without)).collect()),
            with: Spread::of(runs.pairs.iter().map(|(_, with)| ns(with)).collect()),
            difference_ns: Spread::of(differences.clone()).median,
            test: signed_rank(&differences),
            calls: Spread::of(calls).median as u64,
        }
    }

    /// How much longer the calls of a run take, by the calibration.
    fn expected_ns(&self, calibration: &Calibration) -> f64 {
        self.calls as f64 * calibration.measured_call.added().min
    }
}

impl Spread {
    /// Of no values: zeros.
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or_default();
        Self {
            min: at(0),
            median: f64::midpoint(at(values.len() / 2), at(values.len().saturating_sub(1) / 2)),
            max: at(values.len().saturating_sub(1)),
        }
    }
}

fn per_second(count: u64, window: Duration) -> u64 {
    (count as f64 / window.as_secs_f64().max(1e-9)) as u64
}

fn seconds(ns: f64) -> String {
    time(ns as u128)
}

/// Three digits, or that it is smaller.
fn probability(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("= {p:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::Nanos;

    fn calibration() -> Calibration {
        let nanos = |min| Nanos { min, median: min * 1.1 };
        let added = |to: f64, by| Added { untraced: nanos(to), traced: nanos(to + by) };
        Calibration {
            cpu: 1,
            turns: 9,
            runs: 1800,
            length: Duration::from_millis(2040),
            measured_call: added(250.0, 400.0),
            same_call_of_another: added(250.0, 340.0),
            other_call_of_another: added(60.0, -2.0),
        }
    }

    fn runs(pairs: u64, more_ms: u64) -> Runs {
        let ms = Duration::from_millis;
        Runs {
            pairs: (0..pairs).map(|n| (ms(1000 + n % 3), ms(1000 + n % 3 + more_ms + n))).collect(),
            calls: vec![100_000; pairs as usize],
        }
    }

    #[test]
    fn the_calibration_is_a_table() {
        assert_eq!(
            calibration_text(&calibration()),
            "\
ns                                      untraced     added  (median)
a measured call                              250      +400    (+440)
the same call of another process             250      +340    (+374)
another call of another process               60        -2      (-2)

calibration: the fastest (the median) of 1,800 runs of 1,000 calls each, on CPU 1, without and with \
tracing in 9 turns, in 2.040 s
"
        );
    }

    #[test]
    fn a_rate_becomes_a_share() {
        let rates = Rates {
            pid: 7,
            name: "x".to_owned(),
            window: Duration::from_secs(2),
            measured: 50_000,
            others: 10,
            cpu_time: Some(Duration::from_secs(1)),
        };
        assert_eq!(
            rates_text(&rates, &calibration()),
            "process: x (7) makes 25,000 measured and 5 other calls a second\n\
             cost: 1.00 % of a CPU for its measured calls, 0.00 % for the others; 2.00 % of the CPU \
             time that it uses while traced\n"
        );
    }

    #[test]
    fn ten_runs_that_all_took_longer_stand_out() {
        assert_eq!(
            runs_text(&runs(10, 40), &calibration()),
            "\
runs: 10 without and 10 with tracing, in turn
without: 1.001 s (1.000 s to 1.002 s), the median (and the range)
with: 1.045 s (1.040 s to 1.050 s)
difference: +44.50 ms (+4.45 %), the median of all pairs
test: p = 0.002: it stands out of the noise (Wilcoxon's signed-rank test over pairs, exact, two-sided, \
p < 0.05)
calls: 100,000 measured in a run (median); by the calibration, they take 40.00 ms of CPU time
"
        );
        assert!(runs_text(&runs(5, 40), &calibration()).contains("too few runs"));
    }

    #[test]
    fn json_has_whole_nanoseconds() {
        let text = calibration_json(&calibration());
        assert!(
            text.starts_with(r#"{"type": "calibration", "data": {"cpu": 1, "turns": 9, "#),
            "{text}"
        );
        assert!(
            text.contains(r#""other_call_of_another": {"untraced_ns": 60, "added_ns": -2, "#),
            "{text}"
        );
        assert!(runs_json(&runs(10, 40), &calibration()).contains(r#""stands_out": true"#));
    }
}
