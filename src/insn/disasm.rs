//! An instruction as text, in the syntax of llvm-objdump, which the verifier's log shares but for
//! blanks and hexadecimal.
//!
//! Two things are written otherwise than llvm-objdump does. The load of a map shows the map,
//! `r1 = map[fd:5]`, as bpftool does, where llvm-objdump shows a bare number. And a 32-bit exchange is
//! `w2 = xchg_32(...)`, as the 64-bit one is `xchg_64`, where llvm-objdump has `xchg32_32`.

use std::fmt;

use super::instruction::{Imm64, Insn, Operand, SwapTo, Width};
use super::opcode::{AtomicOp, Size};
use super::register::Reg;

impl fmt::Display for Insn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Alu { width, op, dst, src } => {
                let dst = Sized(dst, width);
                write!(f, "{dst} {} {}", op.text(), SizedOperand(src, width))
            }
            Self::Neg { width, dst } => {
                let dst = Sized(dst, width);
                write!(f, "{dst} = -{dst}")
            }
            Self::ByteSwap { dst, to, bits } => {
                let order = match to {
                    SwapTo::Little => "le",
                    SwapTo::Big => "be",
                };
                write!(f, "{dst} = {order}{} {dst}", bits as u8)
            }
            Self::LoadImm64 { dst, value } => match value {
                Imm64::Value(number) => write!(f, "{dst} = {} ll", number as i64),
                Imm64::MapFd(fd) => write!(f, "{dst} = map[fd:{fd}]"),
                Imm64::MapValue { fd, offset } => write!(f, "{dst} = map[fd:{fd}][0]+{offset}"),
            },
            Self::Load { size, dst, base, off } => {
                write!(f, "{dst} = *{}", Pointer(size, base, off))
            }
            Self::Store { size, base, off, src } => {
                write!(f, "*{} = {}", Pointer(size, base, off), SizedOperand(src, Width::W64))
            }
            Self::Atomic { op, size, base, off, src } => {
                let width = if size == Size::DW { Width::W64 } else { Width::W32 };
                let value = Sized(src, width);
                let bits = size.bytes() * 8;
                match op {
                    AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor => {
                        let place = Pointer(size, base, off);
                        write!(f, "lock *{place} {} {value}", op.text())
                    }
                    AtomicOp::FetchAdd
                    | AtomicOp::FetchOr
                    | AtomicOp::FetchAnd
                    | AtomicOp::FetchXor => {
                        let place = Pointer(size, base, off);
                        write!(f, "{value} = {}({place}, {value})", op.text())
                    }
                    AtomicOp::Xchg => {
                        let place = Place(base, off);
                        write!(f, "{value} = xchg_{bits}({place}, {value})")
                    }
                    AtomicOp::CmpXchg => {
                        let (old, place) = (Sized(Reg::R0, width), Place(base, off));
                        write!(f, "{old} = cmpxchg_{bits}({place}, {old}, {value})")
                    }
                }
            }
            Self::JumpIf { width, op, dst, src, off } => {
                let (dst, src) = (Sized(dst, width), SizedOperand(src, width));
                write!(f, "if {dst} {} {src} goto {off:+}", op.text())
            }
            Self::Jump { off } => write!(f, "goto {off:+}"),
            Self::Call { helper } => write!(f, "call {helper}"),
            Self::Exit => f.write_str("exit"),
        }
    }
}

/// A register by the name of its width: `r1` or `w1`.
struct Sized(Reg, Width);

impl fmt::Display for Sized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Width::W32 => write!(f, "w{}", self.0.number()),
            Width::W64 => write!(f, "{}", self.0),
        }
    }
}

struct SizedOperand(Operand, Width);

impl fmt::Display for SizedOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Operand::Reg(reg) => Sized(reg, self.1).fmt(f),
            Operand::Imm(imm) => imm.fmt(f),
        }
    }
}

/// `r1 + 16`
struct Place(Reg, i16);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.1 < 0 { '-' } else { '+' };
        write!(f, "{} {sign} {}", self.0, self.1.unsigned_abs())
    }
}

/// `(u64 *)(r1 + 16)`
struct Pointer(Size, Reg, i16);

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} *)({})", self.0.text(), Place(self.1, self.2))
    }
}
