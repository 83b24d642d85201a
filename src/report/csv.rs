//! The result for spreadsheets: the buckets as comma-separated values, RFC 4180, and nothing else.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::View;
use crate::histogram::{LinearRow, Row};
use crate::latency::Outcome;

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
    let mut text = "syscall,unit,min,max,count\n".to_owned();
    for call in &outcome.calls {
        let syscall = field(&call.syscall);
        let unit = call.histogram.unit().name();
        let mut row = |min: Option<u64>, max: Option<u64>, count: u64| {
            let [min, max] =
                [min, max].map(|edge| edge.map_or_else(String::new, |n| n.to_string()));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{syscall},{unit},{min},{max},{count}");
        };
        if let Some(linear) = &call.linear {
            for LinearRow { min, max, count } in linear.rows() {
                row(min, max, count);
            }
        } else {
            for Row { min, max, count } in call.histogram.rows(view.k) {
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
