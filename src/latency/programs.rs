//! The three programs: at a call's entry, at its exit, and at the end of a thread.
//!
//! Each begins by leaving everything alone that is not measured: is the window open, is it our
//! process. Register use is the same in all of them: r6 the context, r7 the thread's slot, r8 a time,
//! r9 this CPU's region; r0 to r5 are scratch, and lost at every helper call.

use super::bucket::emit_bucket_index;
use super::layout::{
    BUCKETS_OFFSET, CONTROL_MAP, CPUS_MAP, Counter, STARTS_MAP, Slot, WINDOW_OPEN,
};
use crate::insn::{
    AluOp, AssembleError, Assembler, AtomicOp, Helper, JumpOp, Label, Program,
    Reg::{self, R0, R1, R2, R3, R4, R6, R7, R8, R9, R10},
    Size,
};
use crate::process::PidNamespace;

/// What the programs are made for.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The process, as the initial PID namespace counts.
    pub pid: u32,
    /// Where the process lives; it decides which helper identifies it.
    pub namespace: PidNamespace,
    /// Only calls on this descriptor, if given.
    pub descriptor: Option<u32>,
    /// Offset of the first argument in the context of the entry's tracepoint, in bytes.
    pub argument_offset: i16,
    /// Offset of the result in the context of the exit's tracepoint, in bytes.
    pub result_offset: i16,
}

/// The programs, not loaded yet.
#[derive(Clone, Debug)]
pub struct Programs {
    /// For `sys_enter_read`.
    pub enter: Program,
    /// For `sys_exit_read`.
    pub exit: Program,
    /// For `sched_process_exit`.
    pub thread_end: Program,
}

/// Places on the stack, as offsets from r10. A key is passed to a map by pointer, so it must be in
/// memory.
mod stack {
    /// u32: the thread, as the key of a slot.
    pub(super) const TID: i16 = -4;
    /// u32: the CPU, as the index of a region.
    pub(super) const CPU: i16 = -8;
    /// `struct bpf_pidns_info`: two u32, the thread and the process.
    pub(super) const NAMESPACE_IDS: i16 = -16;
    /// A new slot.
    pub(super) const SLOT: i16 = -40;
}

/// Restart codes: what a call returns within the kernel when a signal interrupted it
/// (`include/linux/errno.h`, `ERESTARTSYS` to `ERESTART_RESTARTBLOCK`).
const LAST_RESTART_CODE: i32 = -516;
const FIRST_RESTART_CODE: i32 = -512;

impl Programs {
    /// Writes the programs.
    ///
    /// # Errors
    /// Never for any plan; the assembler's checks are passed on all the same.
    ///
    /// ```
    /// use rlat::latency::{Plan, Programs};
    /// use rlat::process::PidNamespace;
    ///
    /// let plan = Plan {
    ///     pid: 1234,
    ///     namespace: PidNamespace::Initial,
    ///     descriptor: Some(7),
    ///     argument_offset: 16,
    ///     result_offset: 16,
    /// };
    /// let programs = Programs::new(&plan)?;
    /// assert!(programs.enter.to_string().contains("if r1 != 1234 goto"));
    /// # Ok::<(), rlat::insn::AssembleError>(())
    /// ```
    pub fn new(plan: &Plan) -> Result<Self, AssembleError> {
        Ok(Self { enter: enter(plan)?, exit: exit(plan)?, thread_end: thread_end(plan)? })
    }
}

