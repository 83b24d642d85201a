//! One measurement, from maps and programs to its outcome.
//!
//! 1. [`Measurement::attach`]: maps, programs, tracepoints; the window is still closed.
//! 2. [`Measurement::open`]: calls that enter from now on are counted.
//! 3. [`Measurement::close`]: the window closes, and the outcome is collected.
//! 4. Dropping it detaches the programs, which takes a while: print the outcome first.
//!
//! While the window is open nothing here calls bpf(2) on a map, see
//! [`MmapableArray`](crate::maps::MmapableArray).

use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::family::Family;
use super::in_flight::{self, Blocked};
use super::layout::{CONTROL_MAP, WINDOW_CLOSED, WINDOW_OPEN};
use super::part::{Part, by_name, unlikely};
use super::programs::{Plan, Returns, thread_end_program};
use super::snapshot::Snapshot;
use super::subject::{ScopeMaps, Subject};
use super::syscall::Syscall;
use super::{ClosedBy, MissedRuns, Outcome};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::histogram::{Linear, Unit};
use crate::insn::Program;
use crate::loader::sys::ProgramType;
use crate::loader::{
    Answer, Attachment, Feature, LoadedProgram, Tracepoint, attach, counts_missed_runs, load,
    probe, sys, verifier_log,
};
use crate::maps::{MmapableArray, cpus};
use crate::process::PidNamespace;
use crate::tracefs::Tracefs;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Whose calls.
    pub subject: &'a Subject,
    /// Which calls; not empty.
    pub syscalls: Vec<Syscall>,
    /// Only calls on one of these descriptors; none means any.
    pub descriptors: Vec<u32>,
    /// Which calls are put into the histogram.
    pub returns: Returns,
    /// What the buckets count.
    pub unit: Unit,
    /// Linear buckets beside the logarithmic ones.
    pub linear: Option<Linear>,
    /// Where the tracepoints are described.
    pub tracefs: &'a Tracefs,
}

/// Attached programs and the maps that they write to.
#[derive(Debug)]
pub struct Measurement<'a> {
    request: Request<'a>,
    parts: Vec<Part>,
    thread_end: (Program, LoadedProgram),
    control: MmapableArray,
    scope_maps: ScopeMaps,
    family: Option<Family>,
    /// The processes that were there when the window opened.
    at_opening: Vec<u32>,
    /// The threads that were blocked in a measured call just after that.
    blocked_at_opening: Option<Vec<Blocked>>,
    opened_ns: u64,
    _attachments: Vec<Attachment>,
}

impl<'a> Measurement<'a> {
    /// Creates the maps, loads the programs and attaches them. The window stays closed. `steps` is
    /// told what was done, for people who want to know.
    ///
    /// # Errors
    /// The step that failed, see [`Error`].
    pub fn attach(request: Request<'a>, steps: &mut dyn FnMut(String)) -> Result<Self> {
        require_namespace_helper(request.subject)?;
        steps(format!("tracefs: {}", request.tracefs));
        let on_thread_end = Tracepoint {
            category: "sched".to_owned(),
            name: "sched_process_exit".to_owned(),
            id: request.tracefs.tracepoint_id("sched", "sched_process_exit")?,
        };
        let scope = request.subject.scope()?;
        let scope_maps = request.subject.create_maps()?;
        // Before everything else: whoever is forked from now on is known when the window opens.
        let cpu = cpus::first_online()?;
        let family = match request.subject {
            Subject::Family(_) => {
                let members: Vec<(String, i32)> = scope_maps.numbers().collect();
                Some(Family::follow(request.tracefs, &members, cpu, steps)?)
            }
            _ => None,
        };
        let control = MmapableArray::create(CONTROL_MAP, 1, 1)?;
        let shared: Vec<(String, i32)> =
            scope_maps.numbers().chain([(CONTROL_MAP.to_owned(), control.number())]).collect();

        let threads: usize = request.subject.targets().iter().map(|target| target.threads).sum();
        let mut parts = Vec::new();
        for syscall in &request.syscalls {
            let plan = Plan {
                syscall: syscall.name.clone(),
                scope: scope.clone(),
                descriptors: request.descriptors.clone(),
                argument_offset: syscall.argument_offset,
                result_offset: syscall.result_offset,
                returns: request.returns,
                unit: request.unit,
                linear: request.linear,
            };
            parts.push(Part::load(syscall, &plan, threads, &shared, steps)?);
        }
        let names: Vec<String> =
            request.syscalls.iter().map(|syscall| syscall.name.clone()).collect();
        let program = thread_end_program(&scope, &names).map_err(|error| unlikely(&error))?;
        let maps: Vec<(String, i32)> =
            parts.iter().flat_map(Part::maps).chain(shared.iter().cloned()).collect();
        let thread_end = load(&program, ProgramType::Tracepoint, &by_name(&maps))?;
        steps(describe(&program, &thread_end));

        // The entries last: an entry that is seen has its exit seen, too.
        let mut attachments = vec![attach(&thread_end, &on_thread_end, cpu)?];
        for part in &parts {
            attachments.push(attach(&part.exit.1, &part.syscall.exit, cpu)?);
        }
        for part in &parts {
            attachments.push(attach(&part.enter.1, &part.syscall.enter, cpu)?);
        }
        Ok(Self {
            request,
            parts,
            thread_end: (program, thread_end),
            control,
            scope_maps,
            family,
            at_opening: Vec::new(),
            blocked_at_opening: None,
            opened_ns: 0,
            _attachments: attachments,
        })
    }

