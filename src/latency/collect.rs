//! From the shared memory to the ledger and the histogram.

use super::layout::{Counter, Region, Slot, SlotState};
use super::{Ledger, Lost};
use crate::histogram::Histogram;

/// The latencies that were still held back when the window closed: their threads live.
pub(super) fn held(slots: &[(u32, Slot)]) -> impl Iterator<Item = u64> {
    slots.iter().filter_map(|(_, slot)| match slot.state() {
        SlotState::Held { ns } => Some(ns),
        SlotState::Nothing | SlotState::InCall { .. } => None,
    })
}

/// The counters of all CPUs. What is in flight, and what was missed, is not among them.
pub(super) fn ledger<'a>(regions: impl Iterator<Item = Region<'a>>, held: &[u64]) -> Ledger {
    let mut ledger = Ledger { recorded: held.len() as u64, ..Ledger::default() };
    for region in regions {
        ledger.entered += region.get(Counter::Entered);
        ledger.recorded += region.get(Counter::Recorded);
        ledger.ended_without_exit += region.get(Counter::EndedWithoutExit);
        ledger.exits_without_start += region.get(Counter::ExitWithoutStart);
        ledger.restarted += region.get(Counter::Restarted);
        ledger.lost = Lost {
            store_full: ledger.lost.store_full + region.get(Counter::StoreFull),
            exit_missed: ledger.lost.exit_missed + region.get(Counter::ExitMissed),
            negative: ledger.lost.negative + region.get(Counter::Negative),
        };
    }
    ledger
}

/// The buckets of all CPUs, and what was held back.
pub(super) fn histogram<'a>(regions: impl Iterator<Item = Region<'a>>, held: &[u64]) -> Histogram {
    let mut all = Histogram::new();
    for region in regions {
        let mut one = Histogram::new();
        for (index, count) in region.buckets().enumerate() {
            one.add_bucket(index, count);
        }
        if one.count() > 0 {
            one.sum_ns = region.get(Counter::SumNs);
            one.min_ns = Some(region.get(Counter::MinNs));
            one.max_ns = Some(region.get(Counter::MaxNs));
        }
        all.merge(&one);
    }
    for ns in held {
        all.record(*ns);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::latency::layout::{BUCKETS_OFFSET, REGION_WORDS};

    fn region(recorded: u64, bucket: usize, sum: u64, min: u64, max: u64) -> Vec<AtomicU64> {
        let mut words = vec![0; REGION_WORDS];
        words[Counter::Entered as usize] = recorded + 1;
        words[Counter::Recorded as usize] = recorded;
        words[Counter::SumNs as usize] = sum;
        words[Counter::MinNs as usize] = min;
        words[Counter::MaxNs as usize] = max;
        words[Counter::Negative as usize] = 1;
        words[BUCKETS_OFFSET as usize / 8 + bucket] = recorded;
        words.into_iter().map(AtomicU64::new).collect()
    }

    #[test]
    fn cpus_and_held_calls_add_up() {
        let used = [region(2, 3, 6_500, 3_100, 3_400), region(1, 5, 5_000, 5_000, 5_000)];
        let idle = region(0, 0, 0, u64::MAX, 0);
        let all = || used.iter().chain([&idle]).map(|words| Region::new(words));
        let slots = [
            (1, Slot::default()),
            (2, Slot { start_ns: 2, descriptor: 0, held_ns: 9_000 }),
            (3, Slot { start_ns: 99, ..Slot::default() }),
        ];
        let held: Vec<u64> = held(&slots).collect();
        assert_eq!(held, [9_000]);

        let ledger = ledger(all(), &held);
        assert_eq!((ledger.entered, ledger.recorded, ledger.lost.negative), (6, 4, 3));
        let histogram = histogram(all(), &held);
        assert_eq!(histogram.count(), 4);
        assert_eq!(histogram.sum_ns, 20_500);
        assert_eq!((histogram.min_ns, histogram.max_ns), (Some(3_100), Some(9_000)));
    }
}
