//! Following children: who belongs to a family.
//!
//! The map of members holds the processes that are measured. Two programs keep it up to date, and do so
//! while the window is closed, too:
//!
//! - at `sched:sched_process_fork`, before the new task runs for the first time: it is a member if its
//!   parent is one. The tracepoint does not say whether the new task is a process or a thread, so that
//!   threads get in as well; that does no harm, since members are looked up by process.
//! - at `sched:sched_process_free`, when nothing is left of a task: its number is taken out, which makes
//!   room.
//!
//! What makes a number safe to keep is the first one: each new task passes it, and a stranger that is
//! given the number of a dead member is taken out there. So a removal that never comes costs room only,
//! and some do not come: the kernel frees tasks in a softirq, and skips the program there if the softirq
//! has interrupted another program. Of 500 short processes at once, up to 33 stayed in the map so.
//!
//! A removal that comes late would do harm: the kernel gives a number away again some milliseconds before
//! the second tracepoint. But it gives them in rising order, so that all others would have to be given
//! within that time.

use std::sync::atomic::Ordering;

use super::loading::load_own;
use super::programs::stack;
use super::scope::MEMBERS_MAP;
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::insn::{
    AluOp, AssembleError, Assembler, AtomicOp, Helper, JumpOp, Program,
    Reg::{R0, R1, R2, R3, R4, R6, R10},
    Size,
};
use crate::loader::sys::ProgramType;
use crate::loader::{Attachment, LoadedProgram, Tracepoint, attach, counts_missed_runs};
use crate::maps::MmapableArray;
use crate::tracefs::Tracefs;

/// The array whose only word counts the tasks that found no room among the members.
const NOT_FOLLOWED_MAP: &str = "rlat_unfollowed";

/// What a member has in the map.
pub(super) const IS_MEMBER: u32 = 1;

/// What may be missing from the numbers, since a child was not followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfollowed {
    /// New processes and threads for which the map of members had no room.
    pub no_room: u64,
    /// How often the kernel skipped the program at a fork, by anybody; `None` where it does not count
    /// that.
    pub missed_forks: Option<u64>,
}

/// The two programs, at work until this is dropped.
#[derive(Debug)]
pub(crate) struct Family {
    fork: (Program, LoadedProgram),
    free: (Program, LoadedProgram),
    not_followed: MmapableArray,
    _attachments: [Attachment; 2],
}

impl Family {
    /// Loads and attaches the programs. `members` are the name and descriptor of the map of members.
    pub(crate) fn follow(
        tracefs: &Tracefs,
        members: &[(String, i32)],
        cpu: u32,
        steps: &mut dyn FnMut(String),
    ) -> Result<Self> {
        let (on_fork, child) = tracepoint(tracefs, "sched_process_fork", "child_pid")?;
        let (on_free, task) = tracepoint(tracefs, "sched_process_free", "pid")?;
        let not_followed = MmapableArray::create(NOT_FOLLOWED_MAP, 1, 1)?;
        let maps: Vec<(String, i32)> =
            members.iter().cloned().chain(own_map(&not_followed)).collect();
        let fork = load_own(fork_program(child), ProgramType::Tracepoint, &maps, steps)?;
        let free = load_own(free_program(task), ProgramType::Tracepoint, &maps, steps)?;
        let attachments = [attach(&free.1, &on_free, cpu)?, attach(&fork.1, &on_fork, cpu)?];
        Ok(Self { fork, free, not_followed, _attachments: attachments })
    }

    /// Its programs, for whoever wants to read them.
    pub(crate) fn programs(&self) -> [&Program; 2] {
        [&self.fork.0, &self.free.0]
    }

    pub(super) fn loaded(&self) -> [&LoadedProgram; 2] {
        [&self.fork.1, &self.free.1]
    }

    /// The map that it has beside the members', by the name that programs use.
    pub(crate) fn maps(&self) -> impl Iterator<Item = (String, i32)> {
        own_map(&self.not_followed)
    }

    /// Who was not followed so far.
    pub(crate) fn unfollowed(&self) -> Unfollowed {
        let words = self.not_followed.values().flatten();
        let missed = self.fork.1.info().ok().and_then(|info| info.recursion_misses);
        Unfollowed {
            no_room: words.map(|word| word.load(Ordering::Relaxed)).sum(),
            missed_forks: missed.filter(|missed| *missed > 0 || counts_missed_runs()),
        }
    }
}

fn own_map(not_followed: &MmapableArray) -> impl Iterator<Item = (String, i32)> + use<> {
    [(NOT_FOLLOWED_MAP.to_owned(), not_followed.number())].into_iter()
}

