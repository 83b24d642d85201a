//! One survey, from maps and programs to its findings. Its steps are those of a
//! [`Measurement`](crate::latency::Measurement): attach, open, close, drop.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::errno::Errno;

use super::findings::{Findings, add_up};
use super::in_flight::{self, is_left_by_exec};
use super::layout::{CALLS_MAP, Counter, MOST_REGIONS, ROW_WORDS, ROWS, Row};
use super::programs::{Plan, Regions, enter_program, exit_program, thread_end_program};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::insn::Program;
use crate::latency::family::Family;
use crate::latency::in_flight::{Blocked, blocked_in_any_call, by_visible_ids, is_ending};
use crate::latency::layout::{CONTROL_MAP, CONTROL_WORDS, Slot, WINDOW_CLOSED, WINDOW_OPEN};
use crate::latency::loading::{load_own, own_logs};
use crate::latency::measurement::{monotonic_ns, require_namespace_helper};
use crate::latency::starts::{STARTS_MAP, Starts};
use crate::latency::subject::ScopeMaps;
use crate::latency::{ClosedBy, Extremes, MissedRuns, Room, Subject};
use crate::loader::sys::{self, ProgramType};
use crate::loader::{Attachment, LoadedProgram, attach_raw};
use crate::maps::{MmapableArray, cpus};
use crate::process::is_32_bit;
use crate::tracefs::Tracefs;

/// Attached programs and the maps that they write to.
#[derive(Debug)]
pub struct Survey<'a> {
    subject: &'a Subject,
    enter: (Program, LoadedProgram),
    exit: (Program, LoadedProgram),
    thread_end: (Program, LoadedProgram),
    control: MmapableArray,
    starts: Starts,
    calls: MmapableArray,
    scope_maps: ScopeMaps,
    family: Option<Family>,
    /// Processes that were seen to execute a 32-bit program.
    turned_32_bit: BTreeSet<u32>,
    /// The subject's processes when the window opened.
    at_opening: Vec<u32>,
    opened_ns: u64,
    blocked_at_opening: Option<Vec<Blocked>>,
    _attachments: [Attachment; 3],
}

impl<'a> Survey<'a> {
    /// Creates the maps, loads the programs and attaches them. The window stays closed. `steps` is
    /// told what was done, for people who want to know.
    ///
    /// # Errors
    /// [`Kind::Unsupported`] for a process of a 32-bit program, whose calls have other numbers; else
    /// the step that failed, see [`Error`].
    pub fn attach(subject: &'a Subject, steps: &mut dyn FnMut(String)) -> Result<Self> {
        require_namespace_helper(subject)?;
        if let Some(target) = subject.targets().iter().find(|target| is_foreign(target.pid)) {
            return Err(refuse_32_bit(target.pid));
        }
        let possible = cpus::possible_count()?;
        let extremes = Extremes::here();
        // Without the exchange, only one CPU may write a row.
        let (regions, count) = if possible > MOST_REGIONS && extremes == Extremes::CompareExchange {
            (Regions::Shared, MOST_REGIONS)
        } else {
            (Regions::OneEach, possible)
        };
        let threads = subject.targets().iter().map(|target| target.threads).sum();
        let room = Room::choose(threads, None);
        let plan = Plan { scope: subject.scope()?, regions, room, extremes };
        let scope_maps = subject.create_maps()?;
        // Before everything else: whoever is forked from now on is known when the window opens.
        let family = follow(subject, &scope_maps, steps)?;
        let control = MmapableArray::create(CONTROL_MAP, CONTROL_WORDS, 1)?;
        let starts = Starts::create(room, steps)?;
        let calls = MmapableArray::create(CALLS_MAP, ROW_WORDS, count * ROWS)?;
        let row = ROW_WORDS * size_of::<u64>();
        steps(format!("map {CALLS_MAP}: {count} regions of {ROWS} rows of {row} bytes"));

        let maps = numbers(&scope_maps, &control, &starts, &calls);
        let raw = ProgramType::RawTracepoint;
        let thread_end = load_own(thread_end_program(&plan), raw, &maps, steps)?;
        let exit = load_own(exit_program(&plan), raw, &maps, steps)?;
        let enter = load_own(enter_program(&plan), raw, &maps, steps)?;
        // The entry last: an entry that is seen has its exit seen, too.
        let attachments = [
            attach_raw(&thread_end.1, c"sched_process_exit")?,
            attach_raw(&exit.1, c"sys_exit")?,
            attach_raw(&enter.1, c"sys_enter")?,
        ];
        Ok(Self {
            subject,
            enter,
            exit,
            thread_end,
            control,
            starts,
            calls,
            scope_maps,
            family,
            turned_32_bit: BTreeSet::new(),
            at_opening: Vec::new(),
            opened_ns: 0,
            blocked_at_opening: None,
            _attachments: attachments,
        })
    }

