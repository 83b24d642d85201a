//! The programs of a survey: at the entry of any call, at its exit, and at the end of a thread.
//!
//! They are those of [`latency`](crate::latency) but for two things: the number of the call selects
//! the row that is counted in, and the context is the raw tracepoint's, which is an array of 8-byte
//! arguments. Register use is the same in all: r6 the context, r7 the thread's slot, r8 a time,
//! r9 the number of a call and then its row; r0 to r5 are scratch, and lost at every helper call.
//!
//! Unlike perf, newer kernels do not disable preemption around programs on raw tracepoints. So all
//! that several threads write is added atomically; a slot is only written by its own thread.

use super::layout::{
    BUCKET_K, BUCKETS_OFFSET, CALLS_MAP, Counter, MOST_REGIONS, NO_CALL, NUMBERS, OTHER, ROWS,
    STARTS_MAP, Slot,
};
use crate::insn::{
    AluOp, AssembleError, Assembler, AtomicOp, Helper, JumpOp, Label, Program,
    Reg::{self, R0, R1, R2, R3, R4, R6, R7, R8, R9, R10},
    Size,
};
use crate::latency::layout::{CONTROL_MAP, WINDOW_OPEN};
use crate::latency::programs::{
    FIRST_RESTART_CODE, LAST_ERROR, LAST_RESTART_CODE, stack as scope_stack,
};
use crate::latency::scope::emit_scope;
use crate::latency::{Scope, emit_bucket_index_at};

/// What the programs are made for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whose calls.
    pub scope: Scope,
    /// Which region a CPU counts in.
    pub regions: Regions,
    /// How the largest latency is kept.
    pub maximum: Maximum,
}

/// Which region a CPU counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regions {
    /// CPU n in region n.
    OneEach,
    /// CPU n in region n modulo [`MOST_REGIONS`].
    Shared,
}

/// How the largest latency of a row is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maximum {
    /// By compare-and-exchange (Linux 5.12), which is right whoever else writes the row.
    CompareExchange,
    /// By a load and a store. It is right where no two CPUs share a region, and where the kernel does
    /// not preempt programs: `__DO_TRACE` in `include/linux/tracepoint.h` disables preemption in the
    /// kernels that have no compare-and-exchange.
    LoadStore,
}

/// How often a compare-and-exchange is tried. Each failure means that another thread has raised the
/// maximum in between, in the few instructions since; and all but a greater one are done with.
const TRIES: usize = 4;

/// The arguments of the raw tracepoints, in bytes from the context.
mod argument {
    /// `sys_enter(struct pt_regs *regs, long id)`
    pub(super) const NUMBER: i16 = 8;
    /// `sys_exit(struct pt_regs *regs, long ret)`
    pub(super) const RESULT: i16 = 8;
}

/// Places on the stack, as offsets from r10, below and between those of [`scope_stack`].
mod stack {
    /// u32: the index of a row.
    pub(super) const ROW: i16 = -8;
    /// A new slot, 32 bytes.
    pub(super) const SLOT: i16 = -64;
}

