//! `rlat survey PID...` and `rlat survey -- CMD`: every system call of a process for a while, and a table
//! of them.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use super::measure::{
    command_subject, give_up, kernel, launch, open_processes, pass_on, print_notes,
    wait_for_command,
};
use super::output::Output;
use super::progress::{INTERVAL, Progress};
use super::ready::Ready;
use super::run_statistics::{RunStatistics, let_go};
use super::say;
use super::signals::Signals;
use crate::cli::SurveyArgs;
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::escape::escape;
use crate::latency::{ClosedBy, Subject, wait};
use crate::process::Launch;
use crate::report::numbers::time;
use crate::report::survey;
use crate::survey::Survey;

/// Surveys, and prints what was found. `started` is when the program began, for `-v`. Returns the exit
/// status of the command, if one was started, else 0.
pub(super) fn survey(args: &SurveyArgs, started: Instant) -> Result<u8> {
    // Before signals are caught: the command is to find them as rlat found them.
    let mut command = launch(&args.start, args.user.as_deref())?;
    let signals = Signals::install()?;
    let subject = if let Some(command) = &command {
        command_subject(args.follow, command)?
    } else {
        let targets = open_processes(args.processes.iter().copied())?;
        if args.follow { Subject::Family(targets) } else { Subject::Processes(targets) }
    };
    let result = survey_subject(args, &subject, command.as_mut(), &signals, started);
    match &mut command {
        // As for a measurement: whatever became of it, the command goes on, and rlat stays with it.
        Some(command) if command.has_started() => {
            let status = wait_for_command(command, &subject, &signals);
            result.and(status)
        }
        _ => result.map(|()| 0),
    }
}

fn survey_subject(
    args: &SurveyArgs,
    subject: &Subject,
    mut command: Option<&mut Launch>,
    signals: &Signals,
    started: Instant,
) -> Result<()> {
    let ready = Ready::claim(None)?;
    let mut verbose = |text: String| {
        if args.verbose {
            say(&text);
        }
    };
    let mut survey = Survey::attach(subject, &mut verbose)?;
    verbose(format!("attached {} after the start", time(started.elapsed().as_nanos())));
    if args.verbose {
        for (program, log) in survey.verifier_logs()? {
            say(&format!("the verifier on {program}:\n{log}"));
        }
    }

    let statistics = args.verbose.then(RunStatistics::begin);
    survey.open();
    let opened = Instant::now();
    ready.tell();
    if command.is_none() {
        print_notes(subject, &[]);
    }
    print_subject(subject);
    verbose(format!("the window opened {} after the start", time(started.elapsed().as_nanos())));
    if let Some(command) = &mut command {
        command.start()?;
        survey.look_for_32_bit();
    }
    let mut output = Output::open(None, command.is_some())?;
    let given_up = give_up(subject, command.as_deref(), &output, args.verbose, &survey.loaded());
    verbose(given_up.to_string());
    let deadline = Some(args.duration).filter(|time| !time.is_zero()).map(|time| opened + time);
    // A command may draw on the terminal itself.
    let progress = command.is_none().then(|| Progress::on_terminal(deadline)).flatten();
    let closed_by =
        wait_with_progress(subject, &|| survey.recorded(), progress.as_ref(), deadline, signals)?;
    drop(progress);
    let closing = Instant::now();
    let findings = survey.close(closed_by)?;
    if let (Some(command), ClosedBy::Signal) = (&command, closed_by) {
        pass_on(signals, command);
    }
    verbose(format!("the window closed after {}", time(findings.window.as_nanos())));

    // Before the programs are detached, as for a measurement.
    let result = output.write_result(&survey::survey(&findings));
    let_go(survey, Survey::loaded, statistics, closing);
    result
}

/// Waits for the window's end, and shows with `progress` how far it is and how many calls have been
/// recorded.
fn wait_with_progress(
    subject: &Subject,
    recorded: &dyn Fn() -> u64,
    progress: Option<&Progress>,
    deadline: Option<Instant>,
    signals: &Signals,
) -> Result<ClosedBy> {
    let mut show = || {
        if let Some(progress) = progress {
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