/// A task is made: it belongs to the family if its parent does, which is the current task.
/// `child_offset` is where the context has the new task's number, in bytes.
///
/// # Errors
/// Never; the assembler's checks are passed on all the same.
///
/// ```
/// let program = rlat::latency::fork_program(20)?;
/// assert!(program.to_string().contains("*(u32 *)(r6 + 20)"));
/// # Ok::<(), rlat::insn::AssembleError>(())
/// ```
pub fn fork_program(child_offset: i16) -> std::result::Result<Program, AssembleError> {
    let mut asm = Assembler::new("rlat_fork");
    let out = asm.label("out");
    let stranger = asm.label("stranger");
    asm.mov(R6, R1).comment("r6 = the context: helpers do not keep r1 to r5");
    asm.call(Helper::GetCurrentPidTgid).comment("r0 = tgid << 32 | tid");
    asm.alu(AluOp::Rsh, R0, 32);
    asm.store(Size::W, R10, stack::IDS, R0).comment("key: the parent's process");
    asm.load(Size::W, R1, R6, child_offset).comment("the new task");
    asm.store(Size::W, R10, stack::TID, R1).comment("key: the new task");
    point_into_members(&mut asm, stack::IDS);
    asm.call(Helper::MapLookupElem);
    asm.jump_if(JumpOp::Eq, R0, 0, stranger).comment("is the parent one of the family?");

    asm.mov(R1, IS_MEMBER as i32);
    asm.store(Size::W, R10, stack::REGION, R1);
    point_into_members(&mut asm, stack::TID);
    asm.stack_address(R3, stack::REGION);
    asm.mov(R4, 0).comment("BPF_ANY");
    asm.call(Helper::MapUpdateElem).comment("then its child is, too");
    asm.jump_if(JumpOp::Eq, R0, 0, out);
    asm.load_map_value(R1, NOT_FOLLOWED_MAP, 0);
    asm.mov(R2, 1);
    asm.atomic(AtomicOp::Add, R1, 0, R2).comment("count it: no room");
    asm.jump(out);

    asm.bind(stranger);
    point_into_members(&mut asm, stack::TID);
    asm.call(Helper::MapDeleteElem).comment("in case a dead member had this number");
    finish(asm, out)
}

/// Nothing is left of a task: its number makes room for another one. `task_offset` is where the
/// context has that number, in bytes.
///
/// # Errors
/// As [`fork_program`].
pub fn free_program(task_offset: i16) -> std::result::Result<Program, AssembleError> {
    let mut asm = Assembler::new("rlat_free");
    let out = asm.label("out");
    asm.load(Size::W, R1, R1, task_offset).comment("the task");
    asm.store(Size::W, R10, stack::TID, R1);
    point_into_members(&mut asm, stack::TID);
    asm.call(Helper::MapDeleteElem);
    finish(asm, out)
}

/// r1 = the map of members, r2 = the key at that place on the stack.
fn point_into_members(asm: &mut Assembler, key: i16) {
    asm.load_map(R1, MEMBERS_MAP);
    asm.stack_address(R2, key);
}

fn finish(
    mut asm: Assembler,
    out: crate::insn::Label,
) -> std::result::Result<Program, AssembleError> {
    asm.bind(out);
    asm.mov(R0, 0).comment("0: perf makes no record");
    asm.exit();
    asm.finish()
}

/// A tracepoint of the scheduler, and the offset of the field that holds a task's number.
fn tracepoint(tracefs: &Tracefs, name: &str, field: &str) -> Result<(Tracepoint, i16)> {
    let category = "sched".to_owned();
    let id = tracefs.tracepoint_id(&category, name)?;
    let tracepoint = Tracepoint { category, name: name.to_owned(), id };
    let format = tracefs.format(&tracepoint.category, name)?;
    let offset = format
        .field(field)
        .filter(|field| field.size == 4)
        .and_then(|field| i16::try_from(field.offset).ok())
        .ok_or_else(|| Error {
            kind: Kind::Unsupported,
            step: Step::Tracepoint,
            object: tracepoint.to_string(),
            cause: Cause::Text(format!("its format has no field {field} of 4 bytes")),
            next: "please report this with the tracepoint's `format` file".to_owned(),
        })?;
    Ok((tracepoint, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_reads_the_task_where_the_format_says() {
        let text =
            |program: std::result::Result<Program, AssembleError>| program.unwrap().to_string();
        assert!(text(fork_program(44)).contains("r1 = *(u32 *)(r6 + 44)"));
        assert!(text(free_program(24)).contains("r1 = *(u32 *)(r1 + 24)"));
    }
}
