//! A thread ends: its id may be given to another one, which must not find its start.

use super::Plan;
use super::emitter::{Call, Emitter};
use crate::insn::{
    AssembleError, JumpOp, Program,
    Reg::{R1, R7},
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
    emit.asm.load(Size::DW, R1, R7, Slot::START_NS);
    emit.asm.jump_if(JumpOp::Eq, R1, Slot::IDLE, release);
    emit.asm.jump_if(JumpOp::Eq, R1, Slot::FILTERED, release);
    emit.find_region(Call::OfSlot);
    emit.count(Counter::EndedWithoutExit);
    emit.asm.bind(release);
    emit_release(&mut emit.asm, plan.room);
    emit.finish()
}
