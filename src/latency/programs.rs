//! The programs: at a call's entry, at its exit, and at the end of a thread.
//!
//! Each begins by leaving everything alone that is not measured: is the window open, is the thread in
//! the scope. Register use is the same in all of them: r6 the context, r7 the thread's slot, r8 a
//! time, r9 this CPU's region; r0 to r5 are scratch, and lost at every helper call.

use super::bucket::{emit_bucket_index, emit_linear_index};
use super::layout::{
    BUCKETS_OFFSET, CONTROL_MAP, Counter, ERRNOS, ERRNOS_OFFSET, LINEAR_OFFSET, Slot, WINDOW_OPEN,
};
use super::scope::{Scope, emit_scope};
use crate::histogram::{Linear, Unit};
use crate::insn::{
    AluOp, AssembleError, Assembler, AtomicOp, Helper, Insn, JumpOp, Label, Program,
    Reg::{self, R0, R1, R2, R3, R4, R6, R7, R8, R9, R10},
    Size, Width,
};

/// What the programs of one system call are made for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The system call's name, such as `read`.
    pub syscall: String,
    /// Whose calls.
    pub scope: Scope,
    /// Only calls on one of these descriptors; none means any.
    pub descriptors: Vec<u32>,
    /// Offset of the first argument in the context of the entry's tracepoint, in bytes; `None` for a
    /// call without arguments.
    pub argument_offset: Option<i16>,
    /// Offset of the result in the context of the exit's tracepoint, in bytes.
    pub result_offset: i16,
    /// Which calls are put into the histogram.
    pub returns: Returns,
    /// What the buckets count.
    pub unit: Unit,
    /// Linear buckets beside the logarithmic ones.
    pub linear: Option<Linear>,
}

/// Calls by what they returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Returns {
    /// All calls.
    #[default]
    Any,
    /// Those that returned no error: 0 or more.
    Ok,
    /// Those that returned an error, or were interrupted by a signal.
    Error,
    /// Those that returned 0, which is the end of the file for a read().
    Zero,
}

/// The logical name of the map from threads to the start of their call.
pub(super) fn starts_map(syscall: &str) -> String {
    format!("rlat_st_{syscall}")
}

/// The logical name of the map with each CPU's counters and buckets.
pub(super) fn cpus_map(syscall: &str) -> String {
    format!("rlat_cpu_{syscall}")
}

/// The kernel keeps 15 bytes of a program's name: what tells them apart comes first where the whole
/// does not fit.
fn program_name(syscall: &str, enter: bool) -> String {
    let (after, before) = if enter { ("enter", "in") } else { ("exit", "out") };
    let whole = format!("rlat_{syscall}_{after}");
    if whole.len() < crate::loader::sys::NAME_BYTES {
        whole
    } else {
        format!("rlat_{before}_{syscall}")
    }
}

/// Places on the stack, as offsets from r10. A key is passed to a map by pointer, so it must be in
/// memory.
pub(crate) mod stack {
    /// u32: the thread in the initial PID namespace, as the key of a slot.
    pub(crate) const TID: i16 = -4;
    /// u32: the CPU, as the index of a region.
    pub(in super::super) const CPU: i16 = -8;
    /// `struct bpf_pidns_info`: two u32, the thread and the process as people see them.
    pub(crate) const IDS: i16 = -16;
    /// 16 bytes: the thread's name.
    pub(crate) const NAME: i16 = -32;
    /// A new slot, 32 bytes.
    pub(super) const SLOT: i16 = -64;
}

/// Restart codes: what a call returns within the kernel when a signal interrupted it
/// (`include/linux/errno.h`, `ERESTARTSYS` to `ERESTART_RESTARTBLOCK`).
pub(crate) const LAST_RESTART_CODE: i32 = -516;
pub(crate) const FIRST_RESTART_CODE: i32 = -512;
/// `MAX_ERRNO` in `include/linux/err.h`: a result below this is no error, but an address.
pub(crate) const LAST_ERROR: i32 = -4095;

