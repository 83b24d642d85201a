//! The instruction set: what a BPF program is made of.
//!
//! Read in this order:
//!
//! 1. [`RawInsn`]: the eight bytes of a slot, as the kernel's `struct bpf_insn`;
//! 2. [`opcode`]: the first of them taken apart, each part a type;
//! 3. [`Reg`] and [`Helper`]: what an instruction can name;
//! 4. [`Insn`]: one instruction by its meaning, to and from slots, and as text;
//! 5. [`Assembler`] and [`Program`]: many of them, with labels, comments and maps.
//!
//! Nothing here knows about the system: these modules are pure, and tested on any machine.
//!
//! **Terms.** A *slot* is 8 bytes; offsets of jumps and the verifier's numbers count slots. An
//! *instruction* is one slot, or two for the 64-bit immediate load. A *helper* is a kernel function
//! that a program can call. The *context* is what `r1` points to when the program starts.

mod assemble;
mod decode;
mod disasm;
mod helper;
mod instruction;
pub mod opcode;
mod program;
mod raw;
mod register;
#[cfg(test)]
mod tests;

pub use assemble::{AssembleError, Assembler, Label, Line};
pub use decode::{DecodeError, DecodeReason, decode};
pub use helper::Helper;
pub use instruction::{Imm64, Insn, Operand, SwapBits, SwapTo, Width, encode};
pub use opcode::{AluOp, AtomicOp, JumpOp, Size};
pub use program::{Program, Relocation, UnknownMap};
pub use raw::{Endianness, RawInsn, SLOT_BYTES};
pub use register::Reg;
