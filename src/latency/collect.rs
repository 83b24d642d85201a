//! From the shared memory to the ledger and the histograms.

use std::collections::BTreeMap;
use std::time::Duration;

use super::in_flight::{self, Blocked};
use super::layout::{Counter, Region, Slot, SlotState};
use super::programs::Plan;
use super::regions::Regions;
use super::{Call, Ledger, Lost, Syscall};
use crate::histogram::{Histogram, Linear, LinearHistogram, Unit};

/// What is known after the window has closed.
pub(super) struct Closed<'a> {
    pub(super) plan: &'a Plan,
    pub(super) regions: &'a Regions,
    /// Each thread's slot, and its process, by the thread as we see it.
    pub(super) slots: &'a BTreeMap<u32, (u32, Slot)>,
    /// How many calls the threads that live have entered, where they count that themselves.
    pub(super) entered_by_living: u64,
    /// The threads that were blocked in a measured call just before, where that is known.
    pub(super) blocked: Option<&'a [Blocked]>,
    pub(super) now_ns: u64,
    pub(super) window: Duration,
}

impl Closed<'_> {
    /// Adds up what there is of one call, by its index.
    pub(super) fn call(&self, index: usize, syscall: &Syscall) -> Call {
        let Self { plan, regions, slots, entered_by_living, blocked, now_ns, window } = *self;
        let of_this = |slot: &Slot| slot.call == index as u64;
        let own = slots.values().map(|(_, slot)| *slot).filter(of_this);
        let held: Vec<u64> = held(own).collect();
        let entered =
            in_flight::entered(syscall, slots, now_ns, plan.keeps_argument(), blocked, of_this);

        let mut ledger = ledger(regions.of(index));
        let before = blocked
            .map(|blocked| in_flight::since_before(syscall, slots, blocked, window))
            // In a full store a slot may be missing for another reason.
            .filter(|calls| ledger.lost.store_full == 0 || calls.is_empty());
        ledger.entered += entered_by_living;
        ledger.recorded += held.len() as u64;
        ledger.in_flight = entered.len() as u64;
        ledger.in_flight_since_before = before.as_ref().map(|calls| calls.len() as u64);
        let mut linear = plan.linear.map(|edges| linear(regions.of(index), edges));
        let mut histogram = histogram(regions.of(index), plan.unit);
        if plan.returns.include_interrupted() {
            for ns in held {
                histogram.record(ns);
                if let Some(linear) = &mut linear {
                    linear.record(ns / plan.unit.nanos());
                }
            }
        } else {
            ledger.excluded += held.len() as u64;
        }
        Call {
            syscall: syscall.name.clone(),
            histogram,
            linear,
            ledger,
            in_flight: entered.into_iter().chain(before.into_iter().flatten()).collect(),
        }
    }
}

/// The latencies that were still held back when the window closed: their threads live.
pub(super) fn held(slots: impl Iterator<Item = Slot>) -> impl Iterator<Item = u64> {
    slots.filter_map(|slot| match slot.state() {
        SlotState::Held { ns } => Some(ns),
        SlotState::Nothing | SlotState::InCall { .. } => None,
    })
}

/// The counters of all CPUs. What is in flight or held back is not among them.
pub(super) fn ledger<'a>(regions: impl Iterator<Item = Region<'a>>) -> Ledger {
    let mut ledger = Ledger::default();
    let mut errors: Vec<u64> = Vec::new();
    for region in regions {
        ledger.entered += region.get(Counter::Entered) + region.get(Counter::EntryMissed);
        ledger.recorded += region.recorded();
        ledger.ended_without_exit += region.get(Counter::EndedWithoutExit);
        ledger.exits_without_start += region.get(Counter::ExitWithoutStart);
        ledger.restarted += region.get(Counter::Restarted);
        ledger.excluded += region.get(Counter::Excluded);
        ledger.returned_zero += region.get(Counter::ReturnedZero);
        ledger.returned_error += region.get(Counter::ReturnedError);
        ledger.lost = Lost {
            store_full: ledger.lost.store_full + region.get(Counter::StoreFull),
            exit_missed: ledger.lost.exit_missed + region.get(Counter::ExitMissed),
            entry_missed: ledger.lost.entry_missed + region.get(Counter::EntryMissed),
            negative: ledger.lost.negative + region.get(Counter::Negative),
        };
        let here = region.errnos();
        errors = zip_longest(errors, here.collect());
    }
    ledger.errors = (0..).zip(errors).filter(|(_, count)| *count > 0).collect();
    ledger
}

fn zip_longest(mut sums: Vec<u64>, more: Vec<u64>) -> Vec<u64> {
    sums.resize(sums.len().max(more.len()), 0);
    for (sum, count) in sums.iter_mut().zip(more) {
        *sum += count;
    }
    sums
}

/// The logarithmic buckets of all CPUs.
pub(super) fn histogram<'a>(regions: impl Iterator<Item = Region<'a>>, unit: Unit) -> Histogram {
    let mut all = Histogram::new(unit);
    for region in regions {
        let mut one = Histogram::new(unit);
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
    all
}

/// The linear buckets of all CPUs.
pub(super) fn linear<'a>(
    regions: impl Iterator<Item = Region<'a>>,
    edges: Linear,
) -> LinearHistogram {
    let mut all = LinearHistogram::new(edges);
    for region in regions {
        for (index, count) in region.linear().take(edges.bucket_count()).enumerate() {
            all.add_bucket(index, count);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::latency::layout::{BUCKETS_OFFSET, ERRNOS_OFFSET, LINEAR_OFFSET, region_words};

    fn region(recorded: u64, bucket: usize, sum: u64, min: u64, max: u64) -> Vec<AtomicU64> {
        let mut words = vec![0; region_words(4)];
        words[Counter::Entered as usize] = recorded + 1;
        words[Counter::SumNs as usize] = sum;
        words[Counter::MinNs as usize] = min;
        words[Counter::MaxNs as usize] = max;
        words[Counter::Negative as usize] = 1;
        words[ERRNOS_OFFSET as usize / 8 + 11] = recorded;
        words[BUCKETS_OFFSET as usize / 8 + bucket] = recorded;
        words[LINEAR_OFFSET as usize / 8 + 1] = recorded;
        words.into_iter().map(AtomicU64::new).collect()
    }

    #[test]
    fn cpus_add_up() {
        let used = [region(2, 3, 6_500, 3_100, 3_400), region(1, 5, 5_000, 5_000, 5_000)];
        let idle = region(0, 0, 0, u64::MAX, 0);
        let all = || used.iter().chain([&idle]).map(|words| Region::new(words));

        let ledger = ledger(all());
        assert_eq!((ledger.entered, ledger.recorded, ledger.lost.negative), (6, 3, 3));
        assert_eq!(ledger.errors, [(11, 3)]);
        let histogram = histogram(all(), Unit::Us);
        assert_eq!((histogram.count(), histogram.sum_ns), (3, 11_500));
        assert_eq!((histogram.min_ns, histogram.max_ns), (Some(3_100), Some(5_000)));
        let rows = linear(all(), Linear::new(0, 20, 10).unwrap()).rows();
        assert_eq!(rows.iter().map(|row| row.count).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn only_held_calls_are_held() {
        let slots = [
            Slot::default(),
            Slot { start_ns: 2, held_ns: 9_000, ..Slot::default() },
            Slot { start_ns: 99, ..Slot::default() },
        ];
        assert_eq!(held(slots.into_iter()).collect::<Vec<_>>(), [9_000]);
    }
}