    /// What the verifier writes about each program, with our comments: loads them once more.
    ///
    /// # Errors
    /// As [`verifier_log`](crate::loader::verifier_log).
    pub fn verifier_logs(&self) -> Result<Vec<(&str, String)>> {
        let mut maps = numbers(&self.scope_maps, &self.control, &self.starts, &self.calls);
        maps.extend(self.family.iter().flat_map(Family::maps));
        let own = [&self.enter.0, &self.exit.0, &self.thread_end.0].into_iter();
        let of_family = self.family.iter().flat_map(Family::programs);
        let own = own.map(|program| (program, ProgramType::RawTracepoint));
        own_logs(own.chain(of_family.map(|program| (program, ProgramType::Tracepoint))), &maps)
    }

    /// The programs as they are in the kernel.
    pub fn loaded(&self) -> Vec<&LoadedProgram> {
        vec![&self.enter.1, &self.exit.1, &self.thread_end.1]
    }

    /// Opens the window.
    pub fn open(&mut self) {
        // As in `Measurement::open`: not while the window is open.
        self.at_opening = self.processes();
        self.set_window(WINDOW_OPEN);
        self.opened_ns = monotonic_ns();
        self.blocked_at_opening = self.blocked();
    }

    /// Looks whether a process executes a 32-bit program now, to remember it. A command begins only
    /// after the window has opened, and when that closes there may be nobody left to look at.
    pub fn look_for_32_bit(&mut self) {
        let foreign = self.foreign();
        self.turned_32_bit.extend(foreign);
    }

    /// How many calls have been recorded so far.
    pub fn recorded(&self) -> u64 {
        self.rows().map(|row| row.get(Counter::Recorded)).sum()
    }

    /// Closes the window and collects what was found.
    ///
    /// # Errors
    /// As bpf(2), when the store of starts cannot be read.
    pub fn close(&self, closed_by: ClosedBy) -> Result<Findings> {
        let blocked = self.blocked();
        self.set_window(WINDOW_CLOSED);
        let closed_ns = monotonic_ns();
        let unfollowed = self.family.as_ref().map(Family::unfollowed);
        // As in `Measurement::close`: a program that saw the window open may still be at work.
        if sys::wait_for_running_programs().is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let window = Duration::from_nanos(closed_ns.saturating_sub(self.opened_ns));
        let slots = self.starts.entries().map_err(collect_failed)?;
        let mut slots = by_visible_ids(self.subject, slots, |slot| (slot.pid, slot.tid));
        let mut ended = Vec::new();
        slots.retain(|tid, (pid, slot)| {
            let left = is_left_by_exec(*pid, *tid, *slot);
            ended.extend(left.then_some(*slot));
            !left
        });
        let states: Vec<Slot> = slots.values().map(|(_, slot)| *slot).collect();
        let (calls, mut ledger, not_entered) = add_up(self.rows(), &states, &ended);
        let before = self.blocked_at_opening.as_deref().zip(blocked.as_deref()).map(|both| {
            let blocked = [both.0, both.1].concat();
            in_flight::since_before(&slots, &blocked, window, |call| !is_ending(call.tid))
        });
        ledger.in_flight_since_before = before.as_ref().map(|calls| calls.len() as u64);
        let entered = in_flight::entered(&slots, closed_ns);
        Ok(Findings {
            calls,
            ledger,
            not_entered,
            in_flight: entered.into_iter().chain(before.into_iter().flatten()).collect(),
            missed_runs: self.missed_runs(),
            unfollowed,
            turned_32_bit: (&self.turned_32_bit | &self.foreign()).into_iter().collect(),
            window,
            closed_by,
        })
    }

