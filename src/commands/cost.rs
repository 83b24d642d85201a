//! `rlat cost PID` and `rlat cost -- CMD`: what the tracing costs here.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use super::measure::{open_processes, require_descriptors};
use super::output::write_listing;
use super::progress::draw;
use super::say;
use super::signals::Signals;
use crate::calibration::{Calibration, USUAL_LENGTH};
use crate::cli::{CostArgs, CostFormat};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::histogram::Unit;
use crate::latency::{
    Chosen, ClosedBy, Measurement, Needs, Request, Returns, Subject, choose, wait,
};
use crate::process::{Launch, Target};
use crate::report::cost::{self, Rates, Runs};
use crate::survey::Survey;

/// How long the calls of a process are counted.
const WATCHED_FOR: Duration = Duration::from_secs(1);

/// Relates a calibration to the process or to the command. Returns the exit status of a command that
/// failed, else 0.
pub(super) fn cost(args: &CostArgs) -> Result<u8> {
    let mut verbose = |text: String| {
        if args.verbose {
            say(&text);
        }
    };
    let targets = open_processes(args.process.into_iter())?;
    let needs = Needs {
        tracefs: args.tracefs.as_deref(),
        syscalls: &args.syscalls,
        descriptors: !args.descriptors.is_empty(),
        follow: args.follow,
    };
    let chosen = choose(args.attach.into(), needs)?;
    verbose(chosen.describe());
    require_descriptors(&chosen.syscalls, &args.descriptors)?;

    let subject = subject(args, targets);
    let calibrate = || Calibration::measure(&request(args, &chosen, &subject), USUAL_LENGTH);
    let (calibration, text, json) = if args.start.is_empty() {
        let rates = watch(args, &chosen, &subject, &mut verbose)?;
        let calibration = calibrate()?;
        let json = cost::rates_json(&rates, &calibration);
        (calibration, cost::rates_text(&rates, &calibration), json)
    } else {
        let runs = match run_in_turn(args, &chosen)? {
            Ran::Always(runs) => runs,
            Ran::Failed(status) => {
                say(&format!(
                    "rlat: the command ended with exit status {status}: nothing to compare\n  next: \
                     run it by itself to see what it says"
                ));
                return Ok(status);
            }
        };
        let calibration = calibrate()?;
        let json = cost::runs_json(&runs, &calibration);
        (calibration, cost::runs_text(&runs, &calibration), json)
    };
    write_listing(&match args.format {
        CostFormat::Text => cost::calibration_text(&calibration) + &text,
        CostFormat::Json => cost::calibration_json(&calibration) + &json,
    })?;
    Ok(0)
}

fn subject(args: &CostArgs, targets: Vec<Target>) -> Subject {
    if args.follow { Subject::Family(targets) } else { Subject::Processes(targets) }
}

/// A measurement as `rlat` itself would make it.
fn request<'a>(args: &CostArgs, chosen: &'a Chosen, subject: &'a Subject) -> Request<'a> {
    Request {
        subject,
        syscalls: chosen.syscalls.clone(),
        descriptors: args.descriptors.clone(),
        returns: Returns::Any,
        unit: Unit::Us,
        linear: None,
        way: chosen.way,
        tracefs: chosen.tracefs.as_ref(),
        starts: None,
    }
}

/// Counts the calls of the process: those that are measured, and all.
fn watch(
    args: &CostArgs,
    chosen: &Chosen,
    subject: &Subject,
    verbose: &mut dyn FnMut(String),
) -> Result<Rates> {
    let [target, ..] = subject.targets() else { return Err(failed("there is no process")) };
    // The survey knows no children.
    let alone = Subject::Processes(open_processes([target.pid].into_iter())?);
    let signals = Signals::install()?;
    let mut survey = Survey::attach(&alone, verbose)?;
    let mut measurement = Measurement::attach(request(args, chosen, subject), verbose)?;
    let cpu_time_before = cpu_time(target.pid);
    measurement.open();
    survey.open();
    let deadline = Some(Instant::now() + WATCHED_FOR);
    wait(subject, deadline, signals.wake(), None)
        .map_err(|errno| failed(&format!("poll(2): {errno}")))?;
    let cpu_time_after = cpu_time(target.pid);
    let outcome = measurement.close(ClosedBy::Time)?;
    let findings = survey.close(ClosedBy::Time)?;
    let measured = outcome.calls.iter().map(|call| call.ledger.entered).sum();
    Ok(Rates {
        pid: target.pid,
        name: target.name.clone(),
        window: outcome.window,
        measured,
        others: findings.ledger.entered.saturating_sub(measured),
        cpu_time: cpu_time_before
            .zip(cpu_time_after)
            .map(|(before, after)| after.saturating_sub(before)),
    })
}

/// The CPU time that all threads of the process have used so far.
fn cpu_time(pid: u32) -> Option<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(pid).ok()?)).ok()?;
    clock_gettime(clock).ok().map(Duration::from)
}

/// What became of all runs.
enum Ran {
    Always(Runs),
    /// The exit status of the first that failed.
    Failed(u8),
}

fn run_in_turn(args: &CostArgs, chosen: &Chosen) -> Result<Ran> {
    let mut runs = Runs { pairs: Vec::new(), calls: Vec::new() };
    let progress = io::stderr().is_terminal();
    for pair in 1..=args.runs {
        if progress {
            draw(&format!("pair {pair} of {}", args.runs));
        }
        // Each pair in the other order than the last: what comes second finds warm caches.
        let order = if pair % 2 == 1 { [false, true] } else { [true, false] };
        let [mut without, mut with] = [Duration::ZERO; 2];
        for traced in order {
            let run = run(args, chosen, traced)?;
            if run.status != 0 {
                return Ok(Ran::Failed(run.status));
            }
            if traced {
                with = run.took;
                runs.calls.push(run.calls);
            } else {
                without = run.took;
            }
        }
        runs.pairs.push((without, with));
    }
    if progress {
        draw("");
    }
    Ok(Ran::Always(runs))
}

/// One run of the command.
struct Run {
    took: Duration,
    status: u8,
    /// How many calls were measured.
    calls: u64,
}

fn run(args: &CostArgs, chosen: &Chosen, traced: bool) -> Result<Run> {
    let mut command = Launch::silent(&args.start)?;
    let subject = subject(args, vec![Target::open(command.pid())?]);
    // Attaching takes a while, in which the waiting process leaves the caches, and the CPU its best
    // speed: a run without tracing is to begin like one with it.
    let mut attached = Measurement::attach(request(args, chosen, &subject), &mut |_| {})?;
    let measurement = if traced {
        attached.open();
        Some(attached)
    } else {
        drop(attached);
        None
    };
    let begun = Instant::now();
    command.start()?;
    let status = command.wait()?;
    let took = begun.elapsed();
    let calls = match &measurement {
        Some(measurement) => {
            let outcome = measurement.close(ClosedBy::TargetEnd)?;
            outcome.calls.iter().map(|call| call.ledger.entered).sum()
        }
        None => 0,
    };
    Ok(Run { took, status, calls })
}

fn failed(why: &str) -> Error {
    Error {
        kind: Kind::Other,
        step: Step::Calibrate,
        object: "the process".to_owned(),
        cause: Cause::Text(why.to_owned()),
        next: "try again".to_owned(),
    }
}
