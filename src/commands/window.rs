//! What happens while the window is open: waiting, and showing what has come so far.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use super::intervals::Intervals;
use super::live::{self, Live};
use super::looks::Looks;
use super::output::{Output, is_quiet};
use super::progress::{INTERVAL, Progress};
use super::signals::Signals;
use crate::cli::{Format, MeasureArgs};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::latency::{ClosedBy, Measurement, Outcome, Snapshot, Subject, wait};
use crate::report::meta::Meta;
use crate::report::{View, csv, json, text};

/// An open window.
pub(super) struct Window<'a> {
    pub(super) subject: &'a Subject,
    pub(super) measurement: &'a Measurement<'a>,
    /// When it is to be closed; `None` means by a signal.
    pub(super) deadline: Option<Instant>,
    /// Whether there is no command, whose terminal would be its own.
    pub(super) alone: bool,
    pub(super) signals: &'a Signals,
}

/// What the output shows while the window is open, and at the end.
pub(super) struct Shown {
    format: Format,
    view: View,
    meanwhile: Meanwhile,
}

enum Meanwhile {
    Nothing,
    Intervals(Intervals),
    Live(Live),
}

impl Window<'_> {
    /// Waits until the window is to be closed, and says why; and whether all intervals were written.
    ///
    /// # Errors
    /// As poll(2).
    pub(super) fn wait(
        &self,
        shown: &mut Shown,
        looks: &mut Looks,
        output: &mut Output,
    ) -> Result<(ClosedBy, Result<()>)> {
        // Not beside the live histogram, which says the same.
        let progress = match shown.meanwhile {
            Meanwhile::Live(_) => None,
            _ if self.alone => Progress::on_terminal(self.deadline),
            _ => None,
        };
        loop {
            let due = [self.deadline, shown.due(), looks.due()].into_iter().flatten().min();
            let closed_by = self.wait_until(due, progress.as_ref())?;
            let is_over = self.deadline.is_some_and(|deadline| deadline <= Instant::now());
            if closed_by != ClosedBy::Time || is_over {
                looks.last(self.measurement.recorded());
                return Ok((closed_by, Ok(())));
            }
            looks.go_on(self.measurement.recorded());
            if shown.due().is_some_and(|due| due <= Instant::now()) {
                if progress.is_some() {
                    Progress::hide();
                }
                if let Err(error) = shown.update(self.measurement, output) {
                    return Ok((ClosedBy::Output, Err(error)));
                }
            }
        }
    }

    fn wait_until(&self, due: Option<Instant>, progress: Option<&Progress>) -> Result<ClosedBy> {
        let mut show = || {
            if let Some(progress) = progress {
                progress.show(self.measurement.recorded());
            }
        };
        let tick: Option<(Duration, &mut dyn FnMut())> =
            progress.is_some().then_some((INTERVAL, &mut show));
        wait(self.subject, due, self.signals.wake(), tick).map_err(|errno| Error {
            kind: Kind::Other,
            step: Step::Measure,
            object: "the calls: poll(2)".to_owned(),
            cause: Cause::Errno(errno),
            next: "measure again".to_owned(),
        })
    }
}

impl Shown {
    /// What the arguments ask for. `before` is what the histograms held before the window opened.
    pub(super) fn choose(
        args: &MeasureArgs,
        view: View,
        meta: &Meta,
        opened: Instant,
        deadline: Option<Instant>,
        before: Snapshot,
    ) -> Self {
        let format = args.format;
        // A command may draw there itself, and what is for programs is not to be drawn.
        let is_drawn = args.output.is_none() && args.start.is_empty() && format == Format::Text;
        let meanwhile = match args.interval_length() {
            None => Meanwhile::Nothing,
            Some(every) if args.live && is_drawn && live::is_possible() => {
                Meanwhile::Live(Live::new(every, view, opened, deadline))
            }
            Some(every) => {
                Meanwhile::Intervals(Intervals::new(every, (format, view), meta, opened, before))
            }
        };
        Self { format, view, meanwhile }
    }

    /// When there is something new to show.
    fn due(&self) -> Option<Instant> {
        match &self.meanwhile {
            Meanwhile::Nothing => None,
            Meanwhile::Intervals(intervals) => Some(intervals.due()),
            Meanwhile::Live(live) => Some(live.due()),
        }
    }

    fn update(&mut self, measurement: &Measurement<'_>, output: &mut Output) -> Result<()> {
        match &mut self.meanwhile {
            Meanwhile::Nothing => Ok(()),
            Meanwhile::Intervals(intervals) => intervals.print(measurement.snapshot(), output),
            // A terminal that is gone takes no result either, and with `-d 0` nothing else would end it.
            Meanwhile::Live(live) => output.draw(&live.draw(&measurement.snapshot())),
        }
    }

    /// Writes the result. `written` is how writing has gone so far: where the output took no more, the
    /// rest goes where the beginning went.
    ///
    /// # Errors
    /// As [`Output::write_result`].
    pub(super) fn finish(
        &mut self,
        meta: &Meta,
        outcome: &Outcome,
        written: Result<()>,
        output: &mut Output,
    ) -> Result<()> {
        let text = match &mut self.meanwhile {
            Meanwhile::Intervals(intervals) => intervals.finish(meta, outcome),
            Meanwhile::Live(live) if written.is_ok() => live.finish() + &self.whole(meta, outcome),
            Meanwhile::Nothing | Meanwhile::Live(_) => self.whole(meta, outcome),
        };
        if let Err(error) = written {
            if !is_quiet(&error) {
                let _ = io::stderr().write_all(text.as_bytes());
            }
            return Err(error);
        }
        output.write_result(&text)
    }

    /// The result without intervals.
    fn whole(&self, meta: &Meta, outcome: &Outcome) -> String {
        match self.format {
            Format::Text => text::measurement(outcome, self.view) + &text::note(meta),
            Format::Json => json::measurement(meta, outcome, self.view),
            Format::Csv => csv::measurement(outcome, self.view),
        }
    }
}
