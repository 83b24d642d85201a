//! The smallest and the largest latency, kept by instructions.

use crate::insn::{
    Assembler, AtomicOp, JumpOp,
    Reg::{self, R0, R2},
    Size,
};
use crate::loader::has_fetching_atomics;

/// How an extreme is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extremes {
    /// By compare-and-exchange (Linux 5.12), which is right whoever else writes the same word: another
    /// CPU, or a thread that comes in between on this one.
    CompareExchange,
    /// By a load and a store. That is right where each CPU has its own word, and where the kernel does not
    /// preempt programs; no kernel without a compare-and-exchange does (`perf_syscall_enter` in
    /// `kernel/trace/trace_syscalls.c`, `__DO_TRACE` in `include/linux/tracepoint.h`).
    LoadStore,
}

impl Extremes {
    /// What this kernel can do.
    pub fn here() -> Self {
        if has_fetching_atomics() { Self::CompareExchange } else { Self::LoadStore }
    }
}

/// How often a compare-and-exchange is tried. Each failure means that another thread has written the
/// word in the few instructions since; and all but a more extreme one are done with.
const TRIES: usize = 2;

/// Appends instructions after which the word at `base + offset` is `value` or more, unsigned. They
/// change r0 and r2.
pub(crate) fn emit_raise(asm: &mut Assembler, how: Extremes, base: Reg, offset: i16, value: Reg) {
    emit(asm, how, JumpOp::Le, (base, offset), value, "the longest so far");
}

/// Appends instructions after which the word at `base + offset` is `value` or less, unsigned. They
/// change r0 and r2.
pub(crate) fn emit_lower(asm: &mut Assembler, how: Extremes, base: Reg, offset: i16, value: Reg) {
    emit(asm, how, JumpOp::Ge, (base, offset), value, "the shortest so far");
}

/// `unless` compares the value with the word: where it is true, the word stays.
fn emit(
    asm: &mut Assembler,
    how: Extremes,
    unless: JumpOp,
    (base, offset): (Reg, i16),
    value: Reg,
    which: &str,
) {
    let done = asm.label("extreme_kept");
    asm.load(Size::DW, R0, base, offset);
    match how {
        Extremes::CompareExchange => {
            for attempt in 1..=TRIES {
                asm.jump_if(unless, value, R0, done).comment(format!("not {which}"));
                if attempt < TRIES {
                    asm.mov(R2, R0);
                }
                asm.atomic(AtomicOp::CmpXchg, base, offset, value)
                    .comment("r0 = what was there: replaced if that is still the same");
                if attempt < TRIES {
                    asm.jump_if(JumpOp::Eq, R0, R2, done).comment("nobody came in between");
                }
            }
        }
        Extremes::LoadStore => {
            asm.jump_if(unless, value, R0, done);
            asm.store(Size::DW, base, offset, value).comment(which);
        }
    }
    asm.bind(done);
}
