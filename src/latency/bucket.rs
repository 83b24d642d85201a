//! A latency's bucket, computed by instructions.
//!
//! Shift n right until it is below 64, counting the shifts: then the bucket's index at k = 5 is
//! `shifts * 32 + n`, for small n too, which are not shifted at all. See
//! [`histogram::log2`](crate::histogram::log2) for why that is the formula of the buckets.
//!
//! No loop is needed: the shifts are made in six steps of 32, 16, 8, 4, 2 and 1, each taken only if n
//! stays at 32 or more after it. That also lets the verifier see that the index stays in the array:
//! on each path it knows which steps were taken, and that n is below 64 at the end.

use crate::histogram::Linear;
use crate::histogram::log2::RECORDED_K;
use crate::insn::{AluOp, Assembler, JumpOp, Reg};

/// Appends instructions that turn the number in `n` into its bucket's index, in `index`. They change
/// all three registers.
///
/// ```
/// use rlat::insn::{Assembler, Reg};
///
/// let mut asm = Assembler::new("bucket");
/// rlat::latency::emit_bucket_index(&mut asm, Reg::R1, Reg::R2, Reg::R3);
/// asm.mov(Reg::R0, Reg::R2);
/// asm.exit();
/// let program = asm.finish()?;
/// assert!(program.to_string().contains("if r1 < 64 goto"));
/// # Ok::<(), rlat::insn::AssembleError>(())
/// ```
pub fn emit_bucket_index(asm: &mut Assembler, n: Reg, index: Reg, scratch: Reg) {
    emit_bucket_index_at(RECORDED_K, asm, n, index, scratch);
}

/// The same for 2^k buckets a power of two, with k in 0 to 5.
pub fn emit_bucket_index_at(k: u32, asm: &mut Assembler, n: Reg, index: Reg, scratch: Reg) {
    asm.mov(index, 0).comment("no shift yet");
    for shift in [32, 16, 8, 4, 2, 1] {
        let next = asm.label(format!("shifted_{shift}"));
        // n >> shift is 2^k or more exactly if n is at least this:
        let least = 1_u64 << (k + shift);
        let is_small = format!("is n >> {shift} below {}?", 1 << k);
        if let Ok(least) = i32::try_from(least) {
            asm.jump_if(JumpOp::Lt, n, least, next).comment(is_small);
        } else {
            asm.load_imm64(scratch, least).comment("a comparison's immediate has 32 bits only");
            asm.jump_if(JumpOp::Lt, n, scratch, next).comment(is_small);
        }
        asm.alu(AluOp::Rsh, n, shift as i32);
        asm.alu(AluOp::Add, index, (shift << k) as i32)
            .comment(format!("{shift} shifts of {} buckets", 1 << k));
        asm.bind(next);
    }
    asm.alu(AluOp::Add, index, n).comment(format!("the bucket's index at k = {k}"));
}

/// Appends instructions that leave in `index` the linear bucket of the number in `n`, which stays as
/// it is. `scratch` is changed.
pub fn emit_linear_index(asm: &mut Assembler, linear: Linear, n: Reg, index: Reg, scratch: Reg) {
    let found = asm.label("linear_found");
    let too_small = asm.label("linear_too_small");
    let last = linear.bucket_count() as i32 - 1;
    asm.mov(index, n);
    if linear.min() > 0 {
        asm.load_imm64(scratch, linear.min());
        asm.jump_if(JumpOp::Lt, n, scratch, too_small);
        asm.alu(AluOp::Sub, index, scratch);
    }
    if let Ok(step) = i32::try_from(linear.step()) {
        asm.alu(AluOp::Div, index, step).comment("steps above the minimum");
    } else {
        asm.load_imm64(scratch, linear.step());
        asm.alu(AluOp::Div, index, scratch).comment("steps above the minimum");
    }
    asm.alu(AluOp::Add, index, 1).comment("bucket 0 is for smaller ones");
    asm.jump_if(JumpOp::Lt, index, last, found);
    asm.mov(index, last).comment("from the last whole edge up");
    if linear.min() > 0 {
        asm.jump(found);
        asm.bind(too_small);
        asm.mov(index, 0);
    }
    asm.bind(found);
}
