//! What one system call has of its own: two programs, a store of starts, the CPUs' regions.

use std::time::Duration;

use super::Call;
use super::collect;
use super::in_flight::{self, Blocked};
use super::layout::{Counter, Region, Slot, region_words};
use super::measurement::describe;
use super::programs::{Plan, Returns, cpus_map, enter_program, exit_program, starts_map};
use super::snapshot::Counted;
use super::subject::Subject;
use super::syscall::Syscall;
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::histogram::{Linear, Unit};
use crate::insn::{AssembleError, Program};
use crate::loader::sys::ProgramType;
use crate::loader::{LoadedProgram, load};
use crate::maps::{HashMap, MmapableArray, cpus};

/// Room for this many threads that have made the call, at least.
const FEWEST_STARTS: usize = 4096;
/// Room for this many times the threads that the processes have now.
const STARTS_PER_THREAD: usize = 4;

/// One measured system call.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) syscall: Syscall,
    pub(super) enter: (Program, LoadedProgram),
    pub(super) exit: (Program, LoadedProgram),
    starts: HashMap<u32, Slot>,
    cpus: MmapableArray,
    returns: Returns,
    unit: Unit,
    linear: Option<Linear>,
}

impl Part {
    /// Creates the maps and loads the programs. `shared` are maps that all calls share.
    pub(super) fn load(
        syscall: &Syscall,
        plan: &Plan,
        threads: usize,
        shared: &[(String, i32)],
        steps: &mut dyn FnMut(String),
    ) -> Result<Self> {
        for tracepoint in [&syscall.enter, &syscall.exit] {
            steps(format!("tracepoint {tracepoint}: id {}", tracepoint.id));
        }
        let room = room_for_starts(threads);
        let starts = HashMap::create(&starts_map(&syscall.name), room)?;
        let words = region_words(plan.linear.map_or(0, Linear::bucket_count));
        let possible = cpus::possible_count()?;
        let cpus = MmapableArray::create(&cpus_map(&syscall.name), words, possible)?;
        for region in cpus.values().map(Region::new) {
            region.prepare();
        }
        steps(format!("map {}: hash, room for {room} threads", starts_map(&syscall.name)));
        let bytes = words * size_of::<u64>();
        steps(format!("map {}: {possible} regions of {bytes} bytes", cpus_map(&syscall.name)));

        let maps: Vec<(String, i32)> =
            own_maps(&syscall.name, &starts, &cpus).chain(shared.iter().cloned()).collect();
        let mut loaded = |program: std::result::Result<Program, AssembleError>| {
            let program = program.map_err(|error| unlikely(&error))?;
            let loaded = load(&program, ProgramType::Tracepoint, &by_name(&maps))?;
            steps(describe(&program, &loaded));
            Ok((program, loaded))
        };
        Ok(Self {
            syscall: syscall.clone(),
            enter: loaded(enter_program(plan))?,
            exit: loaded(exit_program(plan))?,
            starts,
            cpus,
            returns: plan.returns,
            unit: plan.unit,
            linear: plan.linear,
        })
    }

    /// Its maps, by the names that programs use, and their descriptors.
    pub(super) fn maps(&self) -> impl Iterator<Item = (String, i32)> {
        own_maps(&self.syscall.name, &self.starts, &self.cpus)
    }

    /// How many calls have been recorded so far.
    pub(super) fn recorded(&self) -> u64 {
        self.regions().map(|region| region.get(Counter::Recorded)).sum()
    }

    /// What is in the histograms now. Held calls are not: they come when they are recorded.
    pub(super) fn counted(&self) -> Counted {
        Counted {
            syscall: self.syscall.name.clone(),
            histogram: collect::histogram(self.regions(), self.unit),
            linear: self.linear.map(|edges| collect::linear(self.regions(), edges)),
        }
    }

    /// Adds everything up after the window has closed. `blocked` are the threads that were blocked in
    /// a measured call just before, where that is known.
    pub(super) fn collect(
        &self,
        subject: &Subject,
        blocked: Option<&[Blocked]>,
        closed_ns: u64,
        window: Duration,
    ) -> Result<Call> {
        let slots = self.starts.entries().map_err(|errno| Error {
            kind: Kind::Other,
            step: Step::Measure,
            object: format!(
                "{}() calls: map {}",
                self.syscall.name,
                starts_map(&self.syscall.name)
            ),
            cause: Cause::Errno(errno),
            next: "measure again".to_owned(),
        })?;
        let held: Vec<u64> = collect::held(slots.iter().map(|(_, slot)| *slot)).collect();
        let slots = in_flight::by_visible_tid(subject, slots);
        let entered = in_flight::entered(&self.syscall, &slots, closed_ns);

        let mut ledger = collect::ledger(self.regions());
        let before = blocked
            .map(|blocked| in_flight::since_before(&self.syscall, &slots, blocked, window))
            // In a full store a slot may be missing for another reason.
            .filter(|calls| ledger.lost.store_full == 0 || calls.is_empty());
        ledger.recorded += held.len() as u64;
        ledger.in_flight = entered.len() as u64;
        ledger.in_flight_since_before = before.as_ref().map(|calls| calls.len() as u64);
        let mut histogram = collect::histogram(self.regions(), self.unit);
        let mut linear = self.linear.map(|edges| collect::linear(self.regions(), edges));
        if self.returns.include_interrupted() {
            for ns in held {
                histogram.record(ns);
                if let Some(linear) = &mut linear {
                    linear.record(ns / self.unit.nanos());
                }
            }
        } else {
            ledger.excluded += held.len() as u64;
        }
        Ok(Call {
            syscall: self.syscall.name.clone(),
            histogram,
            linear,
            ledger,
            in_flight: entered.into_iter().chain(before.into_iter().flatten()).collect(),
        })
    }

    fn regions(&self) -> impl Iterator<Item = Region<'_>> {
        self.cpus.values().map(Region::new)
    }
}

/// How many threads a store of starts has room for, when the processes have `threads` of them now.
pub(crate) fn room_for_starts(threads: usize) -> u32 {
    (threads * STARTS_PER_THREAD).max(FEWEST_STARTS) as u32
}

fn own_maps(
    syscall: &str,
    starts: &HashMap<u32, Slot>,
    cpus: &MmapableArray,
) -> impl Iterator<Item = (String, i32)> {
    [(starts_map(syscall), starts.number()), (cpus_map(syscall), cpus.number())].into_iter()
}

/// Maps as linking takes them.
pub(crate) fn by_name(maps: &[(String, i32)]) -> Vec<(&str, i32)> {
    maps.iter().map(|(name, number)| (name.as_str(), *number)).collect()
}

/// The error for a program of ours that cannot be put together.
pub(crate) fn unlikely(error: &AssembleError) -> Error {
    Error {
        kind: Kind::Other,
        step: Step::Assemble,
        object: "of the measurement".to_owned(),
        cause: Cause::Text(error.to_string()),
        next: "this is a bug in rlat: please report it".to_owned(),
    }
}