/// A call enters: remember when.
fn enter(plan: &Plan) -> Result<Program, AssembleError> {
    let mut emit = Emitter::begin("rlat_read_enter", plan);
    let new_thread = emit.asm.label("new_thread");
    let have_slot = emit.asm.label("have_slot");
    let leftover = emit.asm.label("leftover");
    let fresh = emit.asm.label("fresh");
    let other_descriptor = emit.asm.label("other_descriptor");

    emit.find_slot();
    emit.asm.jump_if(JumpOp::Eq, R0, 0, new_thread).comment("its first call in the window");
    emit.asm.bind(have_slot);
    emit.asm.mov(R7, R0).comment("r7 = the thread's slot");
    emit.asm.load(Size::DW, R1, R7, Slot::START_NS);
    emit.asm
        .jump_if(JumpOp::Ne, R1, Slot::IDLE, leftover)
        .comment("nothing left of the last call?");

    emit.asm.bind(fresh);
    emit.asm.load(Size::DW, R2, R6, plan.argument_offset).comment("first argument: the descriptor");
    emit.asm.store(Size::DW, R7, Slot::DESCRIPTOR, R2);
    if let Some(descriptor) = plan.descriptor {
        emit.asm.mov32(R2, R2).comment("of which the kernel reads 32 bits");
        emit.asm.jump_if(JumpOp::Ne, R2, descriptor as i32, other_descriptor);
    }
    emit.find_region();
    emit.count(Counter::Entered);
    emit.asm.call(Helper::KtimeGetNs).comment("the last thing before the call itself");
    emit.asm.store(Size::DW, R7, Slot::START_NS, R0).comment("the call begins");
    emit.leave();

    if plan.descriptor.is_some() {
        emit.asm.bind(other_descriptor);
        emit.asm.mov(R1, Slot::FILTERED);
        emit.asm.store(Size::DW, R7, Slot::START_NS, R1).comment("so that its exit finds this");
        emit.leave();
    }

    // What the last call left: a held one is complete now, and a start means that its exit was missed.
    let missed = emit.asm.label("missed");
    emit.asm.bind(leftover);
    emit.asm.jump_if(JumpOp::Eq, R1, Slot::FILTERED, fresh).comment("it was not measured");
    emit.asm.mov(R8, R1);
    emit.find_region();
    emit.asm.jump_if(JumpOp::Ne, R8, Slot::HELD, missed);
    emit.asm.load(Size::DW, R8, R7, Slot::HELD_NS).comment("the thread outlived the signal");
    emit.record();
    emit.asm.jump(fresh);
    emit.asm.bind(missed);
    emit.count(Counter::ExitMissed);
    emit.asm.jump(fresh);

    emit.asm.bind(new_thread);
    emit.insert_slot();
    emit.find_slot();
    emit.asm.jump_if(JumpOp::Ne, R0, 0, have_slot);
    // No room for one more thread.
    if let Some(descriptor) = plan.descriptor {
        emit.asm.load(Size::DW, R2, R6, plan.argument_offset);
        emit.asm.mov32(R2, R2);
        emit.asm.jump_if(JumpOp::Ne, R2, descriptor as i32, emit.out);
    }
    emit.find_region();
    emit.count(Counter::Entered);
    emit.count(Counter::StoreFull);
    emit.finish()
}

/// A call exits: how long did it take.
fn exit(plan: &Plan) -> Result<Program, AssembleError> {
    let mut emit = Emitter::begin("rlat_read_exit", plan);
    let no_slot = emit.asm.label("no_slot");
    let no_start = emit.asm.label("no_start");
    let negative = emit.asm.label("negative");
    let returned = emit.asm.label("returned");

    emit.asm.call(Helper::KtimeGetNs).comment("the first thing after the call itself");
    emit.asm.mov(R8, R0).comment("r8 = now");
    emit.find_slot();
    emit.asm.jump_if(JumpOp::Eq, R0, 0, no_slot);
    emit.asm.mov(R7, R0).comment("r7 = the thread's slot");
    emit.asm.load(Size::DW, R1, R7, Slot::START_NS);
    emit.asm.jump_if(JumpOp::Eq, R1, Slot::IDLE, no_start);
    emit.asm.jump_if(JumpOp::Eq, R1, Slot::HELD, no_start).comment("the held one has exited");
    emit.asm.mov(R2, Slot::IDLE);
    emit.asm.store(Size::DW, R7, Slot::START_NS, R2).comment("forget the start, come what may");
    emit.asm.jump_if(JumpOp::Eq, R1, Slot::FILTERED, emit.out);
    emit.asm.alu(AluOp::Sub, R8, R1).comment("r8 = how long it took");
    emit.find_region();
    emit.asm.jump_if(JumpOp::Slt, R8, 0, negative);

    emit.asm.load(Size::DW, R1, R6, plan.result_offset).comment("what the call returns");
    emit.asm.jump_if(JumpOp::Sgt, R1, FIRST_RESTART_CODE, returned);
    emit.asm.jump_if(JumpOp::Slt, R1, LAST_RESTART_CODE, returned);
    emit.count(Counter::Restarted);
    emit.asm.store(Size::DW, R7, Slot::HELD_NS, R8).comment("a signal, maybe a deadly one:");
    emit.asm.mov(R1, Slot::HELD);
    emit.asm.store(Size::DW, R7, Slot::START_NS, R1).comment("wait for what the thread does next");
    emit.leave();

    emit.asm.bind(returned);
    emit.record();
    emit.leave();

    emit.asm.bind(negative);
    emit.count(Counter::Negative);
    emit.leave();

    emit.asm.bind(no_slot);
    emit.insert_slot();
    emit.asm.jump_if(JumpOp::Ne, R0, 0, emit.out).comment("full: its entry was counted as lost");
    emit.asm.bind(no_start);
    emit.find_region();
    emit.count(Counter::ExitWithoutStart);
    emit.finish()
}

