//! Instructions that find, take and release a thread's slot.
//!
//! They expect the thread's id, as the initial PID namespace counts, in r7 and at [`stack::TID`], and what people
//! see of it at [`stack::IDS`]. The slot is in r7 afterwards; r0 to r5 are scratch.

use super::{Room, SLOT_WORDS, SLOTS_MAP, STARTS_MAP};
use crate::insn::{
    AluOp, Assembler, AtomicOp, Helper, JumpOp, Label,
    Reg::{R0, R1, R2, R3, R4, R7, R10},
    Size,
};
use crate::latency::layout::{CONTROL_MAP, IDLE_SLOT_OFFSET, Slot, TAKEN_OFFSET};
use crate::latency::programs::stack;

/// The shift that makes a byte offset of the number of a slot in [`SLOTS_MAP`].
const STRIDE_SHIFT: i32 = (SLOT_WORDS * size_of::<u64>()).trailing_zeros() as i32;

/// r7 = the slot of the thread in r7; goes to `none` if it has none.
pub(crate) fn emit_find_slot(asm: &mut Assembler, room: Room, none: Label) {
    let found = asm.label("found");
    if room.direct_slots > 0 {
        let elsewhere = asm.label("elsewhere");
        asm.mov(R1, R7);
        point_to_direct_slot(asm, room);
        asm.load(Size::DW, R2, R7, Slot::OWNER);
        asm.jump_if(JumpOp::Ne, R2, R1, elsewhere).comment("is it this thread's?");
        asm.jump(found);
        asm.bind(elsewhere);
    }
    look_up(asm, none);
    asm.bind(found);
}

/// r7 = a new slot for the thread, idle; goes to `full` if there is no room. The thread must have none.
pub(crate) fn emit_new_slot(asm: &mut Assembler, room: Room, full: Label) {
    let taken = asm.label("slot_taken");
    let give_back = asm.label("give_back");
    let into_hash = asm.label("into_hash");
    if room.direct_slots > 0 {
        asm.load_map_value(R1, CONTROL_MAP, TAKEN_OFFSET);
        asm.mov(R2, 1);
        asm.atomic(AtomicOp::FetchAdd, R1, 0, R2).comment("r2 = how many slots were taken before");
        asm.jump_if(JumpOp::Ge, R2, room.threads as i32, give_back).comment("is there room?");
        asm.load(Size::W, R1, R10, stack::TID);
        point_to_direct_slot(asm, room);
        asm.mov(R0, 0);
        asm.atomic(AtomicOp::CmpXchg, R7, Slot::OWNER, R1)
            .comment("r0 = the owner: this thread from now on if there was none");
        asm.jump_if(JumpOp::Ne, R0, 0, into_hash);
        clear(asm);
        asm.jump(taken);
    }
    asm.bind(into_hash);
    asm.load_map(R1, STARTS_MAP);
    asm.stack_address(R2, stack::TID);
    // Not made on the stack: one of 64 bytes and more is a private one (Linux 6.13), which costs at
    // every call of a helper.
    asm.load_map_value(R3, CONTROL_MAP, IDLE_SLOT_OFFSET);
    asm.mov(R4, 0).comment("BPF_ANY");
    asm.call(Helper::MapUpdateElem).comment("insert an idle slot");
    asm.jump_if(JumpOp::Ne, R0, 0, give_back);
    look_up(asm, give_back);
    keep_ids(asm);
    asm.jump(taken);

    asm.bind(give_back);
    if room.direct_slots > 0 {
        one_less_taken(asm);
    }
    asm.jump(full);
    asm.bind(taken);
}

/// Releases the thread's slot, which is in r7: the thread ends.
pub(crate) fn emit_release(asm: &mut Assembler, room: Room) {
    let released = asm.label("released");
    if room.direct_slots > 0 {
        let from_hash = asm.label("from_hash");
        one_less_taken(asm);
        asm.load(Size::DW, R1, R7, Slot::OWNER);
        asm.jump_if(JumpOp::Eq, R1, 0, from_hash);
        asm.mov(R1, 0);
        asm.atomic(AtomicOp::Xchg, R7, Slot::OWNER, R1)
            .comment("an exchange: whoever takes it sees all that was written before");
        asm.jump(released);
        asm.bind(from_hash);
    }
    asm.load_map(R1, STARTS_MAP);
    asm.stack_address(R2, stack::TID);
    asm.call(Helper::MapDeleteElem).comment("room for another thread");
    asm.bind(released);
}

/// r7 = the slot that the id of the thread in r1 points to.
fn point_to_direct_slot(asm: &mut Assembler, room: Room) {
    asm.mov(R2, R1);
    asm.alu(AluOp::And, R2, room.direct_slots as i32 - 1)
        .comment("the low bits of the thread's id");
    asm.alu(AluOp::Lsh, R2, STRIDE_SHIFT).comment("64 bytes each");
    asm.load_map_value(R7, SLOTS_MAP, 0);
    asm.alu(AluOp::Add, R7, R2).comment("r7 = the slot there");
}

/// r7 = the thread's slot in the hash; goes to `none` if it has none.
fn look_up(asm: &mut Assembler, none: Label) {
    asm.load_map(R1, STARTS_MAP);
    asm.stack_address(R2, stack::TID);
    asm.call(Helper::MapLookupElem).comment("r0 = the thread's slot, or null");
    asm.jump_if(JumpOp::Eq, R0, 0, none);
    asm.mov(R7, R0).comment("r7 = the thread's slot");
}

/// Makes the slot in r7 an idle one.
fn clear(asm: &mut Assembler) {
    asm.mov(R1, Slot::IDLE);
    for field in [Slot::START_NS, Slot::HELD_NS, Slot::ARGUMENT, Slot::CALL, Slot::ENTERED] {
        asm.store(Size::DW, R7, field, R1);
    }
    keep_ids(asm);
}

/// The slot in r7 says whose it is.
fn keep_ids(asm: &mut Assembler) {
    asm.load(Size::DW, R1, R10, stack::IDS);
    asm.store(Size::DW, R7, Slot::IDS, R1).comment("as people see it");
}

fn one_less_taken(asm: &mut Assembler) {
    asm.load_map_value(R1, CONTROL_MAP, TAKEN_OFFSET);
    asm.mov(R2, -1);
    asm.atomic(AtomicOp::Add, R1, 0, R2).comment("one slot less is taken");
}
