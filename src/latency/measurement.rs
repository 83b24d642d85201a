//! One measurement, from maps and programs to its outcome.
//!
//! 1. [`Measurement::attach`]: tracepoints, maps, programs; the window is still closed.
//! 2. [`Measurement::open`]: calls that enter from now on are counted.
//! 3. [`Measurement::close`]: the window closes, and the outcome is collected.
//! 4. Dropping it detaches the programs, which takes a while: print the outcome first.
//!
//! While the window is open nothing here calls bpf(2) on a map, see
//! [`MmapableArray`](crate::maps::MmapableArray).

use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::collect;
use super::in_flight::{self, Blocked};
use super::layout::{
    CONTROL_MAP, CPUS_MAP, Counter, REGION_WORDS, Region, STARTS_MAP, Slot, WINDOW_CLOSED,
    WINDOW_OPEN,
};
use super::programs::{Plan, Programs};
use super::{ClosedBy, Ledger, MissedRuns, Outcome};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::insn::Program;
use crate::loader::sys::ProgramType;
use crate::loader::{
    Answer, Attachment, Feature, LoadedProgram, Tracepoint, attach, counts_missed_runs, load,
    probe, sys, verifier_log,
};
use crate::maps::{HashMap, MmapableArray, cpus};
use crate::process::{PidNamespace, Target};
use crate::tracefs::Tracefs;

/// Room for this many threads that have made a call, at least.
const FEWEST_STARTS: usize = 4096;
/// Room for this many times the threads that the process has now.
const STARTS_PER_THREAD: usize = 4;

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The process, with all its threads.
    pub target: &'a Target,
    /// Only calls on this descriptor, if given.
    pub descriptor: Option<u32>,
    /// Where the tracepoints are described.
    pub tracefs: &'a Tracefs,
}

/// Attached programs and the maps that they write to.
#[derive(Debug)]
pub struct Measurement<'a> {
    request: Request<'a>,
    programs: Programs,
    enter: LoadedProgram,
    exit: LoadedProgram,
    thread_end: LoadedProgram,
    control: MmapableArray,
    starts: HashMap<u32, Slot>,
    cpus: MmapableArray,
    opened_ns: u64,
    blocked_at_opening: Option<Vec<Blocked>>,
    _attachments: [Attachment; 3],
}

impl<'a> Measurement<'a> {
    /// Creates the maps, loads the programs and attaches them. The window stays closed. `steps` is
    /// told what was done, for people who want to know.
    ///
    /// # Errors
    /// The step that failed, see [`Error`].
    pub fn attach(request: Request<'a>, steps: &mut dyn FnMut(String)) -> Result<Self> {
        let Request { target, descriptor, tracefs } = request;
        require_namespace_helper(target)?;

        let on_enter = tracepoint(tracefs, "syscalls", "sys_enter_read")?;
        let on_exit = tracepoint(tracefs, "syscalls", "sys_exit_read")?;
        let on_thread_end = tracepoint(tracefs, "sched", "sched_process_exit")?;
        let plan = Plan {
            pid: target.pid,
            namespace: target.namespace,
            descriptor,
            argument_offset: field_offset(tracefs, &on_enter, "fd")?,
            result_offset: field_offset(tracefs, &on_exit, "ret")?,
        };
        steps(format!("tracefs: {tracefs}"));
        steps(format!("tracepoint {on_enter}: id {}, fd at {}", on_enter.id, plan.argument_offset));
        steps(format!("tracepoint {on_exit}: id {}, ret at {}", on_exit.id, plan.result_offset));
        steps(format!("tracepoint {on_thread_end}: id {}", on_thread_end.id));

        let control = MmapableArray::create(CONTROL_MAP, 1, 1)?;
        let room = (target.threads * STARTS_PER_THREAD).max(FEWEST_STARTS) as u32;
        let starts = HashMap::create(STARTS_MAP, room)?;
        let possible = cpus::possible_count()?;
        let cpus = MmapableArray::create(CPUS_MAP, REGION_WORDS, possible)?;
        for region in cpus.values().map(Region::new) {
            region.prepare();
        }
        steps(format!("map {STARTS_MAP}: hash, room for {room} threads"));
        steps(format!("map {CPUS_MAP}: {possible} regions of {} bytes", REGION_WORDS * 8));

        let programs = Programs::new(&plan).map_err(|error| Error {
            kind: Kind::Other,
            step: Step::Assemble,
            object: "for read()".to_owned(),
            cause: Cause::Text(error.to_string()),
            next: "this is a bug in rlat: please report it".to_owned(),
        })?;
        let maps = map_numbers(&control, &starts, &cpus);
        let mut loaded = |program: &Program| {
            let loaded = load(program, ProgramType::Tracepoint, &maps)?;
            steps(describe(program, &loaded));
            Ok(loaded)
        };
        let enter = loaded(&programs.enter)?;
        let exit = loaded(&programs.exit)?;
        let thread_end = loaded(&programs.thread_end)?;

        // The entry last: an entry that is seen has its exit seen, too.
        let cpu = cpus::first_online()?;
        let attachments = [
            attach(&thread_end, &on_thread_end, cpu)?,
            attach(&exit, &on_exit, cpu)?,
            attach(&enter, &on_enter, cpu)?,
        ];
        Ok(Self {
            request,
            programs,
            enter,
            exit,
            thread_end,
            control,
            starts,
            cpus,
            opened_ns: 0,
            blocked_at_opening: None,
            _attachments: attachments,
        })
    }