/// A thread ends: its id may be given to another one, which must not find its start.
fn thread_end(plan: &Plan) -> Result<Program, AssembleError> {
    let mut emit = Emitter::begin("rlat_thread_end", plan);
    emit.find_slot();
    emit.asm.jump_if(JumpOp::Eq, R0, 0, emit.out);
    emit.asm.load(Size::DW, R8, R0, Slot::START_NS);
    emit.asm.load_map(R1, STARTS_MAP);
    emit.pointer_to(R2, stack::TID);
    emit.asm.call(Helper::MapDeleteElem).comment("room for another thread");
    emit.asm.jump_if(JumpOp::Eq, R8, Slot::IDLE, emit.out);
    emit.asm.jump_if(JumpOp::Eq, R8, Slot::FILTERED, emit.out);
    emit.find_region();
    emit.count(Counter::EndedWithoutExit);
    emit.finish()
}

/// A program in the making, and the pieces that more than one of them has.
struct Emitter {
    asm: Assembler,
    /// Where the program returns 0, so that perf makes no record of it.
    out: Label,
}

impl Emitter {
    /// The beginning of every program: leaves unless the window is open and the process is ours. The
    /// thread's id is on the stack then, and the context in r6.
    fn begin(name: &str, plan: &Plan) -> Self {
        let mut asm = Assembler::new(name);
        let out = asm.label("out");
        asm.mov(R6, R1).comment("r6 = the context: helpers do not keep r1 to r5");
        asm.load_map_value(R1, CONTROL_MAP, 0);
        asm.load(Size::DW, R1, R1, 0);
        asm.jump_if(JumpOp::Ne, R1, WINDOW_OPEN as i32, out).comment("is the window open?");
        match plan.namespace {
            PidNamespace::Initial => {
                asm.call(Helper::GetCurrentPidTgid).comment("r0 = tgid << 32 | tid");
                asm.mov(R1, R0);
                asm.alu(AluOp::Rsh, R1, 32);
                asm.jump_if(JumpOp::Ne, R1, plan.pid as i32, out).comment("is it our process?");
            }
            PidNamespace::Other { dev, ino, tgid } => {
                asm.load_imm64(R1, dev).comment("the namespace's device");
                asm.load_imm64(R2, ino).comment("and inode");
                asm.mov(R3, R10);
                asm.alu(AluOp::Add, R3, i32::from(stack::NAMESPACE_IDS));
                asm.mov(R4, 8).comment("size of struct bpf_pidns_info");
                asm.call(Helper::GetNsCurrentPidTgid);
                asm.jump_if(JumpOp::Ne, R0, 0, out).comment("does it live in that namespace?");
                asm.load(Size::W, R1, R10, stack::NAMESPACE_IDS + 4).comment("tgid there");
                asm.jump_if(JumpOp::Ne, R1, tgid as i32, out).comment("is it our process?");
                asm.load(Size::W, R0, R10, stack::NAMESPACE_IDS).comment("tid there");
            }
        }
        asm.store(Size::W, R10, stack::TID, R0).comment("the key: the thread");
        Self { asm, out }
    }

