//! Whose calls are measured: which processes, threads, control group or name.

use crate::insn::{
    AluOp, Assembler, Helper, JumpOp, Label,
    Reg::{R0, R1, R2, R3, R4, R6, R7, R10},
    Size,
};
use crate::loader::TracepointType;
use crate::process::PidNamespace;

use super::layout::{CONTROL_MAP, WINDOW_OPEN};
use super::programs::stack;

/// The map from a followed process (tgid, u32) to 1.
pub(super) const MEMBERS_MAP: &str = "rlat_members";
/// The array whose only element is the control group.
pub(super) const CGROUP_MAP: &str = "rlat_cgroup";

/// A process or thread, in the numbers that identify it to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it lives.
    pub namespace: PidNamespace,
    /// Its id there: of the process, or of the thread where threads are meant.
    pub id: u32,
}

/// Whose calls are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// These processes, with all their threads. Not empty.
    Processes(Vec<Member>),
    /// These threads alone. Not empty.
    Threads(Vec<Member>),
    /// These processes, and those that they fork from now on.
    Family(Vec<Member>),
    /// Every thread of that name, as `/proc/PID/comm` shows it, filled with zeros.
    Named([u8; 16]),
    /// Every task in the control group in `CGROUP_MAP`, and in those below it.
    ControlGroup,
    /// Every process but this one.
    AllBut(Member),
}

/// How a program learns which thread it runs in, in the numbers of the initial PID namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    /// By `bpf_get_current_pid_tgid`.
    Helper,
    /// By loads from the current task, for a program that may follow pointers. It needs the task for more,
    /// so this is one helper call less. The task is at [`stack::TASK`] afterwards.
    Task(TracepointType),
}

/// Appends the beginning of every program: it keeps the context in r6, and goes to `out` unless the
/// window is open and the current thread in the scope. Leaves the ids that [`emit_scope`] leaves.
pub(crate) fn emit_beginning(asm: &mut Assembler, scope: &Scope, ids: Ids, out: Label) {
    asm.mov(R6, R1).comment("r6 = the context: helpers do not keep r1 to r5");
    asm.load_map_value(R1, CONTROL_MAP, 0);
    asm.load(Size::DW, R1, R1, 0);
    asm.jump_if(JumpOp::Ne, R1, WINDOW_OPEN as i32, out).comment("is the window open?");
    emit_scope(asm, scope, ids, out);
}

