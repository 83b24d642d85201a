//! The memory that programs and reader share, laid out once for both.
//!
//! ```text
//! rlat_control   array of 1, mapped      word 0: is the window open; word 8: slots that are taken;
//!                                        from word 9 on an idle slot
//! rlat_slots     array of 1, mapped      which call a thread is in, and since when; see
//! rlat_starts    hash, tid -> slot       [`starts`](super::starts)
//! rlat_cpus      array, mapped           regions: counters, then buckets
//! ```
//!
//! There is a region for each measured call of each possible CPU: those of CPU 0, then those of CPU 1.
//! A CPU adds only to its own, so that no cache line is written by two:
//!
//! ```text
//! word 0        the counters
//! word 32       how often each errno was returned
//! word 192      the logarithmic buckets
//! word 2112     the linear buckets, if there are any
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use crate::histogram::log2::RECORDED_BUCKETS;
use crate::insn::Endianness;
use crate::maps::Plain;

/// The map with the window's flag, and how many slots are taken.
pub const CONTROL_MAP: &str = "rlat_control";
/// The map with the regions.
pub const CPUS_MAP: &str = "rlat_cpus";

/// Words of the control map's value. What is written while the window is open is not in the line of
/// memory that every program reads first.
pub const CONTROL_WORDS: usize = 16;
/// Where the control map counts the slots that are taken, in bytes.
pub const TAKEN_OFFSET: u32 = 64;
/// Where the control map has an idle slot to make others from, in bytes: zeros that nobody changes.
pub const IDLE_SLOT_OFFSET: u32 = 72;

/// The control word while the window is closed, and when the map is created.
pub const WINDOW_CLOSED: u64 = 0;
/// The control word while the window is open.
pub const WINDOW_OPEN: u64 = 1;

/// The counters at the beginning of a CPU's region, each a 64-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Calls that entered. Where one call is measured, each thread counts its own in its slot, which is
    /// added here when the thread ends: see [`Slot::entered`].
    Entered = 0,
    /// The sum of the latencies of the calls in the histogram, in ns.
    SumNs = 1,
    /// The smallest of them in ns; starts as `u64::MAX`.
    MinNs = 2,
    /// The largest of them in ns.
    MaxNs = 3,
    /// Calls whose thread ended inside of them.
    EndedWithoutExit = 4,
    /// Calls that entered when the store of starts had no room for one more thread.
    StoreFull = 5,
    /// Calls whose start was still there when the thread entered its next call.
    ExitMissed = 6,
    /// Calls whose end, by the clock, came before their start.
    Negative = 7,
    /// Exits that no start belongs to: the call entered before the window opened.
    ExitWithoutStart = 8,
    /// Returns with a restart code.
    Restarted = 9,
    /// Recorded calls that are not in the histogram, for what they returned. The others are each in one
    /// bucket, and need no counter.
    Excluded = 10,
    /// Recorded calls that returned 0.
    ReturnedZero = 11,
    /// Recorded calls that returned an error.
    ReturnedError = 12,
    /// Exits of threads that are known, and whose entry was not seen: the kernel skipped it.
    EntryMissed = 13,
}

const ERRNOS_WORD: usize = 32;
const BUCKETS_WORD: usize = 192;
const LINEAR_WORD: usize = BUCKETS_WORD + RECORDED_BUCKETS;

/// One more than the greatest errno that has a counter of its own; all others share that of 0. Linux
/// has 133 (`include/uapi/asm-generic/errno.h`).
pub const ERRNOS: i32 = 134;

/// Where the counters of errnos begin in a region, in bytes.
pub const ERRNOS_OFFSET: i16 = (ERRNOS_WORD * 8) as i16;
/// Where the logarithmic buckets begin in a region, in bytes.
pub const BUCKETS_OFFSET: i16 = (BUCKETS_WORD * 8) as i16;
/// Where the linear buckets begin in a region, in bytes.
pub const LINEAR_OFFSET: i16 = (LINEAR_WORD * 8) as i16;

