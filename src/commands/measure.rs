//! `rlat PID [FD]` and `rlat -- CMD`: measure for a while, print what was found.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::time::{Instant, SystemTime};

use nix::sys::signal::Signal;
use nix::sys::utsname::uname;

use super::hints::{self, nothing_came};
use super::looks::Looks;
use super::output::Output;
use super::protocol::protocol;
use super::ready::Ready;
use super::run_statistics::{RunStatistics, let_go};
use super::say;
use super::signals::Signals;
use super::window::{Shown, Window};
use crate::calibration::{Calibration, USUAL_LENGTH};
use crate::cli::{Format, MeasureArgs};
use crate::confinement::{Confinement, Tasks, confine};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::escape::{escape, escape_path};
use crate::latency::{
    Chosen, ClosedBy, Measurement, Needs, Request, Subject, Syscall, choose, wait,
};
use crate::loader::LoadedProgram;
use crate::process::{Launch, Target, User, descriptor_target, is_32_bit, is_open};
use crate::report::numbers::time;
use crate::report::{View, cost, text};

/// Measures, and prints what was found. `started` is when the program began, for `-v`. Returns the exit
/// status of the command, if one was started, else 0.
pub(super) fn measure(args: &MeasureArgs, started: Instant) -> Result<u8> {
    // Before anything is opened: a descriptor of that number must be the caller's, and none of ours.
    let ready = Ready::claim(args.ready_fd)?;
    require_place_for_note(args)?;
    Syscall::require_names(&args.syscalls)?;
    // Before signals are caught: it may wait for a reader, which an interrupt is to end at once. Also
    // the command is to find signals as rlat found them.
    let mut output = Output::open(args.output.as_deref(), !args.start.is_empty())?;
    let mut command = launch(&args.start, args.user.as_deref())?;
    let signals = Signals::install()?;
    let subject = match &command {
        Some(command) => command_subject(args.follow, command)?,
        None => subject(args)?,
    };
    let around = Around { signals: &signals, output: &mut output, ready, started };
    let result = measure_subject(args, &subject, command.as_mut(), around);
    match &mut command {
        // Whatever became of the measurement, the command goes on, and rlat stays with it.
        Some(command) if command.has_started() => {
            let status = wait_for_command(command, &subject, &signals);
            result.and(status)
        }
        _ => result.map(|()| 0),
    }
}

/// How a measurement meets the rest of the world.
struct Around<'a> {
    signals: &'a Signals,
    output: &'a mut Output,
    ready: Ready,
    /// When the program began.
    started: Instant,
}

