//! The programs: at a call's entry, at its exit, and at the end of a thread.
//!
//! Each begins by leaving everything alone that is not measured: is the window open, is the thread in
//! the scope. Register use is the same in all of them: r6 the context, r7 the thread's id and then its slot, r8 a
//! time or the number of a measured call, r9 this CPU's region; r0 to r5 are scratch, and lost at every
//! helper call.
//!
//! There are two sets. On the tracepoints of each call ([`Way::Tracepoint`]) there is one program at
//! each, which knows what call it is for. On the raw tracepoints ([`Way::Raw`]) there is one for all
//! entries, which looks at the number, and one for all exits, which is not told the number and needs none:
//! a thread is in one call at a time, and its slot says in which.

mod emitter;
mod enter;
mod exit;
mod plan;
mod thread_end;

pub(crate) use emitter::{FIRST_RESTART_CODE, LAST_ERROR, LAST_RESTART_CODE};
use plan::Access;
pub use plan::{KernelReads, Plan, PlannedCall, Returns, TypedEntry, Way};

use crate::insn::{AssembleError, Program};
use crate::loader::sys::ProgramType;

/// Places on the stack, as offsets from r10. A key is passed to a map by pointer, so it must be in
/// memory.
pub(crate) mod stack {
    /// u32: the thread in the initial PID namespace, as the key of a slot.
    pub(crate) const TID: i16 = -4;
    /// u32: the index of a region.
    pub(crate) const REGION: i16 = -8;
    /// `struct bpf_pidns_info`: two u32, the thread and the process as people see them.
    pub(crate) const IDS: i16 = -16;
    /// 16 bytes: the thread's name.
    pub(crate) const NAME: i16 = -32;
    /// `struct task_struct *`: the current task, in a program that may follow pointers.
    pub(crate) const TASK: i16 = -24;
    /// u64: what was read from kernel memory. The name is not needed any more then.
    pub(super) const READ: i16 = -32;
}

/// Where a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The end of any thread: `sched:sched_process_exit`, or the raw tracepoint of that name.
    ThreadEnd,
    /// The tracepoint at the exit of the measured call of that index.
    Exit(usize),
    /// The tracepoint at the entry of the measured call of that index.
    Enter(usize),
    /// The raw tracepoint `sys_exit`.
    EveryExit,
    /// The raw tracepoint `sys_enter`.
    EveryEnter,
}

impl Plan {
    /// The programs, in the order to attach them: the entries last, since an entry that is seen is to
    /// have its exit seen, too.
    ///
    /// # Errors
    /// Never for any plan; the assembler's checks are passed on all the same.
    ///
    /// ```
    /// use rlat::latency::{Extremes, Member, Plan, PlannedCall, Returns, Room, Scope, Way};
    /// use rlat::process::PidNamespace;
    ///
    /// let plan = Plan {
    ///     scope: Scope::Processes(vec![Member { namespace: PidNamespace::Initial, id: 1234 }]),
    ///     calls: vec![PlannedCall {
    ///         name: "read".to_owned(),
    ///         number: Some(0),
    ///         argument_offset: Some(16),
    ///         result_offset: 16,
    ///     }],
    ///     descriptors: vec![7],
    ///     returns: Returns::Any,
    ///     unit: rlat::histogram::Unit::Us,
    ///     linear: None,
    ///     room: Room { direct_slots: 1024, threads: 4096, on_demand: false },
    ///     extremes: Extremes::CompareExchange,
    ///     way: Way::Tracepoint,
    /// };
    /// let programs = plan.programs()?;
    /// assert_eq!(programs.len(), 3);
    /// assert!(programs[2].1.to_string().contains("if r1 != 1234 goto"));
    /// # Ok::<(), rlat::insn::AssembleError>(())
    /// ```
    pub fn programs(&self) -> Result<Vec<(Place, Program)>, AssembleError> {
        let mut programs = vec![(Place::ThreadEnd, thread_end::program(self)?)];
        match self.way {
            Way::Tracepoint => {
                for call in 0..self.calls.len() {
                    programs.push((Place::Exit(call), exit::program(self, call)?));
                }
                for call in 0..self.calls.len() {
                    programs.push((Place::Enter(call), enter::program(self, call)?));
                }
            }
            Way::Raw { .. } => {
                programs.push((Place::EveryExit, exit::raw_program(self)?));
                programs.push((Place::EveryEnter, enter::raw_program(self)?));
            }
        }
        Ok(programs)
    }

    /// The type that the kernel is to load the program of that place as.
    pub const fn program_type(&self, place: Place) -> ProgramType {
        match (self.way, place) {
            (Way::Tracepoint, _) => ProgramType::Tracepoint,
            (Way::Raw { typed: Some(entry), .. }, Place::EveryEnter) => {
                ProgramType::TypedRawTracepoint(entry.tracepoint.number)
            }
            (Way::Raw { .. }, _) => ProgramType::RawTracepoint,
        }
    }

    /// Whether each thread counts the calls that it enters in its slot, not in a region: where there is one
    /// call, so that the slot needs no counter for each.
    pub const fn counts_entries_in_slots(&self) -> bool {
        self.calls.len() == 1
    }

    /// Whether a slot keeps the call's first argument.
    pub const fn keeps_argument(&self) -> bool {
        match self.way {
            Way::Tracepoint => true,
            Way::Raw { reads, typed } => {
                (reads.is_some() || typed.is_some()) && !self.descriptors.is_empty()
            }
        }
    }
}
