//! The memory that a survey's programs and its reader share, laid out once for both.
//!
//! ```text
//! rlat_control   array of 1, mapped      word 0: is the window open; word 8: slots that are taken
//! rlat_slots     array of 1, mapped      which call a thread is in, and since when; see
//! rlat_starts    hash, tid -> slot       [`starts`](crate::latency::starts)
//! rlat_calls     array, mapped           regions of 514 rows
//! ```
//!
//! A region has one row for each number of a system call. A row is 4,096 bytes, a region 2 MiB:
//!
//! ```text
//! word 0        the counters
//! word 16       the buckets, in ns with k = 3: each at most 1/8 of its values wide
//! ```
//!
//! There is one region for each possible CPU, so that no cache line is written by two; but at most
//! [`MOST_REGIONS`], which CPUs far apart then share: what is added atomically may be shared, and a
//! host with hundreds of possible CPUs has better uses for its memory.

use std::sync::atomic::{AtomicU64, Ordering};

use syscalls::Sysno;

use crate::histogram::log2::{RECORDED_K, bucket_count, bucket_index, bucket_range};
use crate::latency::layout::Slot;

/// The map with the rows of all regions.
pub const CALLS_MAP: &str = "rlat_calls";

/// Numbers below this have rows of their own. Linux 6.18 has 470 on the architectures that count
/// from 0, and adds some five a year.
pub const NUMBERS: u32 = 512;
/// The row of all other numbers, for they are not those of this kernel's own table: -1, which is how
/// a tracer skips a call, x32 calls on x86-64, and what no kernel knows yet.
pub const OTHER: u32 = NUMBERS;
/// The row of what belongs to no call.
pub const NO_CALL: u32 = NUMBERS + 1;
/// Rows of a region.
pub const ROWS: u32 = NUMBERS + 2;

/// More regions than that are not made: 64 MiB. A power of two.
pub const MOST_REGIONS: u32 = 32;

/// 2^k buckets for each power of two of nanoseconds.
pub const BUCKET_K: u32 = 3;

const BUCKETS_WORD: usize = 16;

/// Words of a row.
pub const ROW_WORDS: usize = BUCKETS_WORD + bucket_count(BUCKET_K);
/// Where the buckets begin in a row, in bytes.
pub const BUCKETS_OFFSET: i16 = (BUCKETS_WORD * 8) as i16;

/// The counters at the beginning of a row, each a 64-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Calls that entered.
    Entered = 0,
    /// Calls that entered and returned.
    Recorded = 1,
    /// Those of them that returned an error, or were interrupted by a signal.
    Errors = 2,
    /// The sum of their latencies in ns.
    SumNs = 3,
    /// The largest of their latencies in ns.
    MaxNs = 4,
    /// Calls whose thread ended inside of them.
    EndedWithoutExit = 5,
    /// Calls that entered when the store of starts had no room for one more thread.
    StoreFull = 6,
    /// Calls whose start was still there when the thread entered its next call.
    ExitMissed = 7,
    /// Calls whose end, by the clock, came before their start.
    Negative = 8,
    /// Returns with a restart code.
    Restarted = 9,
    /// In row [`NO_CALL`]: exits of threads of which nothing had been seen before.
    ExitWithoutStart = 10,
    /// In row [`NO_CALL`]: exits of threads that were in no call, as far as had been seen.
    ExitNotEntered = 11,
}

impl Counter {
    /// Where the counter is in a row, in bytes: what an instruction needs.
    pub const fn offset(self) -> i16 {
        (self as usize * 8) as i16
    }
}

/// One region's row of one call, as the reader sees it: programs change it at any time while the
/// window is open.
#[derive(Clone, Copy)]
pub struct Row<'a>(&'a [AtomicU64]);

impl<'a> Row<'a> {
    /// A row of [`ROW_WORDS`] words.
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Self(words)
    }

    /// The counter's value now.
    pub fn get(self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }

    /// The counts of the buckets, in order.
    pub fn buckets(self) -> impl Iterator<Item = u64> {
        self.0[BUCKETS_WORD..].iter().map(|word| word.load(Ordering::Relaxed))
    }
}

/// The bucket of a [`Histogram`](crate::histogram::Histogram) that ends where a row's bucket does, so
/// that quantiles come out as if this one had been kept.
pub const fn histogram_bucket(index: usize) -> usize {
    bucket_index(bucket_range(index, BUCKET_K).max, RECORDED_K)
}

/// The name of the system call with that number: `read`, or `#471` for one too new to be known here,
/// or `other` for what has no row of its own.
pub fn call_name(number: u64) -> String {
    let known = usize::try_from(number).ok().and_then(Sysno::new);
    match known {
        Some(known) => known.name().to_owned(),
        None if number < u64::from(NUMBERS) => format!("#{number}"),
        None => "other".to_owned(),
    }
}

/// The number of the system call with that name on this architecture.
pub fn call_number(name: &str) -> Option<u64> {
    // A comparison with each is smaller than the generated match.
    Sysno::iter().find(|call| call.name() == name).map(|call| call.id() as u64)
}

/// The row of the call that a slot is for: below [`NO_CALL`].
pub(super) fn row_of(slot: Slot) -> usize {
    slot.call.min(u64::from(OTHER)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_page_and_a_region_less_than_4_mib() {
        assert!((Counter::ExitNotEntered as usize) < BUCKETS_WORD);
        assert_eq!(BUCKETS_OFFSET % 64, 0);
        assert!(MOST_REGIONS.is_power_of_two());
        assert_eq!(ROW_WORDS * 8, 4096);
        assert!(ROW_WORDS * 8 * ROWS as usize <= 4 << 20);
    }

    #[test]
    fn a_number_outside_of_the_table_is_no_call_of_it() {
        let row = |call| row_of(Slot { call, ..Slot::default() });
        assert_eq!(row(0), 0);
        assert_eq!(row(511), 511);
        for other in [512, 1 << 30, (1 << 30) + 1, u64::MAX] {
            assert_eq!(row(other), OTHER as usize);
            assert_eq!(call_name(other), "other");
        }
    }

    #[test]
    fn names() {
        assert_eq!(call_name(libc::SYS_read as u64), "read");
        assert_eq!(call_name(511), "#511");
        assert_eq!(call_number("getppid"), Some(libc::SYS_getppid as u64));
    }

    #[test]
    fn quantiles_end_where_the_buckets_end() {
        for index in 0..bucket_count(BUCKET_K) {
            let (ours, theirs) =
                (bucket_range(index, BUCKET_K), bucket_range(histogram_bucket(index), RECORDED_K));
            assert_eq!(ours.max, theirs.max);
        }
    }
}