fn measure_subject(
    args: &MeasureArgs,
    subject: &Subject,
    mut command: Option<&mut Launch>,
    around: Around<'_>,
) -> Result<()> {
    let Around { signals, output, ready, started } = around;
    let descriptors: Vec<u32> = args.descriptors.iter().chain(&args.descriptor).copied().collect();
    let needs = Needs {
        tracefs: args.tracefs.as_deref(),
        syscalls: &args.syscalls,
        descriptors: !descriptors.is_empty(),
        follow: args.follow,
    };
    let chosen = choose(args.attach.into(), needs)?;
    let why = chosen.describe();
    let Chosen { way, syscalls, tracefs, makeshift, .. } = chosen;
    require_descriptors(&syscalls, &descriptors)?;
    let measured = syscalls.clone();
    let names: Vec<String> = syscalls.iter().map(|syscall| syscall.name.clone()).collect();
    let request = Request {
        subject,
        syscalls,
        descriptors: descriptors.clone(),
        returns: args.returns.into(),
        unit: args.unit.into(),
        linear: args.linear,
        way,
        tracefs: tracefs.as_ref(),
        starts: args.starts,
    };
    let mut verbose = |text: String| {
        if args.verbose {
            say(&text);
        }
    };
    verbose(why.clone());
    let calibration =
        args.calibrate.then(|| Calibration::measure(&request, USUAL_LENGTH)).transpose()?;
    let mut measurement = Measurement::attach(request, &mut verbose)?;
    verbose(format!("attached {} after the start", time(started.elapsed().as_nanos())));
    if args.verbose {
        for (program, log) in measurement.verifier_logs()? {
            say(&format!("the verifier on {program}:\n{log}"));
        }
    }
    let mut meta = protocol(args, subject, &descriptors, &names, way);
    meta.calibration = calibration;

    let statistics = args.verbose.then(RunStatistics::begin);
    let view = View { k: args.buckets, labels: args.labels.into() };
    let before = measurement.snapshot();
    measurement.open();
    meta.started = SystemTime::now();
    let opened = Instant::now();
    // Before `ready`: what is done from then on is to be seen.
    let mut looks = match command {
        None => Looks::begin(subject, measured.clone(), &descriptors, false),
        // It is not the command yet, but a stopped rlat.
        Some(_) => Looks::none(),
    };
    ready.tell();
    if makeshift && !args.verbose {
        say(&format!("rlat: note: {why}"));
    }
    if command.is_none() {
        print_notes(subject, &descriptors);
    }
    print_subject(args, subject, &descriptors);
    verbose(format!("the window opened {} after the start", time(started.elapsed().as_nanos())));
    if let Some(command) = &mut command {
        command.start()?;
        looks = Looks::begin(subject, measured, &descriptors, true);
    }
    let deadline = Some(args.duration).filter(|time| !time.is_zero()).map(|time| opened + time);
    if let Some(tracefs) = &tracefs {
        tracefs.let_go();
    }
    // A command has begun, and is not concerned.
    let given_up =
        give_up(subject, command.as_deref(), output, args.verbose, &measurement.loaded());
    verbose(given_up.to_string());
    let mut shown = Shown::choose(args, view, &meta, opened, deadline, before);
    let window =
        Window { subject, measurement: &measurement, deadline, alone: command.is_none(), signals };
    let (closed_by, written) = window.wait(&mut shown, &mut looks, output)?;
    let closing = Instant::now();
    let outcome = measurement.close(closed_by)?;
    if let (Some(command), ClosedBy::Signal) = (&command, closed_by) {
        pass_on(signals, command);
    }
    verbose(format!("the window closed after {}", time(outcome.window.as_nanos())));

    // Before the programs are detached: that waits for the kernel, and a user waits for the numbers.
    let result = shown.finish(&meta, &outcome, written, output);
    if nothing_came(&outcome) {
        hints::print(&mut looks);
    }
    if args.format == Format::Csv {
        // It has no place for them, and whoever gets it must know.
        text::doubts(&outcome).lines().for_each(say);
        if let Some(found) = &meta.calibration {
            say(cost::calibration_line(found).trim_end());
        }
    }
    let_go(measurement, Measurement::loaded, statistics, closing);
    result
}

/// Gives up what is needed no more once the window is open.
pub(super) fn give_up(
    subject: &Subject,
    command: Option<&Launch>,
    output: &Output,
    verbose: bool,
    programs: &[&LoadedProgram],
) -> Confinement {
    let targets: Vec<u32> = subject.targets().iter().map(|target| target.pid).collect();
    let tasks = Tasks {
        targets: &targets,
        folder: output.folder(),
        command: command.map(Launch::pid),
        sizes: verbose,
    };
    confine(tasks, || programs.iter().all(|program| program.info().is_ok()))
}

/// A note that would go nowhere is not taken.
fn require_place_for_note(args: &MeasureArgs) -> Result<()> {
    if args.format == Format::Csv && args.note.is_some() {
        return Err(usage("--note", "CSV has no place for it", "use -f json or -f text"));
    }
    Ok(())
}

/// The process of the command to measure, if there is one. It waits.
pub(super) fn launch(start: &[OsString], user: Option<&str>) -> Result<Option<Launch>> {
    if start.is_empty() {
        return Ok(None);
    }
    let user = user.map(User::find).transpose()?;
    Launch::stopped(start, user.as_ref()).map(Some)
}

pub(super) fn command_subject(follow: bool, command: &Launch) -> Result<Subject> {
    let mut target = Target::open(command.pid())?;
    target.name = command.name();
    let targets = vec![target];
    Ok(if follow { Subject::Family(targets) } else { Subject::Processes(targets) })
}

/// A terminal sends SIGINT to the command, too; the others come to rlat alone.
pub(super) fn pass_on(signals: &Signals, command: &Launch) {
    if let Some(signal) = signals.take().filter(|signal| *signal != Signal::SIGINT) {
        command.pass_on(signal);
    }
}

/// Waits for the command's end after that of the window. A signal that has come since is passed on.
pub(super) fn wait_for_command(
    command: &mut Launch,
    subject: &Subject,
    signals: &Signals,
) -> Result<u8> {
    if wait(subject, None, signals.wake(), None) == Ok(ClosedBy::Signal) {
        pass_on(signals, command);
    }
    command.wait()
}

