//! A recorded histogram: the buckets at the finest resolution, and what can be read from them.

use super::Unit;
use super::log2::{Bucket, RECORDED_BUCKETS, RECORDED_K, bucket_index, bucket_range, coarsen};

/// Latencies in a unit, counted in buckets at [`RECORDED_K`], with their exact sum and extremes in
/// nanoseconds.
///
/// Buckets count whole units, rounded down, so the first one means "less than 1 us" if that is the unit.
///
/// All additions saturate: a number that stays at the top is visibly wrong, one that wrapped around is not,
/// and neither may end the report. Honest counts are far from that: 2^64 ns are 584 years of waiting.
///
/// ```
/// use rlat::histogram::{Histogram, Unit};
/// use rlat::histogram::log2::{RECORDED_K, bucket_index};
///
/// let mut histogram = Histogram::new(Unit::Us);
/// histogram.add_bucket(bucket_index(3, RECORDED_K), 2);
/// histogram.add_bucket(bucket_index(1000, RECORDED_K), 1);
///
/// assert_eq!(histogram.count(), 3);
/// assert_eq!(histogram.quantile_permille(500), Some(3));
/// let first = histogram.rows(0)[0];
/// assert_eq!((first.min, first.max, first.count), (2, 3, 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// What the buckets count.
    unit: Unit,
    /// One counter a bucket, [`RECORDED_BUCKETS`] of them.
    buckets: Vec<u64>,
    /// The sum of the counters.
    count: u64,
    /// The sum of all values, in ns.
    pub sum_ns: u64,
    /// The smallest value in ns, or `None` when it is not known.
    pub min_ns: Option<u64>,
    /// The largest value in ns, or `None` when it is not known.
    pub max_ns: Option<u64>,
}

/// One bucket and how many values it counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The smallest value of the bucket, in the histogram's unit.
    pub min: u64,
    /// The largest value of the bucket, in the histogram's unit.
    pub max: u64,
    /// How many values it counted.
    pub count: u64,
}

impl Row {
    const fn empty(bucket: Bucket) -> Self {
        Self { min: bucket.min, max: bucket.max, count: 0 }
    }
}

impl Histogram {
    /// A histogram that has counted nothing.
    pub fn new(unit: Unit) -> Self {
        let buckets = vec![0; RECORDED_BUCKETS];
        Self { unit, buckets, count: 0, sum_ns: 0, min_ns: None, max_ns: None }
    }

    /// What the buckets count.
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// How many values were counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The counters at [`RECORDED_K`], [`RECORDED_BUCKETS`] of them.
    pub fn buckets(&self) -> &[u64] {
        &self.buckets
    }

    /// Counts one value of `ns` nanoseconds.
    pub fn record(&mut self, ns: u64) {
        self.add_bucket(bucket_index(ns / self.unit.nanos(), RECORDED_K), 1);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.min_ns = Some(self.min_ns.map_or(ns, |min| min.min(ns)));
        self.max_ns = Some(self.max_ns.map_or(ns, |max| max.max(ns)));
    }

    /// Adds `count` values to the bucket `index`, 0 to [`RECORDED_BUCKETS`] - 1; a greater index counts in
    /// the last bucket, so that nothing is dropped. Sum and extremes are the caller's to set.
    pub fn add_bucket(&mut self, index: usize, count: u64) {
        let bucket = &mut self.buckets[index.min(RECORDED_BUCKETS - 1)];
        *bucket = bucket.saturating_add(count);
        self.count = self.count.saturating_add(count);
    }

