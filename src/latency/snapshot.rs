//! What the histograms hold at one moment, while the window is open or after it.
//!
//! Every counter only grows, and each is read at once. So the difference of two snapshots is what was
//! counted between them, and the differences between snapshots in a row add up exactly to the last
//! one. With the outcome as the last of them, that is the total: a call that was held back until the
//! end (see [`Slot::HELD`](super::layout::Slot::HELD)) is counted in the last interval.

use super::Outcome;
use crate::histogram::{Histogram, LinearHistogram};

/// The histograms of all measured calls at one moment, or what came into them between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Each measured system call, in the order asked for.
    pub calls: Vec<Counted>,
}

/// What the histograms of one system call hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Its name.
    pub syscall: String,
    /// The logarithmic buckets. Of a difference, the extremes are not known.
    pub histogram: Histogram,
    /// The linear buckets, if those were asked for.
    pub linear: Option<LinearHistogram>,
}

impl Snapshot {
    /// What was counted after `earlier`, an older snapshot of the same measurement.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.calls.iter().zip(&earlier.calls);
        Self { calls: pairs.map(|(now, before)| now.since(before)).collect() }
    }
}

impl Counted {
    fn since(&self, earlier: &Self) -> Self {
        let linear = self.linear.as_ref().zip(earlier.linear.as_ref());
        Self {
            syscall: self.syscall.clone(),
            histogram: self.histogram.since(&earlier.histogram),
            linear: linear.map(|(now, before)| now.since(before)),
        }
    }
}

impl From<&Outcome> for Snapshot {
    fn from(outcome: &Outcome) -> Self {
        let counted = |call: &super::Call| Counted {
            syscall: call.syscall.clone(),
            histogram: call.histogram.clone(),
            linear: call.linear.clone(),
        };
        Self { calls: outcome.calls.iter().map(counted).collect() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::histogram::{Linear, Unit};

    fn empty() -> Snapshot {
        Snapshot {
            calls: vec![Counted {
                syscall: "read".to_owned(),
                histogram: Histogram::new(Unit::Us),
                linear: Some(LinearHistogram::new(Linear::new(0, 100, 10).unwrap())),
            }],
        }
    }

    proptest! {
        #[test]
        fn differences_add_up_to_the_last_snapshot(
            intervals in prop::collection::vec(prop::collection::vec(0..200_000_u64, 0..20), 0..9),
        ) {
            let (mut now, mut sum) = (empty(), empty());
            for values in &intervals {
                let before = now.clone();
                for ns in values {
                    now.calls[0].histogram.record(*ns);
                    now.calls[0].linear.as_mut().unwrap().record(ns / 1000);
                }
                let since = now.since(&before);
                prop_assert_eq!(since.calls[0].histogram.count(), values.len() as u64);
                sum.calls[0].histogram.merge(&since.calls[0].histogram);
                for ns in values {
                    sum.calls[0].linear.as_mut().unwrap().record(ns / 1000);
                }
            }
            let (now, sum) = (&now.calls[0], &sum.calls[0]);
            prop_assert_eq!(now.histogram.buckets(), sum.histogram.buckets());
            prop_assert_eq!(now.histogram.sum_ns, sum.histogram.sum_ns);
            prop_assert_eq!(&now.linear, &sum.linear);
        }
    }
}
