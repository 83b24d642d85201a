//! From instructions to the slots that encode them; [`decode`](super::decode()) is the way back.

use super::instruction::{Imm64, Insn, Operand, SwapTo, Width};
use super::opcode::{
    ALU_END, ALU_NEG, AluOp, Class, JUMP_ALWAYS, JUMP_CALL, JUMP_EXIT, JUMP_MAY, LOAD_ACQUIRE,
    Mode, SOURCE_X, STORE_RELEASE, Size,
};
use super::raw::{Endianness, RawInsn};
use super::register::Reg;

impl Insn {
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
    #[allow(clippy::too_many_lines)] // It is one list: an encoding for each instruction.
    pub fn to_raw(&self) -> (RawInsn, Option<RawInsn>) {
        let one = |raw| (raw, None);
        match *self {
            Self::Alu { width, op, dst, src } => {
                one(two_operands(alu_class(width), op.bits(), dst, src, 0))
            }
            Self::SignedAlu { width, op, dst, src } => {
                one(two_operands(alu_class(width), op.unsigned().bits(), dst, src, SIGNED))
            }
            Self::MoveSigned { width, bits, dst, src } => {
                one(two_operands(alu_class(width), AluOp::Mov.bits(), dst, src.into(), bits as i16))
            }
            Self::AddrSpaceCast { dst, src, to, from } => {
                let op = AluOp::Mov.bits();
                let raw = two_operands(Class::Alu64, op, dst, src.into(), SPACE_CAST);
                one(RawInsn { imm: (u32::from(to) << 16 | u32::from(from)) as i32, ..raw })
            }
            Self::Neg { width, dst } => one(RawInsn {
                opcode: alu_class(width) as u8 | ALU_NEG,
                dst: dst.number(),
                ..RawInsn::default()
            }),
            Self::ByteSwap { dst, to, bits } => one(RawInsn {
                opcode: ALU_END
                    | match to {
                        SwapTo::Little => Class::Alu as u8,
                        SwapTo::Big => Class::Alu as u8 | SOURCE_X,
                        SwapTo::Other => Class::Alu64 as u8,
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
                    Imm64::KernelVariable { btf_id, module } => (3, btf_id as u32, module as u32),
                    Imm64::Function(off) => (4, off as u32, 0),
                    Imm64::MapIndex(index) => (5, index as u32, 0),
                    Imm64::MapIndexValue { index, offset } => (6, index as u32, offset),
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
            Self::LoadSigned { size, dst, base, off } => one(RawInsn {
                opcode: memory(Class::Ldx, Mode::MemSigned, size),
                dst: dst.number(),
                src: base.number(),
                off,
                imm: 0,
            }),
            Self::LoadPacket { size, index, off } => {
                let mode = if index.is_some() { Mode::Indirect } else { Mode::Absolute };
                one(RawInsn {
                    opcode: memory(Class::Ld, mode, size),
                    src: index.map_or(0, Reg::number),
                    imm: off,
                    ..RawInsn::default()
                })
            }
            Self::LoadAcquire { size, dst, base, off } => one(RawInsn {
                opcode: memory(Class::Stx, Mode::Atomic, size),
                dst: dst.number(),
                src: base.number(),
                off,
                imm: LOAD_ACQUIRE,
            }),
            Self::StoreRelease { size, base, off, src } => one(RawInsn {
                opcode: memory(Class::Stx, Mode::Atomic, size),
                dst: base.number(),
                src: src.number(),
                off,
                imm: STORE_RELEASE,
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
            Self::JumpLong { off } => one(RawInsn {
                opcode: Class::Jmp32 as u8 | JUMP_ALWAYS,
                imm: off,
                ..RawInsn::default()
            }),
            Self::MayGoto { off } => {
                one(RawInsn { opcode: Class::Jmp as u8 | JUMP_MAY, off, ..RawInsn::default() })
            }
            Self::Call { helper } => one(call(0, 0, helper)),
            Self::CallLocal { off } => one(call(1, 0, off)),
            Self::CallKernel { btf_id, module } => one(call(2, module, btf_id)),
            Self::Unknown(raw) => one(raw),
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

/// The `off` field of a signed division or remainder.
const SIGNED: i16 = 1;
/// The `off` field of a move that is a cast between address spaces (`BPF_ADDR_SPACE_CAST`).
const SPACE_CAST: i16 = 1;

/// The `src` field of a call says what `imm` is: a helper, `BPF_PSEUDO_CALL`, `BPF_PSEUDO_KFUNC_CALL`.
const fn call(src: u8, off: i16, imm: i32) -> RawInsn {
    RawInsn { opcode: Class::Jmp as u8 | JUMP_CALL, dst: 0, src, off, imm }
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