/// A call enters: remember which, and when.
///
/// # Errors
/// Never for any plan; the assembler's checks are passed on all the same.
///
/// ```
/// use rlat::latency::{Member, Scope};
/// use rlat::process::PidNamespace;
/// use rlat::survey::{Maximum, Plan, Regions, enter_program};
///
/// let own = Member { namespace: PidNamespace::Initial, id: 1234 };
/// let scope = Scope::Processes(vec![own]);
/// let plan = Plan { scope, regions: Regions::OneEach, maximum: Maximum::CompareExchange };
/// let program = enter_program(&plan)?;
/// assert!(program.to_string().contains("if r9 < 512 goto"));
/// # Ok::<(), rlat::insn::AssembleError>(())
/// ```
pub fn enter_program(plan: &Plan) -> Result<Program, AssembleError> {
    let mut emit = Emitter::begin("rlat_sys_enter", plan);
    let new_thread = emit.asm.label("new_thread");
    let have_slot = emit.asm.label("have_slot");
    let leftover = emit.asm.label("leftover");
    let fresh = emit.asm.label("fresh");
    let missed = emit.asm.label("missed");

    emit.find_slot();
    emit.asm.jump_if(JumpOp::Eq, R0, 0, new_thread).comment("its first call in the window");
    emit.asm.bind(have_slot);
    emit.asm.mov(R7, R0).comment("r7 = the thread's slot");
    emit.asm.load(Size::DW, R1, R7, Slot::START_NS);
    emit.asm
        .jump_if(JumpOp::Ne, R1, Slot::IDLE, leftover)
        .comment("nothing left of the last call?");

    emit.asm.bind(fresh);
    emit.asm.load(Size::DW, R9, R6, argument::NUMBER).comment("the number of the call");
    emit.asm.store(Size::DW, R7, Slot::NUMBER, R9);
    emit.find_row();
    emit.count(Counter::Entered);
    emit.asm.call(Helper::KtimeGetNs).comment("the last thing before the call itself");
    emit.asm.store(Size::DW, R7, Slot::START_NS, R0).comment("the call begins");
    emit.leave();

    // What the last call left: a held one is complete now, and a start means that its exit was missed.
    emit.asm.bind(leftover);
    emit.asm.mov(R8, R1);
    emit.asm.load(Size::DW, R9, R7, Slot::NUMBER);
    emit.find_row();
    emit.asm.jump_if(JumpOp::Ne, R8, Slot::HELD, missed);
    emit.asm.load(Size::DW, R8, R7, Slot::HELD_NS).comment("the thread outlived the signal");
    emit.count(Counter::Errors);
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
    emit.asm.load(Size::DW, R9, R6, argument::NUMBER);
    emit.find_row();
    emit.count(Counter::Entered);
    emit.count(Counter::StoreFull);
    emit.finish()
}

/// A call exits: how long did it take.
///
/// # Errors
/// As [`enter_program`].
pub fn exit_program(plan: &Plan) -> Result<Program, AssembleError> {
    let mut emit = Emitter::begin("rlat_sys_exit", plan);
    let no_slot = emit.asm.label("no_slot");
    let not_entered = emit.asm.label("not_entered");
    let negative = emit.asm.label("negative");
    let error = emit.asm.label("error");
    let record = emit.asm.label("record");

    emit.asm.call(Helper::KtimeGetNs).comment("the first thing after the call itself");
    emit.asm.mov(R8, R0).comment("r8 = now");
    emit.find_slot();
    emit.asm.jump_if(JumpOp::Eq, R0, 0, no_slot);
    emit.asm.mov(R7, R0).comment("r7 = the thread's slot");
    emit.asm.load(Size::DW, R1, R7, Slot::START_NS);
    emit.asm.jump_if(JumpOp::Eq, R1, Slot::IDLE, not_entered);
    emit.asm.jump_if(JumpOp::Eq, R1, Slot::HELD, not_entered).comment("the held one has exited");
    emit.asm.mov(R2, Slot::IDLE);
    emit.asm.store(Size::DW, R7, Slot::START_NS, R2).comment("forget the start, come what may");
    emit.asm.alu(AluOp::Sub, R8, R1).comment("r8 = how long it took");
    emit.asm.load(Size::DW, R9, R7, Slot::NUMBER).comment("a thread is in one call at a time");
    emit.find_row();
    emit.asm.jump_if(JumpOp::Slt, R8, 0, negative);

    emit.asm.load(Size::DW, R1, R6, argument::RESULT).comment("what the call returns");
    emit.asm.jump_if(JumpOp::Sge, R1, 0, record);
    emit.asm.jump_if(JumpOp::Slt, R1, LAST_ERROR, record).comment("an address, no error");
    emit.asm.jump_if(JumpOp::Sgt, R1, FIRST_RESTART_CODE, error);
    emit.asm.jump_if(JumpOp::Slt, R1, LAST_RESTART_CODE, error);
    emit.count(Counter::Restarted);
    emit.asm.store(Size::DW, R7, Slot::HELD_NS, R8).comment("a signal, maybe a deadly one:");
    emit.asm.mov(R1, Slot::HELD);
    emit.asm.store(Size::DW, R7, Slot::START_NS, R1).comment("wait for the thread's next call");
    emit.leave();

    emit.asm.bind(error);
    emit.count(Counter::Errors);
    emit.asm.bind(record);
    emit.record();
    emit.leave();

    emit.asm.bind(negative);
    emit.count(Counter::Negative);
    emit.leave();

    emit.asm.bind(not_entered);
    emit.asm.mov(R9, NO_CALL as i32);
    emit.find_row_of_index();
    emit.count(Counter::ExitNotEntered);
    emit.leave();

    emit.asm.bind(no_slot);
    emit.insert_slot();
    emit.asm.jump_if(JumpOp::Ne, R0, 0, emit.out).comment("full: its entry was counted as lost");
    emit.asm.mov(R9, NO_CALL as i32);
    emit.find_row_of_index();
    emit.count(Counter::ExitWithoutStart);
    emit.finish()
}