/// Words of a region: a whole number of cache lines.
pub const fn region_words(linear_buckets: usize) -> usize {
    LINEAR_WORD + linear_buckets.next_multiple_of(8)
}

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
    /// A region of [`region_words`] words.
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Self(words)
    }

    /// The counter's value now.
    pub fn get(self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }

    /// How many calls entered and returned: those in the histogram, and those that are left out of it.
    pub fn recorded(self) -> u64 {
        self.buckets().sum::<u64>() + self.get(Counter::Excluded)
    }

    /// How often each errno was returned, by its number.
    pub fn errnos(self) -> impl Iterator<Item = u64> {
        Self::load(&self.0[ERRNOS_WORD..ERRNOS_WORD + ERRNOS as usize])
    }

    /// The counts of the logarithmic buckets, in order.
    pub fn buckets(self) -> impl Iterator<Item = u64> {
        Self::load(&self.0[BUCKETS_WORD..LINEAR_WORD])
    }

    /// The counts of the linear buckets, in order; there may be unused ones at the end.
    pub fn linear(self) -> impl Iterator<Item = u64> {
        Self::load(&self.0[LINEAR_WORD..])
    }

    fn load(words: &[AtomicU64]) -> impl Iterator<Item = u64> {
        words.iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// What must not be zero before the first call is counted.
    pub fn prepare(self) {
        self.0[Counter::MinNs as usize].store(u64::MAX, Ordering::Relaxed);
    }
}

/// What is kept of a thread: its call, or what the last one left behind.
///
/// A slot is taken at the thread's first event, changed in place at every other one, and released when
/// the thread ends: inserting and deleting at every call costs more than the rest. See
/// [`starts`](super::starts).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// The thread whose slot this is, if it is found by address; 0 if it is free, and in the hash.
    pub owner: u64,
    /// The clock in ns when the call began, or one of the three states below, which the clock has
    /// left behind before the first process starts.
    pub start_ns: u64,
    /// In state [`HELD`](Self::HELD), how long the call took in ns.
    pub held_ns: u64,
    /// The call's first argument as the register held it. The kernel looks at the low 32 bits of a
    /// descriptor. 0 where no argument is kept.
    pub argument: u64,
    /// The thread, as people see it.
    pub tid: u32,
    /// The process, as people see it.
    pub pid: u32,
    /// Which call: its place among the measured ones, or its number in a survey.
    pub call: u64,
    /// How many calls the thread has entered, where one call is measured. The slot's line of memory is
    /// written at every entry, and by this thread alone: to count here needs no atomic addition, and no
    /// region.
    pub entered: u64,
}

impl Slot {
    /// The thread is in no call.
    pub const IDLE: i32 = 0;
    /// The thread is in a call that is not measured: on another descriptor, for one.
    pub const FILTERED: i32 = 1;
    /// The call was interrupted by a signal. If the thread goes on, it is recorded at the thread's
    /// next call; if the signal was deadly, the thread ended inside of it.
    pub const HELD: i32 = 2;

    /// Offset of `owner` in bytes.
    pub const OWNER: i16 = 0;
    /// Offset of `start_ns` in bytes.
    pub const START_NS: i16 = 8;
    /// Offset of `held_ns` in bytes.
    pub const HELD_NS: i16 = 16;
    /// Offset of `argument` in bytes.
    pub const ARGUMENT: i16 = 24;
    /// Offset of `tid` and `pid` in bytes.
    pub const IDS: i16 = 32;
    /// Offset of `call` in bytes.
    pub const CALL: i16 = 40;
    /// Offset of `entered` in bytes.
    pub const ENTERED: i16 = 48;

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
    const BYTES: usize = 56;

    fn write_in(&self, order: Endianness, bytes: &mut [u8]) {
        self.owner.write_in(order, &mut bytes[0..8]);
        self.start_ns.write_in(order, &mut bytes[8..16]);
        self.held_ns.write_in(order, &mut bytes[16..24]);
        self.argument.write_in(order, &mut bytes[24..32]);
        self.tid.write_in(order, &mut bytes[32..36]);
        self.pid.write_in(order, &mut bytes[36..40]);
        self.call.write_in(order, &mut bytes[40..48]);
        self.entered.write_in(order, &mut bytes[48..56]);
    }