    /// What the verifier writes about each program, with our comments: loads them once more.
    ///
    /// # Errors
    /// As [`verifier_log`].
    pub fn verifier_logs(&self) -> Result<Vec<(&str, String)>> {
        let maps = map_numbers(&self.control, &self.starts, &self.cpus);
        [&self.programs.enter, &self.programs.exit, &self.programs.thread_end]
            .into_iter()
            .map(|program| {
                Ok((program.name(), verifier_log(program, ProgramType::Tracepoint, &maps)?))
            })
            .collect()
    }

    /// Opens the window.
    pub fn open(&mut self) {
        self.set_window(WINDOW_OPEN);
        self.opened_ns = monotonic_ns();
        let Request { target, descriptor, .. } = self.request;
        self.blocked_at_opening = in_flight::blocked_threads(target, descriptor);
    }

    /// How many calls have been recorded so far.
    pub fn recorded(&self) -> u64 {
        self.regions().map(|region| region.get(Counter::Recorded)).sum()
    }

    /// Closes the window and collects the outcome.
    ///
    /// # Errors
    /// As bpf(2), when the store of starts cannot be read.
    pub fn close(&self, closed_by: ClosedBy) -> Result<Outcome> {
        self.set_window(WINDOW_CLOSED);
        let closed_ns = monotonic_ns();
        let Request { target, descriptor, .. } = self.request;
        let blocked_now = in_flight::blocked_threads(target, descriptor);
        // A program that saw the window open may still be at work. Where the kernel cannot wait for
        // it, a short sleep is far more than a program takes.
        if sys::wait_for_running_programs().is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let slots = self.starts.entries().map_err(|errno| Error {
            kind: Kind::Other,
            step: Step::Measure,
            object: format!("read() calls: map {STARTS_MAP}"),
            cause: Cause::Errno(errno),
            next: "measure again".to_owned(),
        })?;
        let window = Duration::from_nanos(closed_ns.saturating_sub(self.opened_ns));
        let held: Vec<u64> = collect::held(&slots).collect();
        let slots = in_flight::by_visible_tid(target, slots);

        let entered = in_flight::entered(target, &slots, closed_ns);
        let before = self.blocked_at_opening.as_ref().zip(blocked_now).map(|(at_opening, now)| {
            in_flight::since_before(target, &slots, at_opening, &now, window)
        });
        let ledger = Ledger {
            in_flight: entered.len() as u64,
            in_flight_since_before: before.as_ref().map(|calls| calls.len() as u64),
            missed_runs: self.missed_runs(),
            ..collect::ledger(self.regions(), &held)
        };
        Ok(Outcome {
            histogram: collect::histogram(self.regions(), &held),
            ledger,
            in_flight: entered.into_iter().chain(before.into_iter().flatten()).collect(),
            window,
            closed_by,
        })
    }

    fn set_window(&self, state: u64) {
        for word in self.control.values().flatten() {
            word.store(state, Ordering::SeqCst);
        }
    }

    fn regions(&self) -> impl Iterator<Item = Region<'_>> {
        self.cpus.values().map(Region::new)
    }

    fn missed_runs(&self) -> Option<MissedRuns> {
        let misses = |program: &LoadedProgram| program.info().ok()?.recursion_misses;
        let missed = MissedRuns {
            entry: misses(&self.enter)?,
            exit: misses(&self.exit)?,
            thread_end: misses(&self.thread_end)?,
        };
        (missed.total() > 0 || counts_missed_runs()).then_some(missed)
    }
}

/// Without the helper, a process in another PID namespace could not be told from others.
pub(crate) fn require_namespace_helper(target: &Target) -> Result<()> {
    let inside = matches!(target.namespace, PidNamespace::Other { .. });
    if !inside || probe(Feature::NamespaceHelper) != Answer::No {
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

pub(crate) fn tracepoint(tracefs: &Tracefs, category: &str, name: &str) -> Result<Tracepoint> {
    let id = tracefs.tracepoint_id(category, name)?;
    Ok(Tracepoint { category: category.to_owned(), name: name.to_owned(), id })
}

/// Where a field of 8 bytes is in a tracepoint's context. Kernels differ in what stands before it.
pub(crate) fn field_offset(tracefs: &Tracefs, tracepoint: &Tracepoint, name: &str) -> Result<i16> {
    let format = tracefs.format(&tracepoint.category, &tracepoint.name)?;
    let field = format.field(name).filter(|field| field.size == 8);
    field.and_then(|field| i16::try_from(field.offset).ok()).ok_or_else(|| Error {
        kind: Kind::Unsupported,
        step: Step::Tracepoint,
        object: tracepoint.to_string(),
        cause: Cause::Text(format!("its format has no field {name} of 8 bytes")),
        next: "please report this with the tracepoint's `format` file".to_owned(),
    })
}

fn map_numbers<'m>(
    control: &MmapableArray,
    starts: &HashMap<u32, Slot>,
    cpus: &MmapableArray,
) -> [(&'m str, i32); 3] {
    [(CONTROL_MAP, control.number()), (STARTS_MAP, starts.number()), (CPUS_MAP, cpus.number())]
}

fn describe(program: &Program, loaded: &LoadedProgram) -> String {
    let (name, length) = (program.name(), program.insns().len());
    match loaded.info() {
        Ok(info) => format!(
            "program {name}: id {}, {length} instructions, {} bytes of native code",
            info.id, info.jited_bytes
        ),
        Err(errno) => format!("program {name}: {length} instructions (no more known: {errno})"),
    }
}

/// The clock that `bpf_ktime_get_ns` reads.
fn monotonic_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| Duration::from(now).as_nanos() as u64)
}
