//! Whether differences stand out of the noise: Wilcoxon's signed-rank test.
//!
//! Each run with tracing is compared with its neighbour without: what the machine does in the long run
//! concerns both of a pair. The pairs are ranked by how much their two runs differ. If tracing made no
//! difference, each rank would belong to a slower or to a faster run with equal chance; p is the
//! chance that the ranks then are as lopsided as those found, or more, to either side. It is exact: all
//! 2^n ways to give signs to the ranks are counted, so that it is right for few runs, too.

/// What the test found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignedRank {
    /// The pairs whose two runs differ: the others say nothing.
    pub pairs: usize,
    /// The sum of the ranks of positive differences.
    pub positive: f64,
    /// The chance of that or a more extreme sum, to either side, if there were no difference.
    pub p: f64,
}

impl SignedRank {
    /// Below it, a difference stands out.
    pub const SIGNIFICANT: f64 = 0.05;

    /// Whether the difference stands out of the noise.
    pub fn stands_out(&self) -> bool {
        self.p < Self::SIGNIFICANT
    }

    /// Whether there are so few pairs that no difference could stand out.
    ///
    /// ```
    /// use rlat::calibration::signed_rank;
    ///
    /// assert!(signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0]).is_too_small());
    /// assert!(!signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).is_too_small());
    /// ```
    pub fn is_too_small(&self) -> bool {
        2.0 * 0.5_f64.powi(self.pairs as i32) >= Self::SIGNIFICANT
    }
}

/// Tests whether the differences are to one side of zero. It takes time with the cube of their number:
/// a tenth of a second for 500.
///
/// ```
/// use rlat::calibration::signed_rank;
///
/// // All of five are positive: one way of 32, and the opposite one.
/// assert_eq!(signed_rank(&[5.0, 3.0, 1.0, 2.0, 4.0]).p, 2.0 / 32.0);
/// assert_eq!(signed_rank(&[]).p, 1.0);
/// ```
pub fn signed_rank(differences: &[f64]) -> SignedRank {
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let ranks = doubled_ranks(&sorted);
    let positive: usize = sorted
        .iter()
        .zip(&ranks)
        .filter(|(difference, _)| **difference > 0.0)
        .map(|(_, r)| r)
        .sum();
    let chances = chances_of_sums(&ranks);
    let at_most: f64 = chances[..=positive].iter().sum();
    let at_least: f64 = chances[positive..].iter().sum();
    SignedRank {
        pairs: sorted.len(),
        positive: positive as f64 / 2.0,
        p: (2.0 * at_most.min(at_least)).min(1.0),
    }
}

/// Twice the rank of each, so that they are whole: equal ones share the mean of their ranks.
fn doubled_ranks(sorted: &[f64]) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(sorted.len());
    for equal in sorted.chunk_by(|a, b| a.abs().total_cmp(&b.abs()).is_eq()) {
        let (first, last) = (ranks.len() + 1, ranks.len() + equal.len());
        ranks.extend(equal.iter().map(|_| first + last));
    }
    ranks
}

/// For each sum, the chance that the ranks with a positive sign add up to it.
fn chances_of_sums(ranks: &[usize]) -> Vec<f64> {
    let mut chances = vec![0.0; ranks.iter().sum::<usize>() + 1];
    chances[0] = 1.0;
    for rank in ranks {
        for sum in (0..chances.len()).rev() {
            let with = if sum >= *rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = 0.5 * (chances[sum] + with);
        }
    }
    chances
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Counts all ways to give signs.
    fn by_counting(differences: &[f64]) -> f64 {
        let mut sorted: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
        sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let ranks = doubled_ranks(&sorted);
        let found: usize =
            ranks.iter().zip(&sorted).filter(|(_, d)| **d > 0.0).map(|(r, _)| r).sum();
        let (mut at_most, mut at_least) = (0, 0);
        for signs in 0_u32..1 << ranks.len() {
            let sum: usize =
                ranks.iter().enumerate().filter(|(i, _)| signs >> i & 1 == 1).map(|(_, r)| r).sum();
            at_most += u32::from(sum <= found);
            at_least += u32::from(sum >= found);
        }
        (2.0 * f64::from(at_most.min(at_least)) / f64::from(1_u32 << ranks.len())).min(1.0)
    }

    #[test]
    fn a_known_example() {
        // That of Wikipedia's article on the test, in which the sums of ranks are 27 and 18.
        let differences = [15.0, -7.0, 5.0, 20.0, 0.0, -9.0, 17.0, -12.0, 5.0, -10.0];
        let found = signed_rank(&differences);
        assert_eq!((found.pairs, found.positive), (9, 27.0));
        assert!(!found.stands_out() && !found.is_too_small());
    }

    #[test]
    fn many_pairs_to_one_side_stand_out() {
        let found = signed_rank(&(1..=500).map(f64::from).collect::<Vec<_>>());
        assert!(found.p < 1e-100 && found.stands_out());
    }

    proptest! {
        #[test]
        fn it_is_what_counting_all_signs_gives(differences in prop::collection::vec(-6_i32..7, 0..10)) {
            let differences: Vec<f64> = differences.into_iter().map(f64::from).collect();
            prop_assert!((signed_rank(&differences).p - by_counting(&differences)).abs() < 1e-12);
        }
    }
}
