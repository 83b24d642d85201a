//! The histogram as bpftrace draws it, so that the two can be compared line by line.
//!
//! ```text
//! [1]                    3 |@@@@@                                               |
//! [2, 4)                27 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
//! ```
//!
//! The label is left-aligned in 16 columns and the count right-aligned in 8. The bar of the greatest count
//! fills 52 columns, and the others are in proportion.

use std::fmt::Write;

use super::Labels;
use super::numbers::edge_time;
use crate::histogram::{LinearHistogram, LinearRow, Row, Unit};

/// Columns of the longest bar.
const BAR_COLUMNS: usize = 52;

/// One line for each row of a logarithmic histogram with any k, each ending in a line break.
///
/// ```
/// use rlat::histogram::{Histogram, Unit};
/// use rlat::report::{Labels, rows::histogram_rows};
///
/// let mut histogram = Histogram::new(Unit::Us);
/// histogram.record(1_600_000);
/// let rows = |k, labels| histogram_rows(&histogram.rows(k), Unit::Us, labels);
/// assert!(rows(0, Labels::Power).starts_with("[1K, 2K)               1 |@@@"));
/// assert!(rows(2, Labels::Power).starts_with("[1536, 1792)           1 |@@@"));
/// assert!(rows(0, Labels::Time).starts_with("[1.02ms, 2.04ms)       1 |@@@"));
/// ```
pub fn histogram_rows(rows: &[Row], unit: Unit, labels: Labels) -> String {
    let label = |row: &Row| match labels {
        Labels::Power => label(row),
        Labels::Time if row.min == row.max => format!("[{}]", edge_time(row.min.into(), unit)),
        Labels::Time => {
            let end = u128::from(row.max) + 1;
            format!("[{}, {})", edge_time(row.min.into(), unit), edge_time(end, unit))
        }
    };
    lines(rows.iter().map(|row| (label(row), row.count)))
}

/// One line for each row of a linear histogram, each ending in a line break.
///
/// Labels are those of bpftrace 0.24 and newer. Older ones print the maximum that was asked for as the edge
/// of the overflow, also where it begins at a last whole edge below it: `lhist(n, 0, 100, 30)` counts 95 in
/// a row that they label `[100, ...)`. The buckets are the same.
///
/// ```
/// use rlat::histogram::{Linear, LinearHistogram, Unit};
/// use rlat::report::{Labels, rows::linear_rows};
///
/// let mut histogram = LinearHistogram::new(Linear::new(0, 100, 30)?);
/// histogram.record(95);
/// assert!(linear_rows(&histogram, Unit::Us, Labels::Power).starts_with("[90, ...)              1 |@@@"));
/// # Ok::<(), &'static str>(())
/// ```
pub fn linear_rows(histogram: &LinearHistogram, unit: Unit, labels: Labels) -> String {
    let step = histogram.edges().step();
    let edge = |value: u128| match labels {
        Labels::Power => linear_edge(value, step),
        Labels::Time => edge_time(value, unit),
    };
    let label = |row: &LinearRow| match (row.min, row.max) {
        (Some(min), Some(max)) if min == max => format!("[{}]", edge(min.into())),
        (Some(min), Some(max)) => {
            format!("[{}, {})", edge(min.into()), edge(u128::from(max) + 1))
        }
        (Some(min), None) => format!("[{}, ...)", edge(min.into())),
        (None, max) => format!("(..., {})", edge(max.map_or(0, |max| u128::from(max) + 1))),
    };
    let rows = histogram.rows();
    lines(rows.iter().map(|row| (label(row), row.count)))
}

fn lines(rows: impl Iterator<Item = (String, u64)> + Clone) -> String {
    let greatest = rows.clone().map(|(_, count)| count).max().unwrap_or(0);
    let mut text = String::new();
    for (label, count) in rows {
        let bar = "@".repeat(bar_columns(count, greatest));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{label:<16}{count:>8} |{bar:<BAR_COLUMNS$}|");
    }
    text
}