    /// What the verifier writes about each program, with our comments: loads them once more.
    ///
    /// # Errors
    /// As [`verifier_log`].
    pub fn verifier_logs(&self) -> Result<Vec<(&str, String)>> {
        let maps: Vec<(String, i32)> = self
            .parts
            .iter()
            .flat_map(Part::maps)
            .chain(self.scope_maps.numbers())
            .chain([(CONTROL_MAP.to_owned(), self.control.number())])
            .chain(self.family.iter().flat_map(Family::maps))
            .collect();
        self.parts
            .iter()
            .flat_map(|part| [&part.enter.0, &part.exit.0])
            .chain([&self.thread_end.0])
            .chain(self.family.iter().flat_map(Family::programs))
            .map(|program| {
                Ok((
                    program.name(),
                    verifier_log(program, ProgramType::Tracepoint, &by_name(&maps))?,
                ))
            })
            .collect()
    }

    /// Opens the window.
    pub fn open(&mut self) {
        // A call that hangs all the time is one of a process that is there now. To ask later could
        // call bpf(2) on a map while the window is open.
        self.at_opening = self.processes();
        self.set_window(WINDOW_OPEN);
        self.opened_ns = monotonic_ns();
        self.blocked_at_opening = self.blocked();
    }

    /// How many calls have been recorded so far.
    pub fn recorded(&self) -> u64 {
        self.parts.iter().map(Part::recorded).sum()
    }

    /// What the histograms hold now. Takes no system call.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { calls: self.parts.iter().map(Part::counted).collect() }
    }

    /// Closes the window and collects the outcome.
    ///
    /// # Errors
    /// As bpf(2), when a store of starts cannot be read.
    pub fn close(&self, closed_by: ClosedBy) -> Result<Outcome> {
        // A thread may be awake for a moment in either look, without leaving its call.
        let blocked = in_flight::in_either(self.blocked_at_opening.clone(), self.blocked());
        self.set_window(WINDOW_CLOSED);
        let closed_ns = monotonic_ns();
        // Before our own bpf(2) on the members' map can make the kernel skip a program.
        let unfollowed = self.family.as_ref().map(Family::unfollowed);
        // A program that saw the window open may still be at work. Where the kernel cannot wait for
        // it, a short sleep is far more than a program takes.
        if sys::wait_for_running_programs().is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let window = Duration::from_nanos(closed_ns.saturating_sub(self.opened_ns));
        let calls = self
            .parts
            .iter()
            .map(|part| part.collect(self.request.subject, blocked.as_deref(), closed_ns, window))
            .collect::<Result<_>>()?;
        Ok(Outcome { calls, missed_runs: self.missed_runs(), unfollowed, window, closed_by })
    }

    /// Threads that are blocked in a measured call now; `None` where that cannot be known.
    fn blocked(&self) -> Option<Vec<Blocked>> {
        let Request { subject, syscalls, descriptors, .. } = &self.request;
        in_flight::blocked_threads(subject, &self.at_opening, syscalls, descriptors)
    }

    /// The subject's processes now, with the children that are followed.
    fn processes(&self) -> Vec<u32> {
        let named = || self.request.subject.targets().iter().map(|target| target.pid).collect();
        self.scope_maps.members().unwrap_or_else(named)
    }

    fn set_window(&self, state: u64) {
        for word in self.control.values().flatten() {
            word.store(state, Ordering::SeqCst);
        }
    }

    fn missed_runs(&self) -> Option<MissedRuns> {
        let misses = |program: &LoadedProgram| program.info().ok()?.recursion_misses;
        let mut missed =
            MissedRuns { thread_end: misses(&self.thread_end.1)?, ..MissedRuns::default() };
        for part in &self.parts {
            missed.entry += misses(&part.enter.1)?;
            missed.exit += misses(&part.exit.1)?;
        }
        (missed.total() > 0 || counts_missed_runs()).then_some(missed)
    }
}

/// Without the helper, a process in another PID namespace could not be told from others.
pub(crate) fn require_namespace_helper(subject: &Subject) -> Result<()> {
    let inside = |namespace| matches!(namespace, PidNamespace::Other { .. });
    let Some(target) = subject.targets().iter().find(|target| inside(target.namespace)) else {
        return Ok(());
    };
    if probe(Feature::NamespaceHelper) != Answer::No {
        return Ok(());
    }
    Err(Error {
        kind: Kind::Unsupported,
        step: Step::Target,
        object: format!("process {}", target.pid),
        cause: Cause::Text(
            "it lives in another PID namespace than the initial one, and this kernel has no \
             bpf_get_ns_current_pid_tgid"
                .to_owned(),
        ),
        next: "use Linux 5.7 or newer".to_owned(),
    })
}

pub(crate) fn describe(program: &Program, loaded: &LoadedProgram) -> String {
    let (name, length) = (program.name(), program.insns().len());
    let lines = loaded
        .without_lines()
        .map_or(String::new(), |errno| format!(", and the kernel takes no source lines: {errno}"));
    match loaded.info() {
        Ok(info) => format!(
            "program {name}: id {}, {length} instructions, {} bytes of native code{lines}",
            info.id, info.jited_bytes
        ),
        Err(errno) => format!("program {name}: {length} instructions (no more known: {errno})"),
    }
}

/// The clock that `bpf_ktime_get_ns` reads.
pub(crate) fn monotonic_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| Duration::from(now).as_nanos() as u64)
}
