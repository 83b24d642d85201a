//! What a survey found: from the shared memory to a line for each call.

use std::time::Duration;

use super::InFlight;
use super::layout::{Counter, NO_CALL, OTHER, ROWS, Row, call_name, histogram_bucket, row_of};
use crate::histogram::{Histogram, Unit};
use crate::latency::layout::{Slot, SlotState};
use crate::latency::{ClosedBy, Ledger, Lost, MissedRuns, Unfollowed};

/// The whole result of a survey.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The system calls that entered or returned, those with the greatest total time first.
    pub calls: Vec<SurveyedCall>,
    /// Where every call that entered has gone, all of them together. It has no errors by name.
    pub ledger: Ledger,
    /// Returns of calls that had not entered, of threads that had been seen before: a seccomp filter
    /// or a tracer refuses a call before it passes the tracepoint of entries, but not that of exits.
    /// If the kernel skipped the program at the entry, as often as that can be the cause, too.
    pub not_entered: u64,
    /// The calls that had not returned when the window closed.
    pub in_flight: Vec<InFlight>,
    /// How often the kernel skipped one of the programs, or `None` where it does not say.
    pub missed_runs: Option<MissedRuns>,
    /// Children that may be missing, where children were to be followed.
    pub unfollowed: Option<Unfollowed>,
    /// Processes that turned into a 32-bit program while the window was open, so that the names of
    /// their calls may be wrong.
    pub turned_32_bit: Vec<u32>,
    /// How long the window was open.
    pub window: Duration,
    /// What closed it.
    pub closed_by: ClosedBy,
}

/// What was found about one system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedCall {
    /// Its name; `#471` if it is too new to have one here; `other` for all whose number is none of
    /// this kernel's own table.
    pub name: String,
    /// The latencies of those that returned, in ns; their count is the number of calls.
    pub histogram: Histogram,
    /// How many of them returned an error, or were interrupted by a signal.
    pub errors: u64,
    /// Calls whose thread ended inside of them: for exit and exit_group all.
    pub ended_without_exit: u64,
}

/// Adds up the rows of all regions, in their order, and the slots: by the time the window has closed,
/// the latter hold what is in flight, and calls of living threads that a signal interrupted. The
/// calls in `ended` ended without an exit, and no program counted that.
///
/// Of the ledger, what was in flight before the window is left to the caller.
pub(super) fn add_up<'a>(
    rows: impl Iterator<Item = Row<'a>>,
    slots: &[Slot],
    ended: &[Slot],
) -> (Vec<SurveyedCall>, Ledger, u64) {
    let mut sums: Vec<Sum> = (0..ROWS).map(|_| Sum::default()).collect();
    for (index, row) in rows.enumerate() {
        sums[index % ROWS as usize].add(row);
    }
    let mut ledger = Ledger::default();
    for slot in slots {
        match slot.state() {
            SlotState::Nothing => {}
            SlotState::Held { ns } => sums[row_of(*slot)].add_held(ns),
            SlotState::InCall { .. } => ledger.in_flight += 1,
        }
    }
    for slot in ended {
        sums[row_of(*slot)].counters[Counter::EndedWithoutExit as usize] += 1;
    }
    for sum in &sums {
        ledger.entered += sum.get(Counter::Entered);
        ledger.recorded += sum.get(Counter::Recorded);
        ledger.returned_error += sum.get(Counter::Errors);
        ledger.ended_without_exit += sum.get(Counter::EndedWithoutExit);
        ledger.exits_without_start += sum.get(Counter::ExitWithoutStart);
        ledger.restarted += sum.get(Counter::Restarted);
        ledger.lost = Lost {
            store_full: ledger.lost.store_full + sum.get(Counter::StoreFull),
            exit_missed: ledger.lost.exit_missed + sum.get(Counter::ExitMissed),
            negative: ledger.lost.negative + sum.get(Counter::Negative),
            // Of an exit without an entry it is not known what kept the entry from being seen.
            entry_missed: 0,
        };
    }
    let not_entered = sums[NO_CALL as usize].get(Counter::ExitNotEntered);
    let mut calls: Vec<SurveyedCall> =
        (0..=OTHER).zip(sums).filter_map(|(number, sum)| sum.into_call(number)).collect();
    calls.sort_by(|one, other| {
        let rank = |call: &SurveyedCall| (call.histogram.sum_ns, call.histogram.count());
        rank(other).cmp(&rank(one)).then_with(|| one.name.cmp(&other.name))
    });
    (calls, ledger, not_entered)
}

