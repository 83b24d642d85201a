//! One instruction: what it means, and the slots that encode it.

use super::opcode::{
    ALU_END, ALU_NEG, AluOp, AtomicOp, Class, JUMP_ALWAYS, JUMP_CALL, JUMP_EXIT, JumpOp, Mode,
    SOURCE_X, Size,
};
use super::raw::{Endianness, RawInsn};
use super::register::Reg;

/// How many bits an arithmetic instruction computes with, or a jump compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// The low 32; an arithmetic result has zeros above.
    W32,
    /// All 64; a 32-bit immediate is sign-extended.
    W64,
}

/// The second operand of arithmetic, jumps and stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// An immediate, sign-extended where 64 bits are wanted.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Self {
        Self::Imm(imm)
    }
}

/// The order that a byte swap converts to (or from: it is the same operation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapTo {
    /// `le16`, `le32`, `le64`
    Little,
    /// `be16`, `be32`, `be64`
    Big,
}

/// How many of the low bits a byte swap converts; those above become zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapBits {
    /// 16
    B16 = 16,
    /// 32
    B32 = 32,
    /// 64
    B64 = 64,
}

/// What the 64-bit immediate load puts into its register. The `src` field of the first slot says
/// which: 0, `BPF_PSEUDO_MAP_FD` (1) or `BPF_PSEUDO_MAP_VALUE` (2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imm64 {
    /// The number itself.
    Value(u64),
    /// The map that this descriptor stands for; the kernel replaces it by a pointer when it loads
    /// the program.
    MapFd(i32),
    /// The address of a byte in the first value of an array map, without a lookup. Linux 5.2.
    MapValue {
        /// The array map's descriptor.
        fd: i32,
        /// Where in the value, in bytes.
        offset: u32,
    },
}

/// One instruction. Registers, sizes and operations are types, so what can be built here can be
/// encoded; whether the verifier accepts it is another question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insn {
    /// `dst op= src`, or `dst = src`.
    Alu {
        /// 32 or 64 bits.
        width: Width,
        /// The operation.
        op: AluOp,
        /// First operand and result.
        dst: Reg,
        /// Second operand.
        src: Operand,
    },
    /// `dst = -dst`
    Neg {
        /// 32 or 64 bits.
        width: Width,
        /// Operand and result.
        dst: Reg,
    },
    /// `dst = be16 dst` and its like.
    ByteSwap {
        /// Operand and result.
        dst: Reg,
        /// The order to convert to.
        to: SwapTo,
        /// How many bits.
        bits: SwapBits,
    },
    /// `dst = value ll`: the one instruction that takes two slots.
    LoadImm64 {
        /// The result.
        dst: Reg,
        /// A number or a map.
        value: Imm64,
    },
    /// `dst = *(size *)(base + off)`; narrow loads are zero-extended.
    Load {
        /// How many bytes.
        size: Size,
        /// The result.
        dst: Reg,
        /// The pointer.
        base: Reg,
        /// Added to the pointer, in bytes.
        off: i16,
    },
    /// `*(size *)(base + off) = src`
    Store {
        /// How many bytes.
        size: Size,
        /// The pointer.
        base: Reg,
        /// Added to the pointer, in bytes.
        off: i16,
        /// What is stored, cut to the size.
        src: Operand,
    },
    /// A read and a write of memory that no other CPU can come between.
    Atomic {
        /// The operation.
        op: AtomicOp,
        /// How many bytes: the verifier takes `W` and `DW`.
        size: Size,
        /// The pointer.
        base: Reg,
        /// Added to the pointer, in bytes.
        off: i16,
        /// The second operand; a fetching operation leaves the old value here.
        src: Reg,
    },
    /// `if dst op src goto off`
    JumpIf {
        /// 32 or 64 bits.
        width: Width,
        /// The comparison.
        op: JumpOp,
        /// First operand.
        dst: Reg,
        /// Second operand.
        src: Operand,
        /// How far, in slots from the next instruction.
        off: i16,
    },
    /// `goto off`
    Jump {
        /// How far, in slots from the next instruction.
        off: i16,
    },
    /// `call helper`: arguments in r1 to r5, result in r0, r1 to r5 are lost.
    Call {
        /// The helper's number; see [`Helper`](super::Helper).
        helper: i32,
    },
    /// `exit`: the program ends, r0 is its result.
    Exit,
}

impl Insn {
    /// How many 8-byte slots it takes: two for the 64-bit immediate load, one for all others.
    pub const fn slots(&self) -> usize {
        match self {
            Self::LoadImm64 { .. } => 2,
            _ => 1,
        }
    }

