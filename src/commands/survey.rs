//! `rlat survey PID...`: every system call of a process for a while, and a table of them.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use super::measure::{failed, kernel, open_processes, print_notes};
use super::output::Output;
use super::progress::{INTERVAL, Progress};
use super::run_statistics::{RunStatistics, let_go};
use super::say;
use super::signals::Signals;
use crate::cli::SurveyArgs;
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::latency::{ClosedBy, Subject, wait};
use crate::report::escape::escape;
use crate::report::numbers::time;
use crate::report::survey;
use crate::survey::Survey;

/// Surveys, and prints what was found. `started` is when the program began, for `-v`.
pub(super) fn survey(args: &SurveyArgs, started: Instant) -> Result<()> {
    let signals = Signals::install().map_err(|error| failed(&error, "install signal handlers"))?;
    let subject = Subject::Processes(open_processes(args.processes.iter().copied())?);
    print_notes(&subject, &[]);
    let mut verbose = |text: String| {
        if args.verbose {
            say(&text);
        }
    };
    let mut survey = Survey::attach(&subject, &mut verbose)?;
    verbose(format!("attached {} after the start", time(started.elapsed().as_nanos())));
    if args.verbose {
        for (program, log) in survey.verifier_logs()? {
            say(&format!("the verifier on {program}:\n{log}"));
        }
    }
    print_subject(&subject);

    let statistics = args.verbose.then(RunStatistics::begin);
    survey.open();
    let opened = Instant::now();
    verbose(format!("the window opened {} after the start", time(started.elapsed().as_nanos())));
    let deadline = Some(args.duration).filter(|time| !time.is_zero()).map(|time| opened + time);
    let closed_by = wait_with_progress(&subject, &|| survey.recorded(), deadline, &signals)?;
    let closing = Instant::now();
    let findings = survey.close(closed_by)?;
    verbose(format!("the window closed after {}", time(findings.window.as_nanos())));

    // Before the programs are detached, as for a measurement.
    let result = Output::open(None, false)?.write_result(&survey::survey(&findings));
    let_go(survey, Survey::loaded, statistics, closing);
    result
}

/// Waits for the window's end, and shows on a terminal how far it is and how many calls have been
/// recorded.
fn wait_with_progress(
    subject: &Subject,
    recorded: &dyn Fn() -> u64,
    deadline: Option<Instant>,
    signals: &Signals,
) -> Result<ClosedBy> {
    let progress = Progress::on_terminal(deadline);
    let mut show = || {
        if let Some(progress) = &progress {
            progress.show(recorded());
        }
    };
    let tick: Option<(Duration, &mut dyn FnMut())> =
        progress.is_some().then_some((INTERVAL, &mut show));
    wait(subject, deadline, signals.wake(), tick).map_err(|errno| Error {
        kind: Kind::Other,
        step: Step::Measure,
        object: "the calls: poll(2)".to_owned(),
        cause: Cause::Errno(errno),
        next: "measure again".to_owned(),
    })
}

/// On a terminal: who is being surveyed.
fn print_subject(subject: &Subject) {
    if !io::stderr().is_terminal() {
        return;
    }
    let kernel = kernel();
    for target in subject.targets() {
        let name = escape(target.name.as_bytes());
        let threads = match target.threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        say(&format!("all calls of {name} (process {}, {threads}) on {kernel}", target.pid));
    }
}