/// The edge of a linear bucket. Whole multiples of 1,024 and of its square have a suffix, if the step is one,
/// so that all edges of a histogram look alike.
fn linear_edge(value: u128, step: u64) -> String {
    const K: u128 = 1024;
    const M: u128 = K * K;
    match value {
        _ if !u128::from(step).is_multiple_of(K) => value.to_string(),
        0 => "0".to_owned(),
        _ if value.is_multiple_of(M) => format!("{}M", value / M),
        _ if value.is_multiple_of(K) => format!("{}K", value / K),
        _ => value.to_string(),
    }
}

/// How long the bar of `count` is, when `greatest` fills all columns.
fn bar_columns(count: u64, greatest: u64) -> usize {
    // bpftrace computes in single precision, and cuts off. Integers would be more exact, but differ from it
    // by a column for some counts above 2^24.
    (count as f32 / greatest as f32 * BAR_COLUMNS as f32) as usize
}

/// The values of a bucket: `[5]` for a single one, else from the first to the one behind the last.
fn label(row: &Row) -> String {
    if row.min == row.max {
        return format!("[{}]", row.min);
    }
    let width = (row.max - row.min).ilog2() + 1;
    let end = u128::from(row.max) + 1;
    // Behind a power of two, buckets are twice as wide.
    let next_width = width + u32::from(end.is_power_of_two());
    format!("[{}, {})", edge(u128::from(row.min), width), edge(end, next_width))
}

/// The first value of a bucket that is 2^`width` values wide.
///
/// The suffix follows from the width, not from the value: K means 1,024, and is used from where all edges
/// are multiples of it. So no label is rounded.
fn edge(value: u128, width: u32) -> String {
    let thousands = width / 10;
    let suffix = ["", "K", "M", "G", "T", "P", "E"][thousands.min(6) as usize];
    format!("{}{suffix}", value >> (10 * thousands))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::log2::{RECORDED_K, bucket_count, bucket_index, bucket_range};

    fn label_of(n: u64, k: u32) -> String {
        let bucket = bucket_range(bucket_index(n, k), k);
        label(&Row { min: bucket.min, max: bucket.max, count: 1 })
    }

    #[test]
    fn labels_of_powers_of_two() {
        for (n, text) in [
            (0, "[0]"),
            (1, "[1]"),
            (3, "[2, 4)"),
            (1000, "[512, 1K)"),
            (1024, "[1K, 2K)"),
            (1 << 20, "[1M, 2M)"),
            ((1 << 30) - 1, "[512M, 1G)"),
            (1 << 40, "[1T, 2T)"),
            (1 << 50, "[1P, 2P)"),
            (1 << 60, "[1E, 2E)"),
            (u64::MAX, "[8E, 16E)"),
        ] {
            assert_eq!(label_of(n, 0), text);
        }
    }

    #[test]
    fn labels_of_parts_of_powers_of_two() {
        for (n, k, text) in [
            (5, 2, "[5]"),
            (8, 2, "[8, 10)"),
            (1024, 1, "[1024, 1536)"),
            (1536, 1, "[1536, 2K)"),
            (2048, 1, "[2K, 3K)"),
            (1000, 5, "[992, 1008)"),
            (1024, 5, "[1024, 1056)"),
            (32_767, 5, "[32256, 32K)"),
            (32_768, 5, "[32K, 33K)"),
            (u64::MAX, 5, "[16128P, 16384P)"),
        ] {
            assert_eq!(label_of(n, k), text, "k = {k}");
        }
    }

    #[test]
    fn each_label_ends_where_the_next_begins() {
        for k in 0..=RECORDED_K {
            let labels: Vec<String> =
                (0..bucket_count(k)).map(|index| label_of(bucket_range(index, k).min, k)).collect();
            for pair in labels.windows(2) {
                let Some((_, end)) = pair[0].split_once(", ") else {
                    continue;
                };
                let start = pair[1].split_once(", ").unwrap().0;
                assert_eq!(end.trim_end_matches(')'), start.trim_start_matches('['));
            }
        }
    }

    #[test]
    fn bars() {
        assert_eq!(bar_columns(1, 1), 52);
        assert_eq!(bar_columns(1, 2), 26);
        assert_eq!(bar_columns(1, 53), 0);
        assert_eq!(bar_columns(u64::MAX - 1, u64::MAX), 52);
        assert_eq!(bar_columns(0, 0), 0);
    }
}
