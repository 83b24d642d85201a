//! Linear buckets: steps of one width between two edges, as bpftrace's `lhist()` has them.

/// The most buckets that a histogram may have between its edges, as in bpftrace.
const MOST_STEPS: u64 = 1000;

/// A linear histogram: its edges, and what was counted between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearHistogram {
    edges: Linear,
    counts: Vec<u64>,
}

impl LinearHistogram {
    /// A histogram that has counted nothing.
    pub fn new(edges: Linear) -> Self {
        Self { edges, counts: vec![0; edges.bucket_count()] }
    }

    /// Its edges.
    pub const fn edges(&self) -> Linear {
        self.edges
    }

    /// Counts one value.
    pub fn record(&mut self, n: u64) {
        self.add_bucket(self.edges.index(n), 1);
    }

    /// Adds `count` values to the bucket `index`; one that there is not counts as the last.
    pub fn add_bucket(&mut self, index: usize, count: u64) {
        let last = self.counts.len() - 1;
        let bucket = &mut self.counts[index.min(last)];
        *bucket = bucket.saturating_add(count);
    }

    /// What was counted after `earlier`, which is an older state of this histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let differences = self.counts.iter().zip(&earlier.counts);
        let counts = differences.map(|(now, before)| now.saturating_sub(*before)).collect();
        Self { edges: self.edges, counts }
    }

    /// The rows from the first to the last that counted something, zeros in between included.
    pub fn rows(&self) -> Vec<LinearRow> {
        let counted = |n: &u64| *n > 0;
        let (Some(first), Some(last)) =
            (self.counts.iter().position(counted), self.counts.iter().rposition(counted))
        else {
            return Vec::new();
        };
        (first..=last).map(|index| self.edges.row(index, self.counts[index])).collect()
    }
}

/// Edges of a linear histogram, in the unit of its values.
///
/// ```
/// use rlat::histogram::{Linear, LinearHistogram, LinearRow};
///
/// let edges = Linear::new(0, 100, 30)?;
/// let mut histogram = LinearHistogram::new(edges);
/// histogram.record(65);
/// histogram.record(90); // from the last whole edge up: the overflow
/// assert_eq!(histogram.rows(), [
///     LinearRow { min: Some(60), max: Some(89), count: 1 },
///     LinearRow { min: Some(90), max: None, count: 1 },
/// ]);
/// # Ok::<(), &'static str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    min: u64,
    step: u64,
    steps: u64,
}

/// A row of a linear histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearRow {
    /// The smallest value; none in the row of those below the first edge.
    pub min: Option<u64>,
    /// The largest value; none in the row of those from the last edge up.
    pub max: Option<u64>,
    /// How many values it counted.
    pub count: u64,
}

impl Linear {
    /// Buckets of `step` from `min` up to the last whole step at or below `max`.
    ///
    /// # Errors
    /// What is wrong with the numbers.
    pub const fn new(min: u64, max: u64, step: u64) -> Result<Self, &'static str> {
        if step == 0 {
            return Err("the step must be greater than 0");
        }
        if max <= min {
            return Err("the maximum must be greater than the minimum");
        }
        let steps = (max - min) / step;
        if steps == 0 {
            return Err("the step must not be greater than the whole range");
        }
        if steps > MOST_STEPS {
            return Err("at most 1,000 steps: take larger ones");
        }
        Ok(Self { min, step, steps })
    }

    /// The lower edge.
    pub const fn min(self) -> u64 {
        self.min
    }

    /// The width of a bucket.
    pub const fn step(self) -> u64 {
        self.step
    }

    /// The last edge: values from here up are in the overflow bucket.
    pub const fn end(self) -> u64 {
        self.min + self.steps * self.step
    }

    /// How many buckets there are, with that for smaller and that for larger values.
    pub const fn bucket_count(self) -> usize {
        self.steps as usize + 2
    }

    /// The bucket that counts `n`: 0 for smaller values, the last one for larger ones.
    pub const fn index(self, n: u64) -> usize {
        if n < self.min {
            0
        } else if n >= self.end() {
            self.steps as usize + 1
        } else {
            ((n - self.min) / self.step) as usize + 1
        }
    }

    fn row(self, index: usize, count: u64) -> LinearRow {
        let edge = |steps: usize| self.min + steps as u64 * self.step;
        let max = (index <= self.steps as usize).then(|| edge(index).saturating_sub(1));
        LinearRow { min: index.checked_sub(1).map(edge), max, count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bad_numbers_are_refused() {
        for (min, max, step) in [(0, 10, 0), (10, 10, 1), (10, 9, 1), (0, 1001, 1), (0, 5, 6)] {
            assert!(Linear::new(min, max, step).is_err(), "{min},{max},{step}");
        }
        assert!(Linear::new(0, 1000, 1).is_ok());
        assert!(Linear::new(0, u64::MAX, u64::MAX / 2).is_ok());
    }

    #[test]
    fn the_last_whole_edge_begins_the_overflow() {
        assert_eq!(Linear::new(0, 10_000, 500).unwrap().end(), 10_000);
        assert_eq!(Linear::new(0, 100, 30).unwrap().end(), 90);
    }

    proptest! {
        #[test]
        fn a_value_is_in_the_row_of_its_bucket(
            min in 0_u64..1000, step in 1_u64..500, steps in 1_u64..1000, rest: u64, n in 0_u64..600_000,
        ) {
            let linear = Linear::new(min, min + step * steps + rest % step, step).unwrap();
            let mut histogram = LinearHistogram::new(linear);
            histogram.record(n);
            let rows = histogram.rows();
            prop_assert_eq!(rows.len(), 1);
            let LinearRow { min, max, count } = rows[0];
            prop_assert!(min.is_none_or(|min| min <= n) && max.is_none_or(|max| n <= max));
            prop_assert_eq!(count, 1);
        }
    }
}
