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

use super::collect::Closed;
use super::extremes::Extremes;
use super::family::Family;
use super::in_flight::{self, Blocked};
use super::layout::{CONTROL_MAP, CONTROL_WORDS, WINDOW_CLOSED, WINDOW_OPEN};
use super::loading::{load_own, own_logs, unlikely};
use super::programs::{Place, Plan, PlannedCall, Returns, Way};
use super::regions::Regions;
use super::snapshot::{Counted, Snapshot};
use super::starts::{Room, STARTS_MAP, Starts};
use super::subject::{ScopeMaps, Subject};
use super::syscall::Syscall;
use super::{ClosedBy, MissedRuns, Outcome, collect};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::histogram::{Linear, Unit};
use crate::insn::Program;
use crate::loader::sys::{self, ProgramType};
use crate::loader::{
    Answer, Attachment, Feature, LoadedProgram, Tracepoint, attach, attach_raw, counts_missed_runs,
    probe,
};
use crate::maps::{MmapableArray, cpus};
use crate::process::{PidNamespace, monotonic_offset_ns};
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
    /// Where the programs are attached.
    pub way: Way,
    /// Where the tracepoints are described; needed for those of the calls themselves, and to follow
    /// children.
    pub tracefs: Option<&'a Tracefs>,
    /// Room for exactly that many threads in the store of starts, instead of what is likely enough.
    pub starts: Option<u32>,
}

/// Attached programs and the maps that they write to.
#[derive(Debug)]
pub struct Measurement<'a> {
    request: Request<'a>,
    plan: Plan,
    programs: Vec<(Place, Program, LoadedProgram)>,
    control: MmapableArray,
    starts: Starts,
    regions: Regions,
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
        if let Some(tracefs) = request.tracefs {
            steps(format!("tracefs: {tracefs}"));
        }
        // Before anything is loaded: what the kernel lacks is not to be found out later.
        let on_thread_end = request.on_thread_end()?;
        let plan = request.plan()?;
        let scope_maps = request.subject.create_maps()?;
        // Before everything else: whoever is forked from now on is known when the window opens.
        let cpu = cpus::first_online()?;
        let family = match request.subject {
            Subject::Family(_) => {
                let members: Vec<(String, i32)> = scope_maps.numbers().collect();
                let tracefs = request.tracefs.ok_or_else(|| needs_tracefs("--follow"))?;
                Some(Family::follow(tracefs, &members, cpu, steps)?)
            }
            _ => None,
        };
        let control = MmapableArray::create(CONTROL_MAP, CONTROL_WORDS, 1)?;
        let starts = Starts::create(plan.room, steps)?;
        let regions = Regions::create(plan.calls.len(), plan.linear, steps)?;
        let maps = numbers(&control, &starts, &regions, &scope_maps);
        let mut programs = Vec::new();
        for (place, program) in plan.programs().map_err(|error| unlikely(&error))? {
            let (program, loaded) = load_own(Ok(program), plan.program_type(place), &maps, steps)?;
            programs.push((place, program, loaded));
        }
        let mut attachments = Vec::new();
        for (place, _, loaded) in &programs {
            attachments.push(request.attach_at(
                *place,
                on_thread_end.as_ref(),
                loaded,
                cpu,
                steps,
            )?);
        }
        Ok(Self {
            request,
            plan,
            programs,
            control,
            starts,
            regions,
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
    /// As [`verifier_log`](crate::loader::verifier_log).
    pub fn verifier_logs(&self) -> Result<Vec<(&str, String)>> {
        let maps: Vec<_> = numbers(&self.control, &self.starts, &self.regions, &self.scope_maps)
            .into_iter()
            .chain(self.family.iter().flat_map(Family::maps))
            .collect();
        let kind = |place| self.plan.program_type(place);
        let own = self.programs.iter().map(|(place, program, _)| (program, kind(*place)));
        let of_family = self.family.iter().flat_map(Family::programs);
        own_logs(own.chain(of_family.map(|program| (program, ProgramType::Tracepoint))), &maps)
    }

    /// The programs as they are in the kernel.
    pub fn loaded(&self) -> Vec<&LoadedProgram> {
        let followers = self.family.iter().flat_map(Family::loaded);
        self.programs.iter().map(|(_, _, loaded)| loaded).chain(followers).collect()
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
        self.regions.recorded()
    }

    /// What the histograms hold now. Takes no system call.
    pub fn snapshot(&self) -> Snapshot {
        // Held calls are not in it: they come when they are recorded.
        let counted = |(index, syscall): (usize, &Syscall)| Counted {
            syscall: syscall.name.clone(),
            histogram: collect::histogram(self.regions.of(index), self.plan.unit),
            linear: self.plan.linear.map(|edges| collect::linear(self.regions.of(index), edges)),
        };
        Snapshot { calls: self.request.syscalls.iter().enumerate().map(counted).collect() }
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
        let slots = self.starts.entries().map_err(collect_failed)?;
        // Not of the visible ones only: a thread may have ended after the window.
        let entered_by_living = slots.iter().map(|(_, slot)| slot.entered).sum();
        let closed = Closed {
            plan: &self.plan,
            regions: &self.regions,
            slots: &in_flight::by_visible_tid(self.request.subject, slots),
            entered_by_living,
            blocked: blocked.as_deref(),
            now_ns: closed_ns,
            window,
        };
        let syscalls = self.request.syscalls.iter().enumerate();
        let calls = syscalls.map(|(index, syscall)| closed.call(index, syscall)).collect();
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
        if let Some(word) = self.control.values().flatten().next() {
            word.store(state, Ordering::SeqCst);
        }
    }

    fn missed_runs(&self) -> Option<MissedRuns> {
        // Kernels that skip a program on a raw tracepoint count it (Linux 6.1 does both for the first
        // time, in `__bpf_trace_run` of `kernel/trace/bpf_trace.c`), so that no number means none.
        let raw = matches!(self.plan.way, Way::Raw { .. });
        let mut missed = MissedRuns::default();
        for (place, _, program) in &self.programs {
            let misses = program.info().ok()?.recursion_misses;
            let misses = if raw { misses.unwrap_or(0) } else { misses? };
            match place {
                Place::ThreadEnd => missed.thread_end += misses,
                Place::Exit(_) | Place::EveryExit => missed.exit += misses,
                Place::Enter(_) | Place::EveryEnter => missed.entry += misses,
            }
        }
        (raw || missed.total() > 0 || counts_missed_runs()).then_some(missed)
    }
}

impl Request<'_> {
    /// What the programs are made for.
    pub(crate) fn plan(&self) -> Result<Plan> {
        let threads = self.subject.targets().iter().map(|target| target.threads).sum();
        let room = Room::choose(threads, self.starts);
        Ok(Plan {
            scope: self.subject.scope()?,
            calls: self.syscalls.iter().map(planned).collect(),
            descriptors: self.descriptors.clone(),
            returns: self.returns,
            unit: self.unit,
            linear: self.linear,
            room,
            extremes: Extremes::here(),
            way: self.way,
        })
    }

    /// The tracepoint at the end of a thread; `None` where the raw one is used.
    fn on_thread_end(&self) -> Result<Option<Tracepoint>> {
        if let Way::Raw { .. } = self.way {
            return Ok(None);
        }
        let tracefs = self.tracefs.ok_or_else(|| needs_tracefs("a tracepoint"))?;
        let (category, name) = ("sched".to_owned(), "sched_process_exit".to_owned());
        let id = tracefs.tracepoint_id(&category, &name)?;
        Ok(Some(Tracepoint { category, name, id }))
    }

    fn attach_at(
        &self,
        place: Place,
        on_thread_end: Option<&Tracepoint>,
        program: &LoadedProgram,
        cpu: u32,
        steps: &mut dyn FnMut(String),
    ) -> Result<Attachment> {
        let own = |call: usize| {
            let own = self.syscalls.get(call).and_then(|syscall| syscall.own.as_ref());
            own.ok_or_else(|| needs_tracefs("a call's own tracepoint"))
        };
        let tracepoint = match place {
            Place::ThreadEnd => match on_thread_end {
                Some(tracepoint) => tracepoint.clone(),
                None => return attach_raw(program, c"sched_process_exit"),
            },
            Place::EveryExit => return attach_raw(program, c"sys_exit"),
            Place::EveryEnter => return attach_raw(program, c"sys_enter"),
            Place::Exit(call) => own(call)?.exit.clone(),
            Place::Enter(call) => own(call)?.enter.clone(),
        };
        steps(format!("tracepoint {tracepoint}: id {}", tracepoint.id));
        attach(program, &tracepoint, cpu)
    }
}

