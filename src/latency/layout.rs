//! The memory that programs and reader share, laid out once for both.
//!
//! ```text
//! rlat_control   array of 1, mapped      word 0: is the window open
//! rlat_starts    hash, tid -> slot       where a thread's call began, and on which descriptor
//! rlat_cpus      array, mapped           one region a possible CPU: counters, then buckets
//! ```
//!
//! A CPU adds only to its own region, so that no cache line is written by two.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::histogram::log2::RECORDED_BUCKETS;
use crate::maps::Plain;

/// The map with the window's flag.
pub const CONTROL_MAP: &str = "rlat_control";
/// The map from threads to the start of their call.
pub const STARTS_MAP: &str = "rlat_starts";
/// The map with each CPU's counters and buckets.
pub const CPUS_MAP: &str = "rlat_cpus";

/// The control word while the window is closed, and when the map is created.
pub const WINDOW_CLOSED: u64 = 0;
/// The control word while the window is open.
pub const WINDOW_OPEN: u64 = 1;

/// The counters at the beginning of a CPU's region, each a 64-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Calls that entered.
    Entered = 0,
    /// Calls that entered and returned, and are in a bucket.
    Recorded = 1,
    /// The sum of their latencies in ns.
    SumNs = 2,
    /// The smallest of them in ns; starts as `u64::MAX`.
    MinNs = 3,
    /// The largest of them in ns.
    MaxNs = 4,
    /// Calls whose thread ended inside of them.
    EndedWithoutExit = 5,
    /// Calls that entered when the store of starts had no room for one more thread.
    StoreFull = 6,
    /// Calls whose start was still there when the thread entered its next call.
    ExitMissed = 7,
    /// Calls whose end, by the clock, came before their start.
    Negative = 8,
    /// Exits that no start belongs to: the call entered before the window opened.
    ExitWithoutStart = 9,
    /// Returns with a restart code.
    Restarted = 10,
}

/// The buckets begin on a cache line of their own, after two lines of counters.
const BUCKETS_WORD: usize = 16;

/// Words of a region: 15,488 bytes, a whole number of cache lines.
pub const REGION_WORDS: usize = BUCKETS_WORD + RECORDED_BUCKETS;

/// Where the buckets begin in a region, in bytes.
pub const BUCKETS_OFFSET: i16 = (BUCKETS_WORD * 8) as i16;

impl Counter {
    /// Where the counter is in a region, in bytes: what an instruction needs.
    pub const fn offset(self) -> i16 {
        (self as usize * 8) as i16
    }
}

/// One CPU's region, as the reader sees it: programs change it at any time while the window is open.
#[derive(Clone, Copy)]
pub struct Region<'a>(&'a [AtomicU64]);

impl<'a> Region<'a> {
    /// A region of at least [`REGION_WORDS`] words.
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

    /// What must not be zero before the first call is counted.
    pub fn prepare(self) {
        self.0[Counter::MinNs as usize].store(u64::MAX, Ordering::Relaxed);
    }
}

/// What is kept of a thread: its call, or what the last one left behind.
///
/// A slot is inserted at the thread's first call or exit, changed in place at every other one, and
/// removed when the thread ends: inserting and deleting at every call costs more than the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// The clock in ns when the call began, or one of the three states below, which the clock has
    /// left behind before the first process starts.
    pub start_ns: u64,
    /// The call's first argument as the register held it. The kernel looks at the low 32 bits.
    pub descriptor: u64,
    /// In state [`HELD`](Self::HELD), how long the call took in ns.
    pub held_ns: u64,
}

impl Slot {
    /// The thread is in no call.
    pub const IDLE: i32 = 0;
    /// The thread is in a call on another descriptor than the measured one.
    pub const FILTERED: i32 = 1;
    /// The call was interrupted by a signal. If the thread goes on, it is recorded at the thread's
    /// next call; if the signal was deadly, the thread ended inside of it.
    pub const HELD: i32 = 2;

    /// Offset of `start_ns` in bytes.
    pub const START_NS: i16 = 0;
    /// Offset of `descriptor` in bytes.
    pub const DESCRIPTOR: i16 = 8;
    /// Offset of `held_ns` in bytes.
    pub const HELD_NS: i16 = 16;

    /// What the slot says at the end of the window.
    pub fn state(self) -> SlotState {
        match i32::try_from(self.start_ns) {
            Ok(Self::IDLE | Self::FILTERED) => SlotState::Nothing,
            Ok(Self::HELD) => SlotState::Held { ns: self.held_ns },
            _ => SlotState::InCall { since_ns: self.start_ns },
        }
    }
}

/// A slot's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// No measured call.
    Nothing,
    /// A finished call that is not recorded yet.
    Held {
        /// Its latency in ns.
        ns: u64,
    },
    /// A call that has not returned.
    InCall {
        /// The clock at its entry in ns.
        since_ns: u64,
    },
}

impl Plain for Slot {
    const BYTES: usize = 24;

    fn write(&self, bytes: &mut [u8]) {
        self.start_ns.write(&mut bytes[0..8]);
        self.descriptor.write(&mut bytes[8..16]);
        self.held_ns.write(&mut bytes[16..24]);
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            start_ns: u64::read(&bytes[0..8]),
            descriptor: u64::read(&bytes[8..16]),
            held_ns: u64::read(&bytes[16..24]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_buckets_do_not_overlap_and_fill_whole_cache_lines() {
        assert!((Counter::Restarted as usize) < BUCKETS_WORD);
        assert_eq!(REGION_WORDS * 8, 15_488);
        assert_eq!(REGION_WORDS * 8 % 64, 0);
        assert_eq!(BUCKETS_OFFSET % 64, 0);
    }

    #[test]
    fn a_slot_is_written_where_instructions_look_for_it() {
        let slot = Slot { start_ns: 11, descriptor: 22, held_ns: 33 };
        let mut bytes = [0; Slot::BYTES];
        slot.write(&mut bytes);
        let at = |offset: i16| u64::read(&bytes[offset as usize..][..8]);
        assert_eq!((at(Slot::START_NS), at(Slot::DESCRIPTOR), at(Slot::HELD_NS)), (11, 22, 33));
        assert_eq!(Slot::read(&bytes), slot);
    }

    #[test]
    fn states() {
        let slot = |start_ns| Slot { start_ns, descriptor: 0, held_ns: 7 }.state();
        assert_eq!(slot(0), SlotState::Nothing);
        assert_eq!(slot(1), SlotState::Nothing);
        assert_eq!(slot(2), SlotState::Held { ns: 7 });
        assert_eq!(slot(3), SlotState::InCall { since_ns: 3 });
        assert_eq!(slot(u64::MAX), SlotState::InCall { since_ns: u64::MAX });
    }
}