/// A thread ends: its id may be given to another one, which must not find its start.
///
/// # Errors
/// As [`enter_program`].
pub fn thread_end_program(plan: &Plan) -> Result<Program, AssembleError> {
    let mut emit = Emitter::begin("rlat_thread_end", plan);
    emit.find_slot();
    emit.asm.jump_if(JumpOp::Eq, R0, 0, emit.out);
    emit.asm.load(Size::DW, R8, R0, Slot::START_NS);
    emit.asm.load(Size::DW, R9, R0, Slot::NUMBER);
    emit.asm.load_map(R1, STARTS_MAP);
    emit.pointer_to(R2, scope_stack::TID);
    emit.asm.call(Helper::MapDeleteElem).comment("room for another thread");
    emit.asm.jump_if(JumpOp::Eq, R8, Slot::IDLE, emit.out);
    emit.find_row();
    emit.count(Counter::EndedWithoutExit);
    emit.finish()
}

/// A program in the making, and the pieces that more than one of them has.
struct Emitter<'a> {
    asm: Assembler,
    /// Where the program ends.
    out: Label,
    plan: &'a Plan,
}

impl<'a> Emitter<'a> {
    /// The beginning of every program: leaves unless the window is open and the thread in the scope.
    fn begin(name: &str, plan: &'a Plan) -> Self {
        let mut asm = Assembler::new(name);
        let out = asm.label("out");
        asm.mov(R6, R1).comment("r6 = the context: helpers do not keep r1 to r5");
        asm.load_map_value(R1, CONTROL_MAP, 0);
        asm.load(Size::DW, R1, R1, 0);
        asm.jump_if(JumpOp::Ne, R1, WINDOW_OPEN as i32, out).comment("is the window open?");
        emit_scope(&mut asm, &plan.scope, out);
        Self { asm, out, plan }
    }

    /// `register = r10 + offset`
    fn pointer_to(&mut self, register: Reg, offset: i16) {
        self.asm.mov(register, R10);
        self.asm.alu(AluOp::Add, register, i32::from(offset));
    }

    /// r0 = the thread's slot, or null.
    fn find_slot(&mut self) {
        self.asm.load_map(R1, STARTS_MAP);
        self.pointer_to(R2, scope_stack::TID);
        self.asm.call(Helper::MapLookupElem).comment("r0 = the thread's slot, or null");
    }

    /// Inserts an idle slot for the thread. r0 = 0, or a negative errno when there is no room.
    fn insert_slot(&mut self) {
        self.asm.mov(R1, Slot::IDLE);
        for field in [Slot::START_NS, Slot::NUMBER, Slot::HELD_NS] {
            self.asm.store(Size::DW, R10, stack::SLOT + field, R1);
        }
        self.asm.load(Size::DW, R1, R10, scope_stack::IDS);
        self.asm.store(Size::DW, R10, stack::SLOT + Slot::IDS, R1).comment("as people see it");
        self.asm.load_map(R1, STARTS_MAP);
        self.pointer_to(R2, scope_stack::TID);
        self.pointer_to(R3, stack::SLOT);
        self.asm.mov(R4, 0).comment("BPF_ANY");
        self.asm.call(Helper::MapUpdateElem).comment("insert an idle slot");
    }