/// A call enters: remember when.
///
/// # Errors
/// Never for any plan; the assembler's checks are passed on all the same.
///
/// ```
/// use rlat::latency::{Member, Plan, Returns, Scope, enter_program};
/// use rlat::process::PidNamespace;
///
/// let plan = Plan {
///     syscall: "read".to_owned(),
///     scope: Scope::Processes(vec![Member { namespace: PidNamespace::Initial, id: 1234 }]),
///     descriptors: vec![7],
///     argument_offset: Some(16),
///     result_offset: 16,
///     returns: Returns::Any,
///     unit: rlat::histogram::Unit::Us,
///     linear: None,
/// };
/// let program = enter_program(&plan)?;
/// assert!(program.to_string().contains("if r1 != 1234 goto"));
/// # Ok::<(), rlat::insn::AssembleError>(())
/// ```
pub fn enter_program(plan: &Plan) -> Result<Program, AssembleError> {
    let mut emit = Emitter::begin(&program_name(&plan.syscall, true), plan);
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
    if let Some(offset) = plan.argument_offset {
        emit.asm.load(Size::DW, R2, R6, offset).comment("the first argument");
        emit.asm.store(Size::DW, R7, Slot::DESCRIPTOR, R2);
        emit.require_descriptor(&plan.descriptors, other_descriptor);
    }
    emit.find_region();
    emit.count(Counter::Entered);
    emit.asm.call(Helper::KtimeGetNs).comment("the last thing before the call itself");
    emit.asm.store(Size::DW, R7, Slot::START_NS, R0).comment("the call begins");
    emit.leave();

    emit.asm.bind(other_descriptor);
    if !plan.descriptors.is_empty() {
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
    emit.count(Counter::Recorded);
    if plan.returns.include_interrupted() {
        emit.asm.load(Size::DW, R8, R7, Slot::HELD_NS).comment("the thread outlived the signal");
        emit.put_into_histogram(plan);
    } else {
        emit.count(Counter::Excluded);
    }
    emit.asm.jump(fresh);
    emit.asm.bind(missed);
    emit.count(Counter::ExitMissed);
    emit.asm.jump(fresh);

    emit.asm.bind(new_thread);
    emit.insert_slot();
    emit.find_slot();
    emit.asm.jump_if(JumpOp::Ne, R0, 0, have_slot);
    // No room for one more thread.
    if let (Some(offset), false) = (plan.argument_offset, plan.descriptors.is_empty()) {
        emit.asm.load(Size::DW, R2, R6, offset);
        emit.require_descriptor(&plan.descriptors, emit.out);
    }
    emit.find_region();
    emit.count(Counter::Entered);
    emit.count(Counter::StoreFull);
    emit.finish()
}

/// A call exits: how long did it take.
///
/// # Errors
/// As [`enter_program`].
pub fn exit_program(plan: &Plan) -> Result<Program, AssembleError> {
    let mut emit = Emitter::begin(&program_name(&plan.syscall, false), plan);
    let no_slot = emit.asm.label("no_slot");
    let no_start = emit.asm.label("no_start");
    let negative = emit.asm.label("negative");
    let returned_zero = emit.asm.label("returned_zero");
    let returned_less = emit.asm.label("returned_less");
    let put = emit.asm.label("put");
    let exclude = emit.asm.label("exclude");
    let (to_ok, to_zero, to_error) = match plan.returns {
        Returns::Any => (put, put, put),
        Returns::Ok => (put, put, exclude),
        Returns::Error => (exclude, exclude, put),
        Returns::Zero => (exclude, put, exclude),
    };

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
    emit.asm.jump_if(JumpOp::Slt, R1, 0, returned_less);
    emit.asm.jump_if(JumpOp::Eq, R1, 0, returned_zero);
    emit.count(Counter::Recorded);
    emit.asm.jump(to_ok);

    emit.asm.bind(returned_zero);
    emit.count(Counter::Recorded);
    emit.count(Counter::ReturnedZero);
    emit.asm.jump(to_zero);

    emit.asm.bind(returned_less);
    emit.returned_less(to_ok, to_error);

    emit.asm.bind(put);
    emit.put_into_histogram(plan);
    emit.leave();

    emit.asm.bind(exclude);
    if plan.returns != Returns::Any {
        emit.count(Counter::Excluded);
        emit.leave();
    }

    emit.asm.bind(negative);
    emit.count(Counter::Negative);
    emit.leave();

    emit.asm.bind(no_slot);
    emit.insert_slot();
    emit.asm.jump_if(JumpOp::Ne, R0, 0, emit.out).comment("full: its entry was counted as lost");
    emit.find_region();
    emit.count(Counter::ExitWithoutStart);
    emit.leave();

    // Its slot says that this is not its first exit, so it entered inside of the window, too.
    emit.asm.bind(no_start);
    emit.find_region();
    emit.count(Counter::EntryMissed);
    emit.finish()
}

/// A thread ends: its id may be given to another one, which must not find its start. One program for
/// the stores of all measured calls; the scope is that of every plan.
///
/// # Errors
/// As [`enter_program`].
pub fn thread_end_program(scope: &Scope, syscalls: &[String]) -> Result<Program, AssembleError> {
    let mut emit = Emitter::begin_with("rlat_thread_end", scope, String::new());
    for syscall in syscalls {
        let next = emit.asm.label(format!("after_{syscall}"));
        emit.syscall.clone_from(syscall);
        emit.find_slot();
        emit.asm.jump_if(JumpOp::Eq, R0, 0, next);
        emit.asm.load(Size::DW, R8, R0, Slot::START_NS);
        emit.asm.load_map(R1, &starts_map(syscall));
        emit.pointer_to(R2, stack::TID);
        emit.asm.call(Helper::MapDeleteElem).comment("room for another thread");
        emit.asm.jump_if(JumpOp::Eq, R8, Slot::IDLE, next);
        emit.asm.jump_if(JumpOp::Eq, R8, Slot::FILTERED, next);
        emit.find_region();
        emit.count(Counter::EndedWithoutExit);
        emit.asm.bind(next);
    }
    emit.finish()
}

impl Returns {
    /// Whether a call that a signal interrupted is put into the histogram.
    pub const fn include_interrupted(self) -> bool {
        matches!(self, Self::Any | Self::Error)
    }
}

/// A program in the making, and the pieces that more than one of them has.
struct Emitter {
    asm: Assembler,
    /// Where the program returns 0, so that perf makes no record of it.
    out: Label,
    /// The system call whose maps are used.
    syscall: String,
}

impl Emitter {
    fn begin(name: &str, plan: &Plan) -> Self {
        Self::begin_with(name, &plan.scope, plan.syscall.clone())
    }

    /// The beginning of every program: leaves unless the window is open and the thread in the scope.
    /// The thread's ids are on the stack then, and the context in r6.
    fn begin_with(name: &str, scope: &Scope, syscall: String) -> Self {
        let mut asm = Assembler::new(name);
        let out = asm.label("out");
        asm.mov(R6, R1).comment("r6 = the context: helpers do not keep r1 to r5");
        asm.load_map_value(R1, CONTROL_MAP, 0);
        asm.load(Size::DW, R1, R1, 0);
        asm.jump_if(JumpOp::Ne, R1, WINDOW_OPEN as i32, out).comment("is the window open?");
        emit_scope(&mut asm, scope, out);
        Self { asm, out, syscall }
    }

    /// `register = r10 + offset`
    fn pointer_to(&mut self, register: Reg, offset: i16) {
        self.asm.mov(register, R10);
        self.asm.alu(AluOp::Add, register, i32::from(offset));
    }

    /// r0 = the thread's slot, or null.
    fn find_slot(&mut self) {
        self.asm.load_map(R1, &starts_map(&self.syscall));
        self.pointer_to(R2, stack::TID);
        self.asm.call(Helper::MapLookupElem).comment("r0 = the thread's slot, or null");
    }

    /// Inserts an idle slot for the thread. r0 = 0, or a negative errno when there is no room.
    fn insert_slot(&mut self) {
        self.asm.mov(R1, Slot::IDLE);
        for field in [Slot::START_NS, Slot::DESCRIPTOR, Slot::HELD_NS] {
            self.asm.store(Size::DW, R10, stack::SLOT + field, R1);
        }
        self.asm.load(Size::DW, R1, R10, stack::IDS);
        self.asm.store(Size::DW, R10, stack::SLOT + Slot::IDS, R1).comment("as people see it");
        self.asm.load_map(R1, &starts_map(&self.syscall));
        self.pointer_to(R2, stack::TID);
        self.pointer_to(R3, stack::SLOT);
        self.asm.mov(R4, 0).comment("BPF_ANY");
        self.asm.call(Helper::MapUpdateElem).comment("insert an idle slot");
    }

    /// r9 = this CPU's region.
    fn find_region(&mut self) {
        self.asm.call(Helper::GetSmpProcessorId);
        self.asm.store(Size::W, R10, stack::CPU, R0);
        self.asm.load_map(R1, &cpus_map(&self.syscall));
        self.pointer_to(R2, stack::CPU);
        self.asm.call(Helper::MapLookupElem);
        self.asm.jump_if(JumpOp::Eq, R0, 0, self.out).comment("never: each CPU has one");
        self.asm.mov(R9, R0).comment("r9 = this CPU's region");
    }

    /// Goes to `other` unless the argument in r2 is one of the descriptors, or there are none.
    fn require_descriptor(&mut self, descriptors: &[u32], other: Label) {
        let Some((last, others)) = descriptors.split_last() else { return };
        let ours = self.asm.label("our_descriptor");
        self.asm.mov32(R2, R2).comment("of which the kernel reads 32 bits");
        for descriptor in others {
            self.asm.jump_if(JumpOp::Eq, R2, *descriptor as i32, ours);
        }
        self.asm.jump_if(JumpOp::Ne, R2, *last as i32, other);
        self.asm.bind(ours);
    }

    /// Adds 1 to a counter of the region.
    fn count(&mut self, counter: Counter) {
        self.asm.mov(R1, 1);
        self.asm
            .atomic(AtomicOp::Add, R9, counter.offset(), R1)
            .comment(format!("count it: {counter:?}"));
    }

    /// The result in r1 is less than 0: an error, a restart code, or an address. Changes r1 to r3.
    fn returned_less(&mut self, to_ok: Label, to_error: Label) {
        let address = self.asm.label("address");
        let error = self.asm.label("error");
        let has_counter = self.asm.label("has_counter");
        self.asm.jump_if(JumpOp::Slt, R1, LAST_ERROR, address).comment("an address, no error");
        self.asm.jump_if(JumpOp::Sgt, R1, FIRST_RESTART_CODE, error);
        self.asm.jump_if(JumpOp::Slt, R1, LAST_RESTART_CODE, error);
        self.count(Counter::Restarted);
        self.asm.store(Size::DW, R7, Slot::HELD_NS, R8).comment("a signal, maybe a deadly one:");
        self.asm.mov(R1, Slot::HELD);
        self.asm.store(Size::DW, R7, Slot::START_NS, R1).comment("wait for the thread's next call");
        self.leave();

        self.asm.bind(error);
        self.asm.mov(R2, R1);
        self.asm.push(Insn::Neg { width: Width::W64, dst: R2 }).comment("r2 = the errno");
        self.asm.jump_if(JumpOp::Lt, R2, ERRNOS, has_counter);
        self.asm.mov(R2, 0).comment("the counter of all others");
        self.asm.bind(has_counter);
        self.asm.alu(AluOp::Lsh, R2, 3).comment("8 bytes each");
        self.asm.alu(AluOp::Add, R2, R9);
        self.asm.mov(R1, 1);
        self.asm.atomic(AtomicOp::Add, R2, ERRNOS_OFFSET, R1).comment("count it: that errno");
        self.count(Counter::Recorded);
        self.count(Counter::ReturnedError);
        self.asm.jump(to_error);

        self.asm.bind(address);
        self.count(Counter::Recorded);
        self.asm.jump(to_ok);
    }

    /// Puts the latency in r8 into the histogram: sum, extremes and buckets.
    ///
    /// The extremes are read and written in two steps, which is right as long as no other program of
    /// ours does so on this CPU in between. Up to Linux 7.1 perf calls programs with preemption
    /// disabled (`perf_syscall_enter` in `kernel/trace/trace_syscalls.c`). From 7.2 on another thread
    /// can come in between, but never into the same program; the one other program that records is
    /// the entry's, of calls that a signal interrupted.
    fn put_into_histogram(&mut self, plan: &Plan) {
        let not_longest = self.asm.label("not_longest");
        let not_shortest = self.asm.label("not_shortest");
        self.asm.atomic(AtomicOp::Add, R9, Counter::SumNs.offset(), R8);
        self.asm.load(Size::DW, R1, R9, Counter::MaxNs.offset());
        self.asm.jump_if(JumpOp::Le, R8, R1, not_longest);
        self.asm.store(Size::DW, R9, Counter::MaxNs.offset(), R8).comment("the longest so far");
        self.asm.bind(not_longest);
        self.asm.load(Size::DW, R1, R9, Counter::MinNs.offset());
        self.asm.jump_if(JumpOp::Ge, R8, R1, not_shortest);
        self.asm.store(Size::DW, R9, Counter::MinNs.offset(), R8).comment("the shortest so far");
        self.asm.bind(not_shortest);
        if plan.unit != Unit::Ns {
            self.asm
                .alu(AluOp::Div, R8, plan.unit.nanos() as i32)
                .comment(format!("whole {}", plan.unit.name()));
        }
        if let Some(linear) = plan.linear {
            emit_linear_index(&mut self.asm, linear, R8, R2, R1);
            self.one_more_in_bucket(R2, LINEAR_OFFSET);
        }
        emit_bucket_index(&mut self.asm, R8, R2, R3);
        self.one_more_in_bucket(R2, BUCKETS_OFFSET);
    }

    /// Adds 1 to the bucket with the index in that register, which is changed, and r1.
    fn one_more_in_bucket(&mut self, index: Reg, buckets: i16) {
        self.asm.alu(AluOp::Lsh, index, 3).comment("8 bytes each");
        self.asm.alu(AluOp::Add, index, R9);
        self.asm.mov(R1, 1);
        self.asm.atomic(AtomicOp::Add, index, buckets, R1).comment("one more in that bucket");
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