    /// Adds what another histogram of the same unit counted, as if its values had been counted here.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.min_ns = self.min_ns.into_iter().chain(other.min_ns).min();
        self.max_ns = self.max_ns.into_iter().chain(other.max_ns).max();
    }

    /// What was counted after `earlier`, which is an older state of this histogram. The extremes of
    /// that are not known.
    ///
    /// Counters only grow, so that the differences between any states in a row add up exactly to the
    /// last one.
    ///
    /// ```
    /// use rlat::histogram::{Histogram, Unit};
    ///
    /// let mut histogram = Histogram::new(Unit::Us);
    /// histogram.record(5_000);
    /// let earlier = histogram.clone();
    /// histogram.record(7_000);
    /// let since = histogram.since(&earlier);
    /// assert_eq!((since.count(), since.sum_ns), (1, 7_000));
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = Self::new(self.unit);
        for (index, (now, before)) in self.buckets.iter().zip(&earlier.buckets).enumerate() {
            since.add_bucket(index, now.saturating_sub(*before));
        }
        since.sum_ns = self.sum_ns.saturating_sub(earlier.sum_ns);
        since
    }

    /// The histogram at `k`, 0 to [`RECORDED_K`]: from the first to the last bucket that counted something,
    /// the empty ones between them included. A greater `k` is taken as [`RECORDED_K`].
    pub fn rows(&self, k: u32) -> Vec<Row> {
        let k = k.min(RECORDED_K);
        let filled = |&(_, count): &(usize, &u64)| *count > 0;
        let counters = self.buckets.iter().enumerate();
        let first = counters.clone().find(filled);
        let last = counters.clone().rfind(filled);
        let (Some((first, _)), Some((last, _))) = (first, last) else {
            return Vec::new();
        };
        let mut rows: Vec<Row> = (coarsen(first, k)..=coarsen(last, k))
            .map(|index| Row::empty(bucket_range(index, k)))
            .collect();
        for (index, count) in counters.skip(first).take(last - first + 1) {
            let row = &mut rows[coarsen(index, k) - coarsen(first, k)];
            row.count = row.count.saturating_add(*count);
        }
        rows
    }

    /// The value in the unit that `permille` thousandths of all values do not exceed, or `None` when nothing was
    /// counted: 500 is the median, 999 is p99.9.
    ///
    /// With n values, the answer is that of rank ceil(`permille` / 1000 * n), from 1 to n. Its exact value
    /// is not known any more, so it is the greatest value of its bucket: never less than the true one, more
    /// by at most 1/32, exact below 64, and never above the true maximum. The fraction is an integer because
    /// a rounding error in 0.999 * 1000 would select another rank.
    pub fn quantile_permille(&self, permille: u64) -> Option<u64> {
        let rank = (u128::from(self.count) * u128::from(permille))
            .div_ceil(1000)
            .clamp(1, u128::from(self.count).max(1));
        let mut below = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            below += u128::from(*count);
            if below >= rank {
                let max = bucket_range(index, RECORDED_K).max;
                return Some(self.max_ns.map_or(max, |ns| max.min(ns / self.unit.nanos())));
            }
        }
        None
    }

    /// The mean in ns, rounded down, or `None` when nothing was counted.
    pub const fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram(values_ns: &[u64]) -> Histogram {
        let mut histogram = Histogram::new(Unit::Us);
        for &ns in values_ns {
            histogram.record(ns);
        }
        histogram
    }

    /// Values of all magnitudes, which a uniform distribution over `u64` does not give.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((any::<u64>(), 0..64_u32).prop_map(|(n, shift)| n >> shift), 1..300)
    }

    #[test]
    fn nothing_counted() {
        let empty = Histogram::new(Unit::Us);
        assert!(empty.rows(0).is_empty());
        assert_eq!(empty.quantile_permille(500), None);
        assert_eq!(empty.mean_ns(), None);
    }

    #[test]
    fn rows_include_the_zeros_between() {
        let rows = histogram(&[1_000, 8_000, 9_999]).rows(0);
        let triples: Vec<_> = rows.iter().map(|row| (row.min, row.max, row.count)).collect();
        assert_eq!(triples, [(1, 1, 1), (2, 3, 0), (4, 7, 0), (8, 15, 2)]);
    }

    #[test]
    fn p99_9_of_a_thousand_is_the_second_greatest() {
        // Values below 64 are exact: 998 zeros, then 1 and 2.
        let mut histogram = Histogram::new(Unit::Us);
        histogram.add_bucket(0, 998);
        histogram.add_bucket(1, 1);
        histogram.add_bucket(2, 1);
        assert_eq!(histogram.quantile_permille(998), Some(0));
        assert_eq!(histogram.quantile_permille(999), Some(1));
        assert_eq!(histogram.quantile_permille(1000), Some(2));
        assert_eq!(histogram.quantile_permille(5000), Some(2));
    }

    #[test]
    fn a_quantile_is_not_above_the_maximum() {
        assert_eq!(histogram(&[1_000_000]).quantile_permille(500), Some(1000));
    }

    #[test]
    fn full_counters_stay_full() {
        let mut full = Histogram::new(Unit::Us);
        full.add_bucket(3, u64::MAX);
        full.add_bucket(usize::MAX, 7);
        let copy = full.clone();
        full.merge(&copy);
        assert_eq!(full.count(), u64::MAX);
        assert_eq!(full.buckets()[RECORDED_BUCKETS - 1], 14);
        assert_eq!(full.quantile_permille(1000), Some(3));
        assert_eq!(full.rows(0).len(), bucket_index(u64::MAX, 0) - bucket_index(3, 0) + 1);
    }

    proptest! {
        #[test]
        fn quantile_is_near_the_sorted_value(values in values(), permille in 0..=1000_u64) {
            let histogram = histogram(&values);
            let mut sorted = values;
            sorted.sort_unstable();
            let rank = (sorted.len() * permille as usize).div_ceil(1000).max(1);
            let exact = sorted[rank - 1] / 1000;

            let quantile = histogram.quantile_permille(permille).unwrap();
            prop_assert!(quantile >= exact);
            prop_assert!(quantile - exact <= exact / 32);
            prop_assert!(quantile <= sorted[sorted.len() - 1] / 1000);
        }

        #[test]
        fn rows_keep_every_value(values in values(), k in 0..=RECORDED_K) {
            let rows = histogram(&values).rows(k);
            prop_assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), values.len() as u64);
            prop_assert!(rows[0].count > 0 && rows[rows.len() - 1].count > 0);
            for pair in rows.windows(2) {
                prop_assert_eq!(pair[0].max + 1, pair[1].min);
            }
            for row in rows {
                let inside = values.iter().filter(|ns| (row.min..=row.max).contains(&(*ns / 1000)));
                prop_assert_eq!(row.count, inside.count() as u64);
            }
        }

        #[test]
        fn merging_equals_counting_together(left in values(), right in values()) {
            let mut merged = histogram(&left);
            merged.merge(&histogram(&right));
            prop_assert_eq!(merged, histogram(&[left, right].concat()));
        }
    }
}