    /// The encoded slots: the second one only for the 64-bit immediate load.
    ///
    /// ```
    /// use rlat::insn::{Insn, RawInsn, Reg, Size};
    ///
    /// let load = Insn::Load { size: Size::DW, dst: Reg::R0, base: Reg::R1, off: 16 };
    /// // class LDX (0x01), size DW (0x18), mode MEM (0x60)
    /// let raw = RawInsn { opcode: 0x79, dst: 0, src: 1, off: 16, imm: 0 };
    /// assert_eq!(load.to_raw(), (raw, None));
    /// ```
    pub fn to_raw(&self) -> (RawInsn, Option<RawInsn>) {
        let one = |raw| (raw, None);
        match *self {
            Self::Alu { width, op, dst, src } => {
                one(two_operands(alu_class(width), op.bits(), dst, src, 0))
            }
            Self::Neg { width, dst } => one(RawInsn {
                opcode: alu_class(width) as u8 | ALU_NEG,
                dst: dst.number(),
                ..RawInsn::default()
            }),
            Self::ByteSwap { dst, to, bits } => one(RawInsn {
                opcode: Class::Alu as u8
                    | ALU_END
                    | match to {
                        SwapTo::Little => 0,
                        SwapTo::Big => SOURCE_X,
                    },
                dst: dst.number(),
                imm: bits as i32,
                ..RawInsn::default()
            }),
            Self::LoadImm64 { dst, value } => {
                let (src, low, high) = match value {
                    Imm64::Value(number) => (0, number as u32, (number >> 32) as u32),
                    Imm64::MapFd(fd) => (1, fd as u32, 0),
                    Imm64::MapValue { fd, offset } => (2, fd as u32, offset),
                };
                let first = RawInsn {
                    opcode: memory(Class::Ld, Mode::Imm, Size::DW),
                    dst: dst.number(),
                    src,
                    off: 0,
                    imm: low as i32,
                };
                (first, Some(RawInsn { imm: high as i32, ..RawInsn::default() }))
            }
            Self::Load { size, dst, base, off } => one(RawInsn {
                opcode: memory(Class::Ldx, Mode::Mem, size),
                dst: dst.number(),
                src: base.number(),
                off,
                imm: 0,
            }),
            Self::Store { size, base, off, src } => {
                let (class, src, imm) = match src {
                    Operand::Reg(reg) => (Class::Stx, reg.number(), 0),
                    Operand::Imm(imm) => (Class::St, 0, imm),
                };
                let opcode = memory(class, Mode::Mem, size);
                one(RawInsn { opcode, dst: base.number(), src, off, imm })
            }
            Self::Atomic { op, size, base, off, src } => one(RawInsn {
                opcode: memory(Class::Stx, Mode::Atomic, size),
                dst: base.number(),
                src: src.number(),
                off,
                imm: i32::from(op.bits()),
            }),
            Self::JumpIf { width, op, dst, src, off } => {
                let class = match width {
                    Width::W32 => Class::Jmp32,
                    Width::W64 => Class::Jmp,
                };
                one(two_operands(class, op.bits(), dst, src, off))
            }
            Self::Jump { off } => {
                one(RawInsn { opcode: Class::Jmp as u8 | JUMP_ALWAYS, off, ..RawInsn::default() })
            }
            Self::Call { helper } => one(RawInsn {
                opcode: Class::Jmp as u8 | JUMP_CALL,
                imm: helper,
                ..RawInsn::default()
            }),
            Self::Exit => {
                one(RawInsn { opcode: Class::Jmp as u8 | JUMP_EXIT, ..RawInsn::default() })
            }
        }
    }
}

/// The bytes of a program, as bpf(2) takes them when `endianness` is [`Endianness::NATIVE`].
pub fn encode(insns: &[Insn], endianness: Endianness) -> Vec<u8> {
    let mut bytes = Vec::new();
    for insn in insns {
        let (first, second) = insn.to_raw();
        bytes.extend(first.encode(endianness));
        bytes.extend(second.map(|raw| raw.encode(endianness)).into_iter().flatten());
    }
    bytes
}

const fn alu_class(width: Width) -> Class {
    match width {
        Width::W32 => Class::Alu,
        Width::W64 => Class::Alu64,
    }
}

const fn memory(class: Class, mode: Mode, size: Size) -> u8 {
    class as u8 | mode.bits() | size.bits()
}

fn two_operands(class: Class, op: u8, dst: Reg, src: Operand, off: i16) -> RawInsn {
    let (source, src, imm) = match src {
        Operand::Reg(reg) => (SOURCE_X, reg.number(), 0),
        Operand::Imm(imm) => (0, 0, imm),
    };
    RawInsn { opcode: class as u8 | op | source, dst: dst.number(), src, off, imm }
}
