//! A thread ends: its id may be given to another one, which must not find its start.

use super::Plan;
use super::emitter::{Call, Emitter};
use crate::insn::{
    AssembleError, AtomicOp, JumpOp, Program,
    Reg::{R1, R7, R9},
    Size,
};
use crate::latency::layout::{Counter, Slot};
use crate::latency::scope::Ids;
use crate::latency::starts::{emit_find_slot, emit_release};

pub(super) fn program(plan: &Plan) -> Result<Program, AssembleError> {
    let mut emit = Emitter::begin("rlat_thread_end", plan, Ids::Helper);
    let release = emit.asm.label("release");
    let out = emit.out;
    emit_find_slot(&mut emit.asm, plan.room, out);
    if plan.counts_entries_in_slots() {
        emit.find_region(Call::Fixed(0));
        emit.asm.load(Size::DW, R1, R7, Slot::ENTERED).comment("how many calls it has entered");
        emit.asm.atomic(AtomicOp::Add, R9, Counter::Entered.offset(), R1);
    }
    emit.asm.load(Size::DW, R1, R7, Slot::START_NS);
    emit.asm.jump_if(JumpOp::Eq, R1, Slot::IDLE, release);
    emit.asm.jump_if(JumpOp::Eq, R1, Slot::FILTERED, release);
    if !plan.counts_entries_in_slots() {
        emit.find_region(Call::OfSlot);
    }
    emit.count(Counter::EndedWithoutExit);
    emit.asm.bind(release);
    emit_release(&mut emit.asm, plan.room);
    emit.finish()
}
