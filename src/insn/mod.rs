//! The instruction set: what a BPF program is made of.
//!
//! Read in this order:
//!
//! 1. [`RawInsn`]: the eight bytes of a slot, as the kernel's `struct bpf_insn`;
//! 2. [`opcode`]: the first of them taken apart, each part a type;
//! 3. [`Reg`] and [`Helper`]: what an instruction can name;
//! 4. [`Insn`]: one instruction by its meaning, to and from slots, and as text;
//! 5. [`Assembler`] and [`Program`]: many of them, with labels, comments and maps;
//! 6. [`Module`]: several programs and the maps that they share, and [`text`]: the same as a file.
//!
//! Nothing here knows about the system: these modules are pure, and tested on any machine.
//!
//! **Terms.** A *slot* is 8 bytes; offsets of jumps and the verifier's numbers count slots. An
//! *instruction* is one slot, or two for the 64-bit immediate load. A *helper* is a kernel function
//! that a program can call. The *context* is what `r1` points to when the program starts.

mod assemble;
mod decode;
mod disasm;
mod encode;
mod helper;
mod helper_names;
mod instruction;
mod link;
pub(crate) mod module;
pub mod opcode;
mod program;
mod raw;
mod register;
#[cfg(test)]
mod tests;
pub mod text;

pub use assemble::{AssembleError, Assembler, Label, Line};
pub use decode::{DecodeError, DecodeReason, decode, decode_any};
pub use encode::encode;
pub use helper::Helper;
pub use helper_names::{helper_name, helper_number};
pub use instruction::{Imm64, Insn, Operand, SignedBits, SignedOp, SwapBits, SwapTo, Width};
pub use link::{FunctionAt, Linked, Unlinkable};
pub use module::{
    MapDefinition, Module, Reference, Section, Target, map_type_name, map_type_number,
};
pub use opcode::{AluOp, AtomicOp, JumpOp, Size};
pub use program::{Program, Relocation, UnknownMap};
pub use raw::{Endianness, RawInsn, SLOT_BYTES};
pub use register::Reg;