    /// Threads that are blocked in a call now; `None` where that cannot be known.
    fn blocked(&self) -> Option<Vec<Blocked>> {
        blocked_in_any_call(self.subject, &self.at_opening)
    }

    /// The subject's processes now, with the children that are followed.
    fn processes(&self) -> Vec<u32> {
        let named = || self.subject.targets().iter().map(|target| target.pid).collect();
        self.scope_maps.members().unwrap_or_else(named)
    }

    /// Those of the named processes that execute a 32-bit program now.
    fn foreign(&self) -> BTreeSet<u32> {
        let named = self.subject.targets().iter().map(|target| target.pid);
        named.filter(|pid| is_foreign(*pid)).collect()
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.calls.values().map(Row::new)
    }

    fn set_window(&self, state: u64) {
        if let Some(word) = self.control.values().flatten().next() {
            word.store(state, Ordering::SeqCst);
        }
    }

    /// Kernels that skip a program on a raw tracepoint count it (Linux 6.1 does both for the first
    /// time, in `__bpf_trace_run` of `kernel/trace/bpf_trace.c`), so that no number means none.
    fn missed_runs(&self) -> Option<MissedRuns> {
        let misses = |program: &LoadedProgram| {
            program.info().ok().map(|info| info.recursion_misses.unwrap_or(0))
        };
        Some(MissedRuns {
            entry: misses(&self.enter.1)?,
            exit: misses(&self.exit.1)?,
            thread_end: misses(&self.thread_end.1)?,
        })
    }
}

/// Follows the children, if the subject is a family. The tracepoints of forks hand a task's number over
/// only in the form that tracefs describes.
fn follow(
    subject: &Subject,
    scope_maps: &ScopeMaps,
    steps: &mut dyn FnMut(String),
) -> Result<Option<Family>> {
    if !matches!(subject, Subject::Family(_)) {
        return Ok(None);
    }
    let members: Vec<(String, i32)> = scope_maps.numbers().collect();
    Family::follow(&Tracefs::open(None)?, &members, cpus::first_online()?, steps).map(Some)
}

/// All maps, by the names that programs use, and their descriptors.
fn numbers(
    scope: &ScopeMaps,
    control: &MmapableArray,
    starts: &Starts,
    calls: &MmapableArray,
) -> Vec<(String, i32)> {
    let own = [(CONTROL_MAP, control.number()), (CALLS_MAP, calls.number())];
    let own = own.into_iter().map(|(name, number)| (name.to_owned(), number));
    own.chain(starts.numbers()).chain(scope.numbers()).collect()
}

fn refuse_32_bit(pid: u32) -> Error {
    Error {
        kind: Kind::Unsupported,
        step: Step::Target,
        object: format!("process {pid}"),
        cause: Cause::Text(
            "it runs a 32-bit program, and the numbers of its system calls mean other calls than \
             those of this kernel's own table"
                .to_owned(),
        ),
        next: format!("`strace -c -w -f -p {pid}` knows both kinds, but slows the process down"),
    }
}

fn collect_failed(errno: Errno) -> Error {
    Error {
        kind: Kind::Other,
        step: Step::Measure,
        object: format!("the calls: map {STARTS_MAP}"),
        cause: Cause::Errno(errno),
        next: "survey again".to_owned(),
    }
}

/// Whether the numbers of the process's calls mean others than ours.
fn is_foreign(pid: u32) -> bool {
    cfg!(target_pointer_width = "64") && is_32_bit(pid) == Some(true)
}