/// Whose calls the arguments ask for.
pub(super) fn subject(args: &MeasureArgs) -> Result<Subject> {
    let open = |ids: &mut dyn Iterator<Item = &u32>| {
        ids.map(|id| Target::open(*id)).collect::<Result<Vec<_>>>()
    };
    if let Some(name) = &args.name {
        return Ok(Subject::Named(name.clone()));
    }
    if let Some(folder) = &args.cgroup {
        return Ok(Subject::ControlGroup(folder.clone()));
    }
    if args.all {
        return Ok(Subject::All);
    }
    if !args.threads.is_empty() {
        return Ok(Subject::Threads(open(&mut args.threads.iter())?));
    }
    let targets = open_processes(args.process.iter().chain(&args.processes).copied())?;
    Ok(if args.follow { Subject::Family(targets) } else { Subject::Processes(targets) })
}

/// The processes of these ids. One that was named twice, or by two of its threads, is one.
pub(super) fn open_processes(ids: impl Iterator<Item = u32>) -> Result<Vec<Target>> {
    let mut targets = ids.map(Target::open).collect::<Result<Vec<_>>>()?;
    targets.sort_by_key(|target| target.pid);
    targets.dedup_by_key(|target| target.pid);
    Ok(targets)
}

/// A descriptor means something only to calls that take one.
pub(super) fn require_descriptors(syscalls: &[Syscall], descriptors: &[u32]) -> Result<()> {
    match syscalls.iter().find(|syscall| !syscall.takes_descriptor) {
        Some(syscall) if !descriptors.is_empty() => Err(usage(
            "a descriptor",
            &format!("the first argument of {}() is none", syscall.name),
            "leave --fd out, or measure other system calls",
        )),
        _ => Ok(()),
    }
}

/// What a user may have meant otherwise. Shown in any case, unlike the progress.
pub(super) fn print_notes(subject: &Subject, descriptors: &[u32]) {
    for target in subject.targets() {
        let (requested, pid) = (target.requested, target.pid);
        if requested != pid && !matches!(subject, Subject::Threads(_)) {
            say(&format!(
                "rlat: note: {requested} is a thread of process {pid}: all threads of the process \
                 are measured (--tid measures one)"
            ));
        }
        // A 32-bit kernel has nothing but 32-bit programs, and shows their calls.
        if cfg!(target_pointer_width = "64") && is_32_bit(pid) == Some(true) {
            say(&format!(
                "rlat: warning: process {pid} executes a 32-bit program: its calls do not pass the \
                 tracepoints of a 64-bit kernel, and will not be seen"
            ));
        }
        for fd in descriptors {
            if is_open(pid, *fd) == Some(false) {
                say(&format!(
                    "rlat: note: process {pid} has no descriptor {fd} open now: \
                     `ls -l /proc/{pid}/fd` lists them"
                ));
            }
        }
    }
}

/// On a terminal: what is being measured.
fn print_subject(args: &MeasureArgs, subject: &Subject, descriptors: &[u32]) {
    if !io::stderr().is_terminal() {
        return;
    }
    let kernel = kernel();
    let calls: Vec<String> = args.syscalls.iter().map(|name| format!("{name}()")).collect();
    let calls = calls.join(", ");
    match subject {
        Subject::Named(name) => {
            say(&format!("{calls} of threads named {} on {kernel}", escape(name.as_bytes())));
        }
        Subject::ControlGroup(folder) => {
            say(&format!("{calls} of control group {} on {kernel}", escape_path(folder)));
        }
        Subject::All => say(&format!("{calls} of every process but rlat on {kernel}")),
        Subject::Processes(_) | Subject::Threads(_) | Subject::Family(_) => {}
    }
    for target in subject.targets() {
        let name = escape(target.name.as_bytes());
        let whom = match (subject, target.threads) {
            (Subject::Threads(_), _) => format!("thread {}", target.requested),
            (_, 1) => format!("process {}, 1 thread", target.pid),
            (_, threads) => format!("process {}, {threads} threads", target.pid),
        };
        say(&format!("{calls} of {name} ({whom}) on {kernel}"));
        for fd in descriptors {
            let leads_to =
                descriptor_target(target.pid, *fd).unwrap_or_else(|| "not open now".to_owned());
            say(&format!("descriptor {fd}: {}", escape(leads_to.as_bytes())));
        }
    }
}

/// The running kernel, for people.
pub(super) fn kernel() -> String {
    uname().map_or_else(
        |_| "an unknown kernel".to_owned(),
        |name| format!("Linux {}", name.release().to_string_lossy()),
    )
}

fn usage(object: &str, why: &str, next: &str) -> Error {
    Error {
        kind: Kind::Usage,
        step: Step::Arguments,
        object: object.to_owned(),
        cause: Cause::Text(why.to_owned()),
        next: next.to_owned(),
    }
}