fn planned(syscall: &Syscall) -> PlannedCall {
    let own = syscall.own.as_ref();
    PlannedCall {
        name: syscall.name.clone(),
        number: syscall.number.and_then(|number| u32::try_from(number).ok()),
        argument_offset: own.and_then(|own| own.argument_offset),
        result_offset: own.map_or(0, |own| own.result_offset),
    }
}

/// All maps of a measurement, by the names that programs use, and their descriptors.
fn numbers(
    control: &MmapableArray,
    starts: &Starts,
    regions: &Regions,
    scope: &ScopeMaps,
) -> Vec<(String, i32)> {
    let own = [(CONTROL_MAP.to_owned(), control.number()), regions.number()];
    own.into_iter().chain(starts.numbers()).chain(scope.numbers()).collect()
}

fn needs_tracefs(object: &str) -> Error {
    Error {
        kind: Kind::Unsupported,
        step: Step::Tracepoint,
        object: object.to_owned(),
        cause: Cause::Text("it needs tracefs, which is not there".to_owned()),
        next: "`rlat check` shows what is missing".to_owned(),
    }
}

fn collect_failed(errno: nix::errno::Errno) -> Error {
    Error {
        kind: Kind::Other,
        step: Step::Measure,
        object: format!("the calls: map {STARTS_MAP}"),
        cause: Cause::Errno(errno),
        next: "measure again".to_owned(),
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

/// The clock that `bpf_ktime_get_ns` reads, whatever time namespace this process is in.
pub(crate) fn monotonic_ns() -> u64 {
    let own = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |now| Duration::from(now).as_nanos() as u64);
    own.saturating_add_signed(-monotonic_offset_ns())
}