    /// `register = r10 + offset`
    fn pointer_to(&mut self, register: Reg, offset: i16) {
        self.asm.mov(register, R10);
        self.asm.alu(AluOp::Add, register, i32::from(offset));
    }

    /// r0 = the thread's slot, or null.
    fn find_slot(&mut self) {
        self.asm.load_map(R1, STARTS_MAP);
        self.pointer_to(R2, stack::TID);
        self.asm.call(Helper::MapLookupElem).comment("r0 = the thread's slot, or null");
    }

    /// Inserts an idle slot for the thread. r0 = 0, or a negative errno when there is no room.
    fn insert_slot(&mut self) {
        self.asm.mov(R1, Slot::IDLE);
        for field in [Slot::START_NS, Slot::DESCRIPTOR, Slot::HELD_NS] {
            self.asm.store(Size::DW, R10, stack::SLOT + field, R1);
        }
        self.asm.load_map(R1, STARTS_MAP);
        self.pointer_to(R2, stack::TID);
        self.pointer_to(R3, stack::SLOT);
        self.asm.mov(R4, 0).comment("BPF_ANY");
        self.asm.call(Helper::MapUpdateElem).comment("insert an idle slot");
    }

    /// r9 = this CPU's region.
    fn find_region(&mut self) {
        self.asm.call(Helper::GetSmpProcessorId);
        self.asm.store(Size::W, R10, stack::CPU, R0);
        self.asm.load_map(R1, CPUS_MAP);
        self.pointer_to(R2, stack::CPU);
        self.asm.call(Helper::MapLookupElem);
        self.asm.jump_if(JumpOp::Eq, R0, 0, self.out).comment("never: each CPU has one");
        self.asm.mov(R9, R0).comment("r9 = this CPU's region");
    }

    /// Adds 1 to a counter of the region.
    fn count(&mut self, counter: Counter) {
        self.asm.mov(R1, 1);
        self.asm
            .atomic(AtomicOp::Add, R9, counter.offset(), R1)
            .comment(format!("count it: {counter:?}"));
    }

    /// Records the latency in r8: count, sum, extremes and bucket.
    ///
    /// The extremes are read and written in two steps, which is right as long as no other program of
    /// ours runs on this CPU in between: perf calls programs with preemption disabled
    /// (`perf_syscall_enter` in `kernel/trace/trace_syscalls.c`).
    fn record(&mut self) {
        let not_longest = self.asm.label("not_longest");
        let not_shortest = self.asm.label("not_shortest");
        self.count(Counter::Recorded);
        self.asm.atomic(AtomicOp::Add, R9, Counter::SumNs.offset(), R8);
        self.asm.load(Size::DW, R1, R9, Counter::MaxNs.offset());
        self.asm.jump_if(JumpOp::Le, R8, R1, not_longest);
        self.asm.store(Size::DW, R9, Counter::MaxNs.offset(), R8).comment("the longest so far");
        self.asm.bind(not_longest);
        self.asm.load(Size::DW, R1, R9, Counter::MinNs.offset());
        self.asm.jump_if(JumpOp::Ge, R8, R1, not_shortest);
        self.asm.store(Size::DW, R9, Counter::MinNs.offset(), R8).comment("the shortest so far");
        self.asm.bind(not_shortest);
        self.asm.mov(R1, R8);
        self.asm.alu(AluOp::Div, R1, 1000).comment("whole microseconds");
        emit_bucket_index(&mut self.asm, R1, R2, R3);
        self.asm.alu(AluOp::Lsh, R2, 3).comment("8 bytes each");
        self.asm.alu(AluOp::Add, R2, R9);
        self.asm.mov(R1, 1);
        self.asm.atomic(AtomicOp::Add, R2, BUCKETS_OFFSET, R1).comment("one more in that bucket");
    }

    fn leave(&mut self) {
        self.asm.jump(self.out);
    }

    fn finish(mut self) -> Result<Program, AssembleError> {
        self.asm.bind(self.out);
        self.asm.mov(R0, 0).comment("0: perf makes no record");
        self.asm.exit();
        self.asm.finish()
    }
}
