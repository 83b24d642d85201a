//! A call exits: how long did it take.

use super::emitter::{Call, Emitter, argument, program_name};
use super::{Plan, Returns, Way};
use crate::insn::{
    AluOp, AssembleError, Helper, JumpOp, Label, Program,
    Reg::{R0, R1, R2, R3, R6, R7, R8},
    Size,
};
use crate::latency::layout::{Counter, Slot};
use crate::latency::scope::Ids;
use crate::latency::starts::{emit_find_slot, emit_new_slot};

/// The program on the tracepoint of the call of that index.
pub(super) fn program(plan: &Plan, call: usize) -> Result<Program, AssembleError> {
    let mut emit = Emitter::begin(&program_name(&plan.calls[call].name, false), plan, Ids::Helper);
    let no_slot = emit.asm.label("no_slot");
    emit.asm.call(Helper::KtimeGetNs).comment("the first thing after the call itself");
    emit.asm.mov(R8, R0).comment("r8 = now");
    emit_find_slot(&mut emit.asm, plan.room, no_slot);
    emit.exit(Call::Fixed(call), plan.calls[call].result_offset, no_slot)
}

/// The program on the raw tracepoint that every call passes. It is not told the number.
pub(super) fn raw_program(plan: &Plan) -> Result<Program, AssembleError> {
    let mut emit = Emitter::begin("rlat_sys_exit", plan, Ids::Helper);
    let no_slot = emit.asm.label("no_slot");
    emit_find_slot(&mut emit.asm, plan.room, no_slot);
    // Most calls are none of ours, and are not to pay for the clock.
    let measured = emit.asm.label("measured");
    emit.asm.load(Size::DW, R1, R7, Slot::START_NS);
    emit.asm.jump_if(JumpOp::Ne, R1, Slot::FILTERED, measured);
    emit.asm.mov(R1, Slot::IDLE);
    emit.asm.store(Size::DW, R7, Slot::START_NS, R1);
    emit.leave();
    emit.asm.bind(measured);
    emit.asm.call(Helper::KtimeGetNs).comment("as soon as it is known to be measured");
    emit.asm.mov(R8, R0).comment("r8 = now");
    emit.exit(Call::OfSlot, argument::RESULT, no_slot)
}

impl Emitter<'_> {
    /// The clock is in r8, the slot in r7.
    fn exit(
        mut self,
        call: Call,
        result_offset: i16,
        no_slot: Label,
    ) -> Result<Program, AssembleError> {
        let plan = self.plan;
        let no_start = self.asm.label("no_start");
        let negative = self.asm.label("negative");
        let returned_zero = self.asm.label("returned_zero");
        let returned_less = self.asm.label("returned_less");
        let put = self.asm.label("put");
        let exclude = self.asm.label("exclude");
        let (to_ok, to_zero, to_error) = match plan.returns {
            Returns::Any => (put, put, put),
            Returns::Ok => (put, put, exclude),
            Returns::Error => (exclude, exclude, put),
            Returns::Zero => (exclude, put, exclude),
        };

        self.asm.load(Size::DW, R1, R7, Slot::START_NS);
        self.asm.jump_if(JumpOp::Eq, R1, Slot::IDLE, no_start);
        self.asm.jump_if(JumpOp::Eq, R1, Slot::HELD, no_start).comment("the held one has exited");
        let foreign = self.require_same_call(call);
        self.asm.mov(R2, Slot::IDLE);
        self.asm.store(Size::DW, R7, Slot::START_NS, R2).comment("forget the start, come what may");
        self.asm.jump_if(JumpOp::Eq, R1, Slot::FILTERED, self.out);
        self.asm.alu(AluOp::Sub, R8, R1).comment("r8 = how long it took");
        self.find_region(call);
        self.asm.jump_if(JumpOp::Slt, R8, 0, negative);

        self.asm.load(Size::DW, R1, R6, result_offset).comment("what the call returns");
        self.asm.jump_if(JumpOp::Slt, R1, 0, returned_less);
        self.asm.jump_if(JumpOp::Eq, R1, 0, returned_zero);
        self.asm.jump(to_ok);

        self.asm.bind(returned_zero);
        self.count(Counter::ReturnedZero);
        self.asm.jump(to_zero);

        self.asm.bind(returned_less);
        self.returned_less(to_ok, to_error);

        self.asm.bind(put);
        self.put_into_histogram();
        self.leave();

        self.asm.bind(exclude);
        if plan.returns != Returns::Any {
            self.count(Counter::Excluded);
            self.leave();
        }

        self.asm.bind(negative);
        self.count(Counter::Negative);
        self.leave();

        if let Some(foreign) = foreign {
            self.asm.bind(foreign);
            self.asm.mov(R2, Slot::IDLE);
            self.asm.store(Size::DW, R7, Slot::START_NS, R2);
            self.asm.jump_if(JumpOp::Eq, R1, Slot::FILTERED, no_start);
            self.find_region(Call::OfSlot);
            self.count(Counter::ExitMissed);
            self.asm.jump(no_start);
        }

        // The thread is seen for the first time.
        self.asm.bind(no_slot);
        if let Some(call) = self.identify(call) {
            let out = self.out;
            emit_new_slot(&mut self.asm, plan.room, out);
            self.find_region(call);
            self.count(Counter::ExitWithoutStart);
        }
        self.leave();

        // Its slot says that it has been seen, so it entered inside of the window, too.
        self.asm.bind(no_start);
        if let Some(call) = self.identify(call) {
            self.find_region(call);
            self.count(Counter::EntryMissed);
        }
        self.leave();
        self.finish()
    }

    /// The start is that of another call: then the exit of that one was missed, and the entry of this.
    fn require_same_call(&mut self, call: Call) -> Option<Label> {
        let Call::Fixed(index) = call else { return None };
        if self.plan.calls.len() == 1 {
            return None;
        }
        let foreign = self.asm.label("of_another_call");
        self.asm.load(Size::DW, R2, R7, Slot::CALL);
        self.asm.jump_if(JumpOp::Ne, R2, index as i32, foreign).comment("of this call?");
        Some(foreign)
    }

    /// Which call it is when no slot says so. Leaves the program if it is not a measured one; `None` where
    /// it cannot be known.
    fn identify(&mut self, call: Call) -> Option<Call> {
        let Way::Raw { .. } = self.plan.way else { return Some(call) };
        let (reads, access) = self.plan.way.exit_reads()?;
        let size = if reads.number_is_wide { Size::DW } else { Size::W };
        self.asm.load(Size::DW, R3, R6, argument::REGS);
        self.read_kernel(access, size, R1, reads.number);
        self.select_call(Some((reads, access)), self.out);
        Some(Call::InR8)
    }
}
