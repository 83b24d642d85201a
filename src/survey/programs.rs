//! The programs of a survey: at the entry of any call, at its exit, and at the end of a thread.
//!
//! They are those of [`latency`](crate::latency) but for two things: the number of the call selects
//! the row that is counted in, and the context is the raw tracepoint's, which is an array of 8-byte
//! arguments. Register use is the same in all: r6 the context, r7 the thread's id and then its slot, r8 a time,
//! r9 the number of a call and then its row; r0 to r5 are scratch, and lost at every helper call.
//!
//! Unlike perf, newer kernels do not disable preemption around programs on raw tracepoints. So all
//! that several threads write is added atomically; a slot is only written by its own thread.

use super::layout::{
    BUCKET_K, BUCKETS_OFFSET, CALLS_MAP, Counter, MOST_REGIONS, NO_CALL, NUMBERS, OTHER, ROWS,
};
use crate::insn::{
    AluOp, AssembleError, Assembler, AtomicOp, Helper, JumpOp, Label, Program,
    Reg::{R0, R1, R2, R3, R6, R7, R8, R9, R10},
    Size,
};
use crate::latency::extremes::emit_raise;
use crate::latency::layout::Slot;
use crate::latency::programs::{FIRST_RESTART_CODE, LAST_ERROR, LAST_RESTART_CODE, stack};
use crate::latency::scope::{Ids, emit_beginning};
use crate::latency::starts::{emit_find_slot, emit_new_slot, emit_release};
use crate::latency::{Extremes, Room, Scope, emit_bucket_index_at};

/// What the programs are made for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whose calls.
    pub scope: Scope,
    /// Which region a CPU counts in.
    pub regions: Regions,
    /// The size of the store of starts.
    pub room: Room,
    /// How the largest latency is kept.
    pub extremes: Extremes,
}

/// Which region a CPU counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regions {
    /// CPU n in region n.
    OneEach,
    /// CPU n in region n modulo [`MOST_REGIONS`].
    Shared,
}

/// The arguments of the raw tracepoints, in bytes from the context.
mod argument {
    /// `sys_enter(struct pt_regs *regs, long id)`
    pub(super) const NUMBER: i16 = 8;
    /// `sys_exit(struct pt_regs *regs, long ret)`
    pub(super) const RESULT: i16 = 8;
}

/// A call enters: remember which, and when.
///
/// # Errors
/// Never for any plan; the assembler's checks are passed on all the same.
///
/// ```
/// use rlat::latency::{Extremes, Member, Room, Scope};
/// use rlat::process::PidNamespace;
/// use rlat::survey::{Plan, Regions, enter_program};
///
/// let own = Member { namespace: PidNamespace::Initial, id: 1234 };
/// let scope = Scope::Processes(vec![own]);
/// let room = Room { direct_slots: 1024, threads: 4096, on_demand: false };
/// let extremes = Extremes::CompareExchange;
/// let plan = Plan { scope, regions: Regions::OneEach, room, extremes };
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
    let full = emit.asm.label("full");

    emit_find_slot(&mut emit.asm, plan.room, new_thread);
    emit.asm.bind(have_slot);
    emit.asm.load(Size::DW, R1, R7, Slot::START_NS);
    emit.asm
        .jump_if(JumpOp::Ne, R1, Slot::IDLE, leftover)
        .comment("nothing left of the last call?");

    emit.asm.bind(fresh);
    emit.asm.load(Size::DW, R9, R6, argument::NUMBER).comment("the number of the call");
    emit.asm.store(Size::DW, R7, Slot::CALL, R9);
    emit.find_row();
    emit.count(Counter::Entered);
    emit.asm.call(Helper::KtimeGetNs).comment("the last thing before the call itself");
    emit.asm.store(Size::DW, R7, Slot::START_NS, R0).comment("the call begins");
    emit.leave();

    // What the last call left: a held one is complete now, and a start means that its exit was missed.
    emit.asm.bind(leftover);
    emit.asm.mov(R8, R1);
    emit.asm.load(Size::DW, R9, R7, Slot::CALL);
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
    emit_new_slot(&mut emit.asm, plan.room, full);
    emit.asm.jump(have_slot);
    // No room for one more thread.
    emit.asm.bind(full);
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
    emit_find_slot(&mut emit.asm, plan.room, no_slot);
    emit.asm.load(Size::DW, R1, R7, Slot::START_NS);
    emit.asm.jump_if(JumpOp::Eq, R1, Slot::IDLE, not_entered);
    emit.asm.jump_if(JumpOp::Eq, R1, Slot::HELD, not_entered).comment("the held one has exited");
    emit.asm.mov(R2, Slot::IDLE);
    emit.asm.store(Size::DW, R7, Slot::START_NS, R2).comment("forget the start, come what may");
    emit.asm.alu(AluOp::Sub, R8, R1).comment("r8 = how long it took");
    emit.asm.load(Size::DW, R9, R7, Slot::CALL).comment("a thread is in one call at a time");
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
    let out = emit.out;
    emit_new_slot(&mut emit.asm, plan.room, out);
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
    let release = emit.asm.label("release");
    let out = emit.out;
    emit_find_slot(&mut emit.asm, plan.room, out);
    emit.asm.load(Size::DW, R1, R7, Slot::START_NS);
    emit.asm.jump_if(JumpOp::Eq, R1, Slot::IDLE, release);
    emit.asm.load(Size::DW, R9, R7, Slot::CALL);
    emit.find_row();
    emit.count(Counter::EndedWithoutExit);
    emit.asm.bind(release);
    emit_release(&mut emit.asm, plan.room);
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
        emit_beginning(&mut asm, &plan.scope, Ids::Helper, out);
        Self { asm, out, plan }
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
        self.asm.store(Size::W, R10, stack::REGION, R0);
        self.asm.load_map(R1, CALLS_MAP);
        self.asm.stack_address(R2, stack::REGION);
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
        emit_raise(&mut self.asm, self.plan.extremes, R9, Counter::MaxNs.offset(), R8);
        emit_bucket_index_at(BUCKET_K, &mut self.asm, R8, R2, R3);
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
        self.asm.mov(R0, 0);
        self.asm.exit();
        self.asm.finish()
    }
}
