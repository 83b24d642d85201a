//! `rlat PID [FD]`: measure for a while, print what was found.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use nix::sys::utsname::uname;

use super::output::write_result;
use super::progress::{INTERVAL, Progress};
use super::say;
use super::signals::Signals;
use crate::cli::MeasureArgs;
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::latency::{ClosedBy, Measurement, Request, wait};
use crate::process::{Status, Target, descriptor_target, is_open};
use crate::report::escape::escape;
use crate::report::numbers::time;
use crate::report::text;
use crate::tracefs::Tracefs;

/// Measures, and prints what was found. `started` is when the program began, for `-v`.
pub(super) fn measure(args: &MeasureArgs, started: Instant) -> Result<()> {
    let signals = Signals::install().map_err(|error| failed(&error, "install signal handlers"))?;
    let target = Target::open(args.pid.unwrap_or_default())?;
    print_notes(args, &target);
    let tracefs = Tracefs::open(args.tracefs.as_deref())?;
    let request = Request { target: &target, descriptor: args.descriptor, tracefs: &tracefs };
    let mut verbose = |text: String| {
        if args.verbose {
            say(&text);
        }
    };
    let mut measurement = Measurement::attach(request, &mut verbose)?;
    verbose(format!("attached {} after the start", time(started.elapsed().as_nanos())));
    if args.verbose {
        for (program, log) in measurement.verifier_logs()? {
            say(&format!("the verifier on {program}:\n{log}"));
        }
    }
    print_subject(args, &target);

    measurement.open();
    let opened = Instant::now();
    verbose(format!("the window opened {} after the start", time(started.elapsed().as_nanos())));
    let deadline = Some(args.duration).filter(|time| !time.is_zero()).map(|time| opened + time);
    let closed_by = wait_with_progress(&target, &measurement, deadline, &signals)?;
    let outcome = measurement.close(closed_by)?;
    verbose(format!("the window closed after {}", time(outcome.window.as_nanos())));

    // Before the programs are detached: that waits for the kernel, and a user waits for the numbers.
    let result = write_result(&text::measurement(&outcome));
    let before_detaching = Instant::now();
    drop(measurement);
    verbose(format!("detached in {}", time(before_detaching.elapsed().as_nanos())));
    if let Some(kib) = Status::read_own().ok().and_then(|status| status.peak_memory_kib) {
        verbose(format!("peak memory: {kib} KiB"));
    }
    result
}

fn wait_with_progress(
    target: &Target,
    measurement: &Measurement<'_>,
    deadline: Option<Instant>,
    signals: &Signals,
) -> Result<ClosedBy> {
    let progress = Progress::on_terminal(deadline);
    let mut show = || {
        if let Some(progress) = &progress {
            progress.show(measurement.recorded());
        }
    };
    let tick: Option<(Duration, &mut dyn FnMut())> =
        progress.is_some().then_some((INTERVAL, &mut show));
    wait(target, deadline, signals.wake(), tick).map_err(|errno| Error {
        kind: Kind::Other,
        step: Step::Measure,
        object: "read() calls: poll(2)".to_owned(),
        cause: Cause::Errno(errno),
        next: "measure again".to_owned(),
    })
}

/// What a user may have meant otherwise. Shown in any case, unlike the progress.
fn print_notes(args: &MeasureArgs, target: &Target) {
    if target.requested != target.pid {
        say(&format!(
            "rlat: note: {} is a thread of process {}: all threads of the process are measured",
            target.requested, target.pid
        ));
    }
    if let Some(fd) = args.descriptor
        && is_open(target.pid, fd) == Some(false)
    {
        say(&format!(
            "rlat: note: process {} has no descriptor {fd} open now: `ls -l /proc/{}/fd` lists them",
            target.pid, target.pid
        ));
    }
}

/// On a terminal: what is being measured.
fn print_subject(args: &MeasureArgs, target: &Target) {
    if !io::stderr().is_terminal() {
        return;
    }
    let threads = match target.threads {
        1 => "1 thread".to_owned(),
        more => format!("{more} threads"),
    };
    let kernel = uname().map_or_else(
        |_| "an unknown kernel".to_owned(),
        |name| format!("Linux {}", name.release().to_string_lossy()),
    );
    let name = escape(target.name.as_bytes());
    say(&format!("read() of {name} (process {}, {threads}) on {kernel}", target.pid));
    if let Some(fd) = args.descriptor {
        let leads_to = descriptor_target(target.pid, fd).unwrap_or_else(|| "not open now".into());
        say(&format!("descriptor {fd}: {}", escape(leads_to.as_bytes())));
    }
}

fn failed(error: &io::Error, what: &str) -> Error {
    Error {
        kind: Kind::Other,
        step: Step::Measure,
        object: format!("read() calls: {what}"),
        cause: Cause::Text(error.to_string()),
        next: "allow more open files: `ulimit -n 64` is enough for rlat".to_owned(),
    }
}