    fn read_in(order: Endianness, bytes: &[u8]) -> Self {
        Self {
            owner: u64::read_in(order, &bytes[0..8]),
            start_ns: u64::read_in(order, &bytes[8..16]),
            held_ns: u64::read_in(order, &bytes[16..24]),
            argument: u64::read_in(order, &bytes[24..32]),
            tid: u32::read_in(order, &bytes[32..36]),
            pid: u32::read_in(order, &bytes[36..40]),
            call: u64::read_in(order, &bytes[40..48]),
            entered: u64::read_in(order, &bytes[48..56]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_region_do_not_overlap_and_fill_whole_cache_lines() {
        assert!((Counter::EntryMissed as usize) < ERRNOS_WORD);
        assert!(ERRNOS_WORD + ERRNOS as usize <= BUCKETS_WORD);
        for offset in [ERRNOS_OFFSET, BUCKETS_OFFSET, LINEAR_OFFSET] {
            assert_eq!(offset % 64, 0);
        }
        assert!(IDLE_SLOT_OFFSET as usize + Slot::BYTES <= CONTROL_WORDS * 8);
        assert_eq!(region_words(0) * 8, 16_896);
        assert_eq!(region_words(3) % 8, 0);
    }

    #[test]
    fn a_slot_is_written_where_instructions_look_for_it() {
        let slot = Slot {
            owner: 10,
            start_ns: 11,
            held_ns: 22,
            argument: 33,
            tid: 44,
            pid: 55,
            call: 66,
            entered: 77,
        };
        for order in [Endianness::Little, Endianness::Big] {
            let mut bytes = [0; Slot::BYTES];
            slot.write_in(order, &mut bytes);
            let at = |offset: i16| u64::read_in(order, &bytes[offset as usize..][..8]);
            let whole = [Slot::OWNER, Slot::START_NS, Slot::HELD_NS, Slot::ARGUMENT];
            assert_eq!(whole.map(at), [10, 11, 22, 33]);
            assert_eq!([Slot::CALL, Slot::ENTERED].map(at), [66, 77]);
            // Programs write both ids as numbers of 32 bits.
            let ids = [0, 4].map(|at| u32::read_in(order, &bytes[Slot::IDS as usize + at..][..4]));
            assert_eq!(ids, [44, 55]);
            assert_eq!(Slot::read_in(order, &bytes), slot);
        }
        let mut bytes = [0; Slot::BYTES];
        slot.write(&mut bytes);
        assert_eq!(Slot::read(&bytes), slot);
    }

    #[test]
    fn a_region_is_read_by_words_in_either_order() {
        for order in [Endianness::Little, Endianness::Big] {
            let mut bytes = vec![0; region_words(0) * 8];
            let mut write = |offset: i16, value: u64| {
                value.write_in(order, &mut bytes[offset as usize..][..8]);
            };
            write(Counter::Entered.offset(), 1 << 40);
            write(ERRNOS_OFFSET + 8 * 11, 3);
            write(BUCKETS_OFFSET + 8 * 5, 7);
            let words = bytes.chunks_exact(8).map(|word| AtomicU64::new(u64::read_in(order, word)));
            let words: Vec<AtomicU64> = words.collect();
            let region = Region::new(&words);
            assert_eq!(region.get(Counter::Entered), 1 << 40);
            assert_eq!(region.errnos().nth(11), Some(3));
            assert_eq!(region.buckets().position(|count| count == 7), Some(5));
        }
    }

    #[test]
    fn states() {
        let slot = |start_ns| Slot { start_ns, held_ns: 7, ..Slot::default() }.state();
        assert_eq!(slot(0), SlotState::Nothing);
        assert_eq!(slot(1), SlotState::Nothing);
        assert_eq!(slot(2), SlotState::Held { ns: 7 });
        assert_eq!(slot(3), SlotState::InCall { since_ns: 3 });
        assert_eq!(slot(u64::MAX), SlotState::InCall { since_ns: u64::MAX });
    }
}
