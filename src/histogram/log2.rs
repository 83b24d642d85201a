//! The buckets: powers of two, each cut into 2^k equal parts.
//!
//! With k = 0 a bucket is as wide as the power of two it starts at: 0, 1, 2-3, 4-7, 8-15 and so on. Each
//! step of k halves the buckets. A value's bucket is never wider than 1/2^k of the value, and values below
//! 2^(k+1) have buckets of their own:
//!
//! ```text
//! k = 0   |8                              |
//! k = 1   |8              |12             |
//! k = 2   |8      |10     |12     |14     |
//! k = 3   |8  |9  |10 |11 |12 |13 |14 |15 |
//! ```
//!
//! Let m = 2^k - 1. A value n <= m has the index n. For any other, l = floor(log2 n) - k is how far its
//! bucket's width is from 1, and the index is ((l + 1) << k) + ((n >> l) & m): l selects the power of two,
//! and the k bits below the highest bit select the part of it.
//!
//! The same without cases: **shift n right until it is below 2^(k+1), and count the shifts as l; the index
//! is (l << k) + the shifted n.** The shifted n still has its highest bit, 2^k, which is the "+ 1" above;
//! and a small n is not shifted at all. This form is short in BPF, which has no instruction to count leading
//! zeros: shifts by 32, 16, 8, 4, 2 and 1, each guarded by one comparison, take the place of the loop.
//!
//! The edges nest: each bucket of a finer k lies inside one of a coarser k. So values are counted once, at
//! [`RECORDED_K`], and shown at any smaller k afterwards, without an error ([`coarsen`]).

/// The k at which latencies are recorded: a bucket is at most 1/32 of its values wide, and exact below 64.
pub const RECORDED_K: u32 = 5;

/// The number of buckets at [`RECORDED_K`], 1,920.
pub const RECORDED_BUCKETS: usize = bucket_count(RECORDED_K);

/// The values that one bucket counts, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
}

/// The number of buckets for all of `u64`, with k in 0 to 5.
///
/// The values below 2^k have one bucket each, and each of the 64 - k powers of two from 2^k up has 2^k
/// buckets. At k = 5 that is 1,920; 1,888 would do for values below 2^63, and no difference of two clock
/// readings is greater. But covering all of `u64` means that no index is ever out of range.
///
/// ```
/// use rlat::histogram::log2::bucket_count;
///
/// assert_eq!(bucket_count(0), 65);
/// assert_eq!(bucket_count(5), 1920);
/// ```
pub const fn bucket_count(k: u32) -> usize {
    ((64 - k + 1) << k) as usize
}

/// The bucket that counts `n`, with k in 0 to 5: below [`bucket_count`] of k.
///
/// ```
/// use rlat::histogram::log2::bucket_index;
///
/// assert_eq!(bucket_index(0, 0), 0);
/// assert_eq!(bucket_index(1000, 0), 10); // 512 to 1023
/// assert_eq!(bucket_index(63, 5), 63); // exact below 64
/// assert_eq!(bucket_index(u64::MAX, 5), 1919);
/// ```
pub const fn bucket_index(n: u64, k: u32) -> usize {
    let mask = (1 << k) - 1;
    if n <= mask {
        return n as usize;
    }
    let l = n.ilog2() - k;
    ((l as usize + 1) << k) + ((n >> l) & mask) as usize
}

/// The values that the bucket `index` counts, with k in 0 to 5 and the index below [`bucket_count`] of k.
/// A greater index gives the last bucket.
///
/// ```
/// use rlat::histogram::log2::{bucket_range, Bucket};
///
/// assert_eq!(bucket_range(0, 0), Bucket { min: 0, max: 0 });
/// assert_eq!(bucket_range(10, 0), Bucket { min: 512, max: 1023 });
/// assert_eq!(bucket_range(1919, 5).max, u64::MAX);
/// ```
pub const fn bucket_range(index: usize, k: u32) -> Bucket {
    let last = bucket_count(k) - 1;
    let index = if index < last { index } else { last };
    let parts = 1 << k;
    if index < parts {
        let n = index as u64;
        return Bucket { min: n, max: n };
    }
    let l = (index >> k) as u32 - 1;
    let part = (index & (parts - 1)) as u64;
    let min = (parts as u64 + part) << l;
    Bucket { min, max: min + ((1 << l) - 1) }
}

/// The bucket at `k` that holds all of the bucket `recorded` at [`RECORDED_K`].
///
/// ```
/// use rlat::histogram::log2::{bucket_index, coarsen, RECORDED_K};
///
/// assert_eq!(coarsen(bucket_index(1000, RECORDED_K), 0), bucket_index(1000, 0));
/// ```
pub const fn coarsen(recorded: usize, k: u32) -> usize {
    bucket_index(bucket_range(recorded, RECORDED_K).min, k)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The form without cases, as the BPF programs compute it.
    fn index_by_shifting(n: u64, k: u32) -> usize {
        let (mut shifted, mut l) = (n, 0);
        while shifted >= 1 << (k + 1) {
            shifted >>= 1;
            l += 1;
        }
        (l << k) + shifted as usize
    }

    fn check(n: u64) {
        for k in 0..=RECORDED_K {
            let index = bucket_index(n, k);
            let Bucket { min, max } = bucket_range(index, k);
            assert!(min <= n && n <= max, "{n} is not in {min}..={max}, k = {k}");
            assert!((max - min) <= n >> k, "the bucket of {n} is too wide, k = {k}");
            assert_eq!(index, index_by_shifting(n, k), "n = {n}, k = {k}");
            assert_eq!(coarsen(bucket_index(n, RECORDED_K), k), index, "n = {n}, k = {k}");
        }
    }

    #[test]
    fn at_and_around_powers_of_two() {
        check(0);
        for power in 0..64 {
            let n = 1_u64 << power;
            check(n - 1);
            check(n);
            check(n + 1);
        }
        check(u64::MAX);
    }

    #[test]
    fn buckets_cover_everything_once() {
        for k in 0..=RECORDED_K {
            assert_eq!(bucket_range(0, k).min, 0);
            for index in 1..bucket_count(k) {
                assert_eq!(bucket_range(index - 1, k).max + 1, bucket_range(index, k).min);
                assert_eq!(bucket_index(bucket_range(index, k).min, k), index);
                assert_eq!(bucket_index(bucket_range(index, k).max, k), index);
            }
            assert_eq!(bucket_range(bucket_count(k) - 1, k).max, u64::MAX);
            assert_eq!(bucket_range(usize::MAX, k).max, u64::MAX);
        }
    }

    #[test]
    fn counts() {
        assert_eq!(RECORDED_BUCKETS, 1920);
        assert_eq!(bucket_index((1 << 63) - 1, RECORDED_K), 1887);
        assert_eq!(bucket_index(u64::MAX, RECORDED_K), 1919);
        assert!((0..64).all(|n| bucket_index(n, RECORDED_K) == n as usize));
    }

    proptest! {
        #[test]
        fn anywhere(n in any::<u64>(), shift in 0..64_u32) {
            check(n >> shift);
        }
    }
}
