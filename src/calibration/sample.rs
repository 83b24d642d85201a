//! Many runs of the same thing: the least disturbed one, and the one in the middle.

/// How long one call took, in each of many runs, in ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample(Vec<f64>);

/// A sample in two numbers, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nanos {
    /// The fastest run: during the others somebody else may have had the CPU.
    pub min: f64,
    /// As many runs took longer as took less.
    pub median: f64,
}

/// A call without and with tracing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Added {
    /// While nothing was attached.
    pub untraced: Nanos,
    /// While the programs were.
    pub traced: Nanos,
}

impl Sample {
    /// One more run.
    pub fn add(&mut self, nanos: f64) {
        self.0.push(nanos);
    }

    /// How many runs there were.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The two numbers; `None` of an empty sample.
    ///
    /// ```
    /// use rlat::calibration::{Nanos, Sample};
    ///
    /// let mut sample = Sample::default();
    /// assert_eq!(sample.nanos(), None);
    /// for nanos in [250.0, 900.0, 255.0] {
    ///     sample.add(nanos);
    /// }
    /// assert_eq!(sample.nanos(), Some(Nanos { min: 250.0, median: 255.0 }));
    /// ```
    pub fn nanos(&self) -> Option<Nanos> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        Some(Nanos { min: *sorted.first()?, median: median_of_sorted(&sorted)? })
    }
}

impl Added {
    /// What tracing added: to the fastest run, and to the median. Can be less than 0 where it is less than
    /// the noise.
    pub fn added(&self) -> Nanos {
        Nanos {
            min: self.traced.min - self.untraced.min,
            median: self.traced.median - self.untraced.median,
        }
    }
}

/// The middle one, or the mean of the two in the middle.
fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}