    /// r9 = the row of the call with the number in r9, which is compared unsigned: -1 is not below.
    fn find_row(&mut self) {
        let has_own = self.asm.label("has_own_row");
        self.asm.jump_if(JumpOp::Lt, R9, NUMBERS as i32, has_own);
        self.asm.mov(R9, OTHER as i32).comment("not a call of this kernel's own table");
        self.asm.bind(has_own);
        self.find_row_of_index();
    }

    /// r9 = the row with the index in r9, in the region of this CPU.
    fn find_row_of_index(&mut self) {
        self.asm.call(Helper::GetSmpProcessorId);
        if self.plan.regions == Regions::Shared {
            // The number of regions is a power of two.
            self.asm.alu(AluOp::And, R0, MOST_REGIONS as i32 - 1).comment("r0 = the region");
        }
        self.asm.alu(AluOp::Mul, R0, ROWS as i32);
        self.asm.alu(AluOp::Add, R0, R9);
        self.asm.store(Size::W, R10, stack::ROW, R0);
        self.asm.load_map(R1, CALLS_MAP);
        self.pointer_to(R2, stack::ROW);
        self.asm.call(Helper::MapLookupElem);
        self.asm.jump_if(JumpOp::Eq, R0, 0, self.out).comment("never: each number has one");
        self.asm.mov(R9, R0).comment("r9 = the row");
    }

    /// Adds 1 to a counter of the row.
    fn count(&mut self, counter: Counter) {
        self.asm.mov(R1, 1);
        self.asm
            .atomic(AtomicOp::Add, R9, counter.offset(), R1)
            .comment(format!("count it: {counter:?}"));
    }

    /// Counts a call that took r8 ns in the row.
    fn record(&mut self) {
        self.count(Counter::Recorded);
        self.asm.atomic(AtomicOp::Add, R9, Counter::SumNs.offset(), R8);
        match self.plan.maximum {
            Maximum::CompareExchange => self.raise_maximum(),
            Maximum::LoadStore => self.store_maximum(),
        }
        emit_bucket_index_at(BUCKET_K, &mut self.asm, R8, R2, R3);
        self.asm.alu(AluOp::Lsh, R2, 3).comment("8 bytes each");
        self.asm.alu(AluOp::Add, R2, R9);
        self.asm.mov(R1, 1);
        self.asm.atomic(AtomicOp::Add, R2, BUCKETS_OFFSET, R1).comment("one more in that bucket");
    }

    /// The row's maximum is r8 or more afterwards, whoever else raises it meanwhile.
    fn raise_maximum(&mut self) {
        let done = self.asm.label("maximum_kept");
        self.asm.load(Size::DW, R0, R9, Counter::MaxNs.offset());
        for _ in 0..TRIES {
            self.asm.jump_if(JumpOp::Le, R8, R0, done).comment("not the longest so far");
            self.asm.mov(R2, R0);
            self.asm
                .atomic(AtomicOp::CmpXchg, R9, Counter::MaxNs.offset(), R8)
                .comment("r0 = what was there: r8 replaces it if that is still the same");
            self.asm.jump_if(JumpOp::Eq, R0, R2, done).comment("nobody came in between");
        }
        self.asm.bind(done);
    }

    /// The same in two steps, for kernels where nobody can come in between.
    fn store_maximum(&mut self) {
        let done = self.asm.label("maximum_kept");
        self.asm.load(Size::DW, R1, R9, Counter::MaxNs.offset());
        self.asm.jump_if(JumpOp::Le, R8, R1, done);
        self.asm.store(Size::DW, R9, Counter::MaxNs.offset(), R8).comment("the longest so far");
        self.asm.bind(done);
    }

    fn leave(&mut self) {
        self.asm.jump(self.out);
    }

    fn finish(mut self) -> Result<Program, AssembleError> {
        self.asm.bind(self.out);
        self.asm.mov(R0, 0);
        self.asm.exit();
        self.asm.finish()
    }
}