/// Appends instructions that go to `out` unless the current thread is in the scope, and else leave
/// its ids: the key in r7 and at [`stack::TID`], and what people see at [`stack::IDS`].
fn emit_scope(asm: &mut Assembler, scope: &Scope, ids: Ids, out: Label) {
    match scope {
        Scope::Processes(members) => emit_members(asm, members, Which::Process, ids, out),
        Scope::Threads(members) => emit_members(asm, members, Which::Thread, ids, out),
        Scope::Family(_) => {
            emit_initial_ids(asm, ids);
            asm.load_map(R1, MEMBERS_MAP);
            asm.stack_address(R2, stack::IDS + 4).comment("key: the process");
            asm.call(Helper::MapLookupElem);
            asm.jump_if(JumpOp::Eq, R0, 0, out).comment("is it one of the family?");
        }
        Scope::Named(name) => {
            asm.stack_address(R1, stack::NAME);
            asm.mov(R2, 16).comment("TASK_COMM_LEN");
            asm.call(Helper::GetCurrentComm).comment("the thread's name, zeros behind it");
            for (half, offset) in name.as_chunks::<8>().0.iter().zip([0, 8]) {
                asm.load(Size::DW, R1, R10, stack::NAME + offset);
                asm.load_imm64(R2, u64::from_ne_bytes(*half)).comment(text_of(*half));
                asm.jump_if(JumpOp::Ne, R1, R2, out);
            }
            emit_initial_ids(asm, ids);
        }
        Scope::ControlGroup => {
            asm.load_map(R1, CGROUP_MAP);
            asm.mov(R2, 0).comment("its only element");
            asm.call(Helper::CurrentTaskUnderCgroup).comment("1: in it, or below it");
            asm.jump_if(JumpOp::Ne, R0, 1, out);
            emit_initial_ids(asm, ids);
        }
        Scope::AllBut(own) => {
            let not_own = asm.label("not_own");
            emit_is_member(asm, &[*own], Which::Process, ids, out, not_own);
            asm.bind(not_own);
            if own.namespace != PidNamespace::Initial {
                emit_initial_ids(asm, ids);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Process,
    Thread,
}

fn emit_members(asm: &mut Assembler, members: &[Member], which: Which, ids: Ids, out: Label) {
    let ours = asm.label("ours");
    emit_is_member(asm, members, which, ids, ours, out);
    asm.bind(ours);
    if members.iter().any(|member| member.namespace != PidNamespace::Initial) {
        emit_key(asm, ids);
    }
}

/// Goes to `yes` if the current thread is one of the members, else to `no`.
fn emit_is_member(
    asm: &mut Assembler,
    members: &[Member],
    which: Which,
    initial: Ids,
    yes: Label,
    no: Label,
) {
    let mut groups: Vec<(PidNamespace, Vec<u32>)> = Vec::new();
    for member in members {
        match groups.iter_mut().find(|(namespace, _)| *namespace == member.namespace) {
            Some((_, ids)) => ids.push(member.id),
            None => groups.push((member.namespace, vec![member.id])),
        }
    }
    let last = groups.len().saturating_sub(1);
    for (group, (namespace, ids)) in groups.iter().enumerate() {
        let next = if group == last { no } else { asm.label("next_namespace") };
        match *namespace {
            PidNamespace::Initial => emit_initial_ids(asm, initial),
            PidNamespace::Other { dev, ino } => {
                asm.load_imm64(R1, dev).comment("the namespace's device");
                asm.load_imm64(R2, ino).comment("and inode");
                asm.stack_address(R3, stack::IDS);
                asm.mov(R4, 8).comment("size of struct bpf_pidns_info");
                asm.call(Helper::GetNsCurrentPidTgid).comment("writes tid and tgid");
                asm.jump_if(JumpOp::Ne, R0, 0, next).comment("does it live in that namespace?");
            }
        }
        let (field, question) = match which {
            Which::Process => (stack::IDS + 4, "is it our process?"),
            Which::Thread => (stack::IDS, "is it our thread?"),
        };
        if (*namespace, which) != (PidNamespace::Initial, Which::Process) {
            asm.load(Size::W, R1, R10, field);
        }
        let (final_id, others) = match ids.split_last() {
            Some((final_id, others)) => (*final_id, others),
            None => continue,
        };
        for id in others {
            asm.jump_if(JumpOp::Eq, R1, *id as i32, yes).comment(question);
        }
        if next == no {
            asm.jump_if(JumpOp::Ne, R1, final_id as i32, no).comment(question);
        } else {
            asm.jump_if(JumpOp::Eq, R1, final_id as i32, yes).comment(question);
            asm.bind(next);
        }
    }
    asm.jump(yes);
}

/// The ids of the initial PID namespace, laid out as `struct bpf_pidns_info`: thread, then process. Leaves the
/// process in r1, too.
fn emit_initial_ids(asm: &mut Assembler, ids: Ids) {
    emit_key(asm, ids);
    match ids {
        Ids::Helper => {
            asm.mov(R1, R0);
            asm.alu(AluOp::Rsh, R1, 32).comment("r1 = the process");
        }
        Ids::Task(task) => {
            asm.load(Size::W, R1, R0, task.tgid).comment("r1 = the process");
        }
    }
    asm.store(Size::W, R10, stack::IDS, R7);
    asm.store(Size::W, R10, stack::IDS + 4, R1);
}

/// r7 = the key of the thread, which is unique on the host: its id in the initial PID namespace. Maps want it in
/// memory. Leaves in r0 what it came from.
fn emit_key(asm: &mut Assembler, ids: Ids) {
    match ids {
        Ids::Helper => {
            asm.call(Helper::GetCurrentPidTgid).comment("r0 = tgid << 32 | tid");
            asm.mov32(R7, R0).comment("r7 = the key: the thread");
        }
        Ids::Task(task) => {
            asm.call(Helper::GetCurrentTaskBtf)
                .comment("r0 = the task: one to the kernel is a thread");
            asm.store(Size::DW, R10, stack::TASK, R0);
            asm.load(Size::W, R7, R0, task.tid).comment("r7 = the key: the thread");
        }
    }
    asm.store(Size::W, R10, stack::TID, R7);
}

/// A part of a name for a comment, without what does not print.
fn text_of(bytes: [u8; 8]) -> String {
    let visible = bytes.iter().filter(|byte| byte.is_ascii_graphic());
    format!("{:?}", visible.map(|byte| char::from(*byte)).collect::<String>())
}
