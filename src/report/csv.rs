//! The result for spreadsheets: the buckets as comma-separated values, RFC 4180, and nothing else.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::{Interval, View};
use crate::histogram::{LinearRow, Row};
use crate::latency::{Counted, Outcome, Snapshot};

/// One row a bucket, below a line of headings; lines end in a line feed alone, as in Unix.
///
/// `min` and `max` are the smallest and the largest value that the bucket counts, in the unit. In linear
/// histograms the row of too small values has no `min`, and that of too large ones no `max`.
///
/// ```
/// use std::time::Duration;
/// use rlat::histogram::{Histogram, Unit};
/// use rlat::latency::{Call, ClosedBy, Ledger, Outcome};
/// use rlat::report::{View, csv};
///
/// let mut histogram = Histogram::new(Unit::Us);
/// histogram.record(3_210);
/// let call = Call {
///     syscall: "read".to_owned(),
///     histogram,
///     linear: None,
///     ledger: Ledger::default(),
///     in_flight: Vec::new(),
/// };
/// let outcome = Outcome {
///     calls: vec![call],
///     missed_runs: None,
///     unfollowed: None,
///     window: Duration::from_secs(30),
///     closed_by: ClosedBy::Time,
/// };
/// let text = csv::measurement(&outcome, View::default());
/// assert_eq!(text, "syscall,unit,min,max,count\nread,us,2,3,1\n");
/// ```
pub fn measurement(outcome: &Outcome, view: View) -> String {
    "syscall,unit,min,max,count\n".to_owned() + &rows("", &Snapshot::from(outcome), view)
}

/// The line of headings when intervals are shown: three columns more stand before the others.
///
/// `interval` is the number of one, from 1, or `total`; the next two are when it began and ended, in ns
/// since the window opened.
pub const INTERVALS_HEADING: &str = "interval,start_ns,end_ns,syscall,unit,min,max,count\n";

/// The rows of one interval.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use rlat::histogram::{Histogram, Unit};
/// use rlat::latency::{Counted, Snapshot};
/// use rlat::report::{Interval, View, csv};
///
/// let mut histogram = Histogram::new(Unit::Us);
/// histogram.record(3_210);
/// let counted = Counted { syscall: "read".to_owned(), histogram, linear: None };
/// let interval = Interval {
///     number: 2,
///     start: Duration::from_millis(1),
///     end: Duration::from_millis(2),
///     ended: UNIX_EPOCH,
///     counted: Snapshot { calls: vec![counted] },
/// };
/// assert_eq!(csv::interval(&interval, View::default()), "2,1000000,2000000,read,us,2,3,1\n");
/// ```
pub fn interval(interval: &Interval, view: View) -> String {
    let (start, end) = (interval.start.as_nanos(), interval.end.as_nanos());
    rows(&format!("{},{start},{end},", interval.number), &interval.counted, view)
}

/// The rows of the whole window, behind those of all intervals.
pub fn total(outcome: &Outcome, view: View) -> String {
    rows(&format!("total,0,{},", outcome.window.as_nanos()), &Snapshot::from(outcome), view)
}

/// A row for each bucket, each with `first` before it.
fn rows(first: &str, Snapshot { calls }: &Snapshot, view: View) -> String {
    let mut text = String::new();
    for Counted { syscall, histogram, linear } in calls {
        let syscall = field(syscall);
        let unit = histogram.unit().name();
        let mut row = |min: Option<u64>, max: Option<u64>, count: u64| {
            let [min, max] =
                [min, max].map(|edge| edge.map_or_else(String::new, |n| n.to_string()));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{first}{syscall},{unit},{min},{max},{count}");
        };
        if let Some(linear) = linear {
            for LinearRow { min, max, count } in linear.rows() {
                row(min, max, count);
            }
        } else {
            for Row { min, max, count } in histogram.rows(view.k) {
                row(Some(min), Some(max), count);
            }
        }
    }
    text
}

/// A field, in quotes if it needs them.
fn field(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\r', '\n']) {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_quotes_has_them() {
        for (text, quoted) in
            [("read", "read"), ("", ""), ("a,b", "\"a,b\""), ("a\"b\n", "\"a\"\"b\n\"")]
        {
            assert_eq!(field(text), quoted);
        }
    }
}
