//! How many threads the store of starts has room for.

use crate::loader::{allocates_on_demand, has_fetching_atomics};

/// Room for this many threads at least, where it is taken beforehand.
const FEWEST: usize = 4096;
/// Room for this many times the threads that the processes have now, where it is taken beforehand.
const PER_THREAD: usize = 4;
/// Slots that are found by address: at least these, 64 KiB.
const FEWEST_DIRECT: u32 = 1 << 10;
/// And at most these, 1 MiB.
const MOST_DIRECT: u32 = 1 << 14;

/// The size of a store of starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Slots that are found by address: a power of two, or 0 where the kernel has no
    /// compare-and-exchange.
    pub direct_slots: u32,
    /// For how many threads there is room in all.
    pub threads: u32,
    /// Whether the kernel takes memory for those in the hash when they come (Linux 6.1), and not
    /// beforehand.
    pub on_demand: bool,
}

impl Room {
    /// The most threads that a store can have room for: the hash's own table takes 16 bytes for each,
    /// 2 MiB.
    pub const MOST: u32 = 1 << 17;

    /// The room for processes that have `threads` threads now; or exactly for `wanted`, if given.
    ///
    /// Where memory is taken on demand, there is room for every thread that the kernel lets live at the
    /// same time, up to 131,072.
    pub fn choose(threads: usize, wanted: Option<u32>) -> Self {
        let on_demand = allocates_on_demand();
        let room = wanted.unwrap_or_else(|| {
            if on_demand {
                most_threads()
            } else {
                u32::try_from(threads * PER_THREAD)
                    .unwrap_or(Self::MOST)
                    .clamp(FEWEST as u32, Self::MOST)
            }
        });
        let expected =
            wanted.unwrap_or(u32::try_from(threads).unwrap_or(Self::MOST).saturating_mul(2));
        let direct_slots = if has_fetching_atomics() {
            expected.clamp(FEWEST_DIRECT, MOST_DIRECT).next_power_of_two()
        } else {
            0
        };
        Self { direct_slots, threads: room, on_demand }
    }
}

/// How many threads can live at the same time: each needs a number of its own, see proc_sys_kernel(5).
fn most_threads() -> u32 {
    let limit = |name: &str| -> Option<u32> {
        std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
    };
    ["pid_max", "threads-max"]
        .into_iter()
        .filter_map(limit)
        .min()
        .unwrap_or(Room::MOST)
        .min(Room::MOST)
}
