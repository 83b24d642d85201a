//! Printing each interval by itself, as bpftrace does with `interval:s:1 { time(); print(@); clear(@); }`,
//! but so that no call is lost between the printing and the clearing.

use std::time::{Duration, Instant, SystemTime};

use super::output::Output;
use crate::cli::Format;
use crate::error::Result;
use crate::latency::{Outcome, Snapshot};
use crate::report::meta::Meta;
use crate::report::{Interval, View, csv, json, text};

/// What has been printed so far, and when the next interval ends.
pub(super) struct Intervals {
    format: Format,
    view: View,
    /// What stands before the first interval, until that is printed.
    heading: String,
    opened: Instant,
    every: Duration,
    /// What the histograms held at the end of the last interval.
    last: Snapshot,
    /// When that was, since the window opened.
    last_end: Duration,
    /// How many there have been.
    count: u64,
}

impl Intervals {
    /// `before` is what the histograms held before the window opened: nothing.
    pub(super) fn new(
        every: Duration,
        (format, view): (Format, View),
        meta: &Meta,
        opened: Instant,
        before: Snapshot,
    ) -> Self {
        let heading = match format {
            Format::Text => String::new(),
            Format::Json => json::meta_line(meta),
            Format::Csv => csv::INTERVALS_HEADING.to_owned(),
        };
        let last_end = Duration::ZERO;
        Self { format, view, heading, opened, every, last: before, last_end, count: 0 }
    }

    /// When the next interval ends: at a multiple of its length, so that delays do not add up.
    pub(super) fn due(&self) -> Instant {
        self.opened + next_multiple(self.last_end, self.every)
    }

    /// Prints the interval that ends now.
    ///
    /// # Errors
    /// As [`Output::write_part`].
    pub(super) fn print(&mut self, now: Snapshot, output: &mut Output) -> Result<()> {
        output.write_part(&self.next(now, self.opened.elapsed()))
    }

    /// The last interval, which ended with the window, and the total.
    pub(super) fn finish(&mut self, meta: &Meta, outcome: &Outcome) -> String {
        let last = self.next(Snapshot::from(outcome), outcome.window);
        let total = match self.format {
            Format::Text => {
                let intervals = if self.count == 1 { "interval" } else { "intervals" };
                let heading = format!("total: {} {intervals}\n", self.count);
                heading + &text::measurement(outcome, self.view) + &text::note(meta)
            }
            Format::Json => json::total(self.count, outcome, self.view),
            Format::Csv => csv::total(outcome, self.view),
        };
        last + &total
    }

    fn next(&mut self, now: Snapshot, end: Duration) -> String {
        self.count += 1;
        let interval = Interval {
            number: self.count,
            start: self.last_end,
            end,
            ended: SystemTime::now(),
            counted: now.since(&self.last),
        };
        (self.last, self.last_end) = (now, end);
        let text = match self.format {
            Format::Text => text::interval(&interval, self.view),
            Format::Json => json::interval(&interval, self.view),
            Format::Csv => csv::interval(&interval, self.view),
        };
        std::mem::take(&mut self.heading) + &text
    }
}

/// The first multiple of `step` after `time`. Those that were slept through are left out.
fn next_multiple(time: Duration, step: Duration) -> Duration {
    let (time, step) = (time.as_nanos(), step.as_nanos());
    let next = time.checked_div(step).map_or(u128::MAX, |steps| (steps + 1) * step);
    Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_end_at_multiples() {
        let millis = Duration::from_millis;
        for (time, next) in [(0, 300), (299, 300), (300, 600), (301, 600), (1000, 1200)] {
            assert_eq!(next_multiple(millis(time), millis(300)), millis(next), "{time}");
        }
        assert_eq!(next_multiple(millis(1), Duration::ZERO), Duration::from_nanos(u64::MAX));
    }
}
