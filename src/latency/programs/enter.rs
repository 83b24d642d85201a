//! A call enters: remember which, and when.

use super::emitter::{Call, Emitter, argument, program_name};
use super::{Plan, Way};
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
    let emit = Emitter::begin(&program_name(&plan.calls[call].name, true), plan, Ids::Helper);
    emit.entry(Call::Fixed(call))
}

/// The program on the raw tracepoint that every call passes.
pub(super) fn raw_program(plan: &Plan) -> Result<Program, AssembleError> {
    let ids = match plan.way {
        Way::Raw { typed: Some(entry), .. } => Ids::Task(entry.tracepoint),
        Way::Raw { .. } | Way::Tracepoint => Ids::Helper,
    };
    Emitter::begin("rlat_sys_enter", plan, ids).entry(Call::InR8)
}

impl Emitter<'_> {
    fn entry(mut self, call: Call) -> Result<Program, AssembleError> {
        let plan = self.plan;
        let new_thread = self.asm.label("new_thread");
        let have_slot = self.asm.label("have_slot");
        let leftover = self.asm.label("leftover");
        let fresh = self.asm.label("fresh");
        let not_measured = self.asm.label("not_measured");
        let full = self.asm.label("full");

        emit_find_slot(&mut self.asm, plan.room, new_thread);
        self.asm.bind(have_slot);
        self.asm.load(Size::DW, R1, R7, Slot::START_NS);
        self.asm
            .jump_if(JumpOp::Ne, R1, Slot::IDLE, leftover)
            .comment("nothing left of the last call?");

        self.asm.bind(fresh);
        self.require_measured(call, not_measured);
        if plan.keeps_argument() && self.has_argument(call) {
            self.asm.store(Size::DW, R7, Slot::ARGUMENT, R2);
        }
        self.keep_call(call);
        self.count_entered(call);
        self.asm.call(Helper::KtimeGetNs).comment("the last thing before the call itself");
        self.asm.store(Size::DW, R7, Slot::START_NS, R0).comment("the call begins");
        self.leave();

        self.asm.bind(not_measured);
        if self.is_choosy() {
            if matches!(call, Call::Fixed(_)) {
                self.keep_call(call);
            }
            self.asm.mov(R1, Slot::FILTERED);
            self.asm.store(Size::DW, R7, Slot::START_NS, R1).comment("so that its exit finds this");
            self.leave();
        }

        self.take_leftover(leftover, fresh);

        self.asm.bind(new_thread);
        if matches!(call, Call::InR8) {
            let out = self.out;
            self.select_call_entered(out);
        }
        emit_new_slot(&mut self.asm, plan.room, full);
        self.asm.jump(have_slot);

        // No room for one more thread.
        self.asm.bind(full);
        let out = self.out;
        self.require_measured(call, out);
        self.find_region(call);
        self.count(Counter::Entered);
        self.count(Counter::StoreFull);
        self.finish()
    }

    /// Whether there are calls that this program sees and does not measure.
    fn is_choosy(&self) -> bool {
        matches!(self.plan.way, Way::Raw { .. }) || !self.plan.descriptors.is_empty()
    }

    fn has_argument(&self, call: Call) -> bool {
        match call {
            Call::Fixed(index) => self.plan.calls[index].argument_offset.is_some(),
            Call::InR8 | Call::OfSlot => true,
        }
    }

    /// Goes to `other` unless the call is to be measured. Leaves its index in r8 where the program is for
    /// all calls, and its first argument in r2 where that is known.
    fn require_measured(&mut self, call: Call, other: Label) {
        match (call, self.plan.way) {
            (Call::Fixed(index), _) => {
                let Some(offset) = self.plan.calls[index].argument_offset else { return };
                self.asm.load(Size::DW, R2, R6, offset).comment("the first argument");
            }
            (_, Way::Raw { .. }) => {
                self.select_call_entered(other);
                if self.plan.descriptors.is_empty() {
                    return;
                }
                let Some((reads, access)) = self.plan.way.entry_reads() else { return };
                self.asm.load(Size::DW, R3, R6, argument::REGS);
                self.read_kernel(access, Size::DW, R2, reads.argument);
            }
            (_, Way::Tracepoint) => return,
        }
        self.require_descriptor(other);
    }

    /// r8 = the index of the call, on the raw tracepoint; goes to `other` if it is no measured one.
    fn select_call_entered(&mut self, other: Label) {
        self.asm.load(Size::DW, R1, R6, argument::NUMBER).comment("the number of the call");
        self.select_call(self.plan.way.entry_reads(), other);
    }

    fn count_entered(&mut self, call: Call) {
        if self.plan.counts_entries_in_slots() {
            self.asm.load(Size::DW, R1, R7, Slot::ENTERED);
            self.asm.alu(AluOp::Add, R1, 1);
            self.asm
                .store(Size::DW, R7, Slot::ENTERED, R1)
                .comment("count it: nobody else writes here");
        } else {
            self.find_region(call);
            self.count(Counter::Entered);
        }
    }

    /// The slot says which call it is, where there is more than one.
    fn keep_call(&mut self, call: Call) {
        match call {
            _ if self.plan.calls.len() == 1 => {}
            Call::Fixed(index) => {
                self.asm.mov(R1, index as i32);
                self.asm.store(Size::DW, R7, Slot::CALL, R1);
            }
            Call::InR8 | Call::OfSlot => {
                self.asm.store(Size::DW, R7, Slot::CALL, R8);
            }
        }
    }

    /// What the last call left, in r1: a held one is complete now, and a start means that its exit was
    /// missed.
    fn take_leftover(&mut self, leftover: Label, fresh: Label) {
        let missed = self.asm.label("missed");
        self.asm.bind(leftover);
        self.asm.jump_if(JumpOp::Eq, R1, Slot::FILTERED, fresh).comment("it was not measured");
        self.asm.mov(R8, R1);
        self.find_region(Call::OfSlot);
        self.asm.jump_if(JumpOp::Ne, R8, Slot::HELD, missed);
        if self.plan.returns.include_interrupted() {
            self.asm
                .load(Size::DW, R8, R7, Slot::HELD_NS)
                .comment("the thread outlived the signal");
            self.put_into_histogram();
        } else {
            self.count(Counter::Excluded);
        }
        self.asm.jump(fresh);
        self.asm.bind(missed);
        self.count(Counter::ExitMissed);
        self.asm.jump(fresh);
    }
}