/// The rows of one call in all regions.
#[derive(Default)]
struct Sum {
    counters: [u64; Counter::ExitNotEntered as usize + 1],
    /// Made for the few calls that a process makes.
    histogram: Option<Histogram>,
}

impl Sum {
    fn get(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    fn add(&mut self, row: Row<'_>) {
        for (sum, counter) in self.counters.iter_mut().zip(COUNTERS) {
            *sum += row.get(counter);
        }
        if row.get(Counter::Recorded) == 0 {
            return;
        }
        let mut here = Histogram::new(Unit::Ns);
        for (index, count) in row.buckets().enumerate() {
            here.add_bucket(histogram_bucket(index), count);
        }
        here.sum_ns = row.get(Counter::SumNs);
        here.max_ns = Some(row.get(Counter::MaxNs));
        self.histogram.get_or_insert_with(|| Histogram::new(Unit::Ns)).merge(&here);
    }

    /// A call that a signal interrupted, of a thread that has outlived it.
    fn add_held(&mut self, ns: u64) {
        self.counters[Counter::Recorded as usize] += 1;
        self.counters[Counter::Errors as usize] += 1;
        self.histogram.get_or_insert_with(|| Histogram::new(Unit::Ns)).record(ns);
    }

    fn into_call(self, number: u32) -> Option<SurveyedCall> {
        let ended_without_exit = self.get(Counter::EndedWithoutExit);
        if self.get(Counter::Entered) == 0 && self.histogram.is_none() {
            return None;
        }
        Some(SurveyedCall {
            name: call_name(number.into()),
            errors: self.get(Counter::Errors),
            ended_without_exit,
            histogram: self.histogram.unwrap_or_else(|| Histogram::new(Unit::Ns)),
        })
    }
}

/// All counters of a row, in their order.
const COUNTERS: [Counter; 12] = [
    Counter::Entered,
    Counter::Recorded,
    Counter::Errors,
    Counter::SumNs,
    Counter::MaxNs,
    Counter::EndedWithoutExit,
    Counter::StoreFull,
    Counter::ExitMissed,
    Counter::Negative,
    Counter::Restarted,
    Counter::ExitWithoutStart,
    Counter::ExitNotEntered,
];

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::survey::layout::{BUCKETS_OFFSET, ROW_WORDS, call_number};

    #[test]
    fn counters_stand_in_their_order() {
        for (index, counter) in COUNTERS.into_iter().enumerate() {
            assert_eq!(counter as usize, index);
        }
    }

    /// The rows of one region, where these calls were recorded: number, count, ns of each, bucket.
    fn region(calls: &[(u32, u64, u64, usize)]) -> Vec<Vec<AtomicU64>> {
        let mut rows = vec![vec![0; ROW_WORDS]; ROWS as usize];
        for &(number, count, ns, bucket) in calls {
            let row = &mut rows[number as usize];
            row[Counter::Entered as usize] = count;
            row[Counter::Recorded as usize] = count;
            row[Counter::SumNs as usize] = count * ns;
            row[Counter::MaxNs as usize] = ns;
            row[BUCKETS_OFFSET as usize / 8 + bucket] = count;
        }
        rows.into_iter().map(|row| row.into_iter().map(AtomicU64::new).collect()).collect()
    }

    #[test]
    fn regions_and_held_calls_add_up_and_the_longest_comes_first() {
        let [read, write] = ["read", "write"].map(|name| call_number(name).unwrap() as u32);
        let regions =
            [region(&[(read, 2, 15, 15), (write, 1, 20, 18)]), region(&[(read, 1, 9, 9)])];
        let slots = [
            Slot { start_ns: 2, held_ns: 500, call: write.into(), ..Slot::default() },
            Slot { start_ns: 77, call: u64::MAX, ..Slot::default() },
            Slot::default(),
        ];
        let rows = regions.iter().flatten().map(|words| Row::new(words));
        let execve = Slot { call: call_number("execve").unwrap(), ..Slot::default() };
        let (calls, ledger, not_entered) = add_up(rows, &slots, &[execve]);

        let found: Vec<_> = calls
            .iter()
            .map(|call| (&*call.name, call.histogram.count(), call.histogram.sum_ns, call.errors))
            .collect();
        assert_eq!(found, [("write", 2, 520, 1), ("read", 3, 39, 0)]);
        assert_eq!(calls[0].histogram.max_ns, Some(500));
        assert_eq!(calls[1].histogram.quantile_permille(500), Some(15));
        assert_eq!((ledger.entered, ledger.recorded, ledger.in_flight), (4, 5, 1));
        assert_eq!(ledger.ended_without_exit, 1);
        assert_eq!(not_entered, 0);
    }
}
