//! `rlat survey PID...`: every system call of a process for a while, and a table of them.

use std::io::{self, IsTerminal as _};
use std::time::Instant;

use super::measure::{failed, kernel, open_processes, print_notes, wait_with_progress};
use super::output::Output;
use super::say;
use super::signals::Signals;
use crate::cli::SurveyArgs;
use crate::error::Result;
use crate::latency::Subject;
use crate::process::Status;
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

    survey.open();
    let opened = Instant::now();
    verbose(format!("the window opened {} after the start", time(started.elapsed().as_nanos())));
    let deadline = Some(args.duration).filter(|time| !time.is_zero()).map(|time| opened + time);
    let closed_by = wait_with_progress(&subject, &|| survey.recorded(), deadline, true, &signals)?;
    let findings = survey.close(closed_by)?;
    verbose(format!("the window closed after {}", time(findings.window.as_nanos())));

    // Before the programs are detached, as for a measurement.
    let result = Output::open(None, false)?.write_result(&survey::survey(&findings));
    let before_detaching = Instant::now();
    drop(survey);
    verbose(format!("detached in {}", time(before_detaching.elapsed().as_nanos())));
    if let Some(kib) = Status::read_own().ok().and_then(|status| status.peak_memory_kib) {
        verbose(format!("peak memory: {kib} KiB"));
    }
    result
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
