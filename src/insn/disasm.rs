//! An instruction as text, in the syntax of llvm-objdump, which the verifier's log shares but for
//! blanks and hexadecimal.
//!
//! Some things are written otherwise than llvm-objdump does:
//!
//! - the load of a map shows the map, `r1 = map[fd:5]`, and that of a function `r1 = subprog[+3]`, as
//!   bpftool does, where llvm-objdump shows a bare number;
//! - a 32-bit exchange is `w2 = xchg_32(...)`, as the 64-bit one is `xchg_64`, where llvm-objdump has
//!   `xchg32_32`;
//! - a call of a function of the same program is `call pc+3`, as in the verifier's log, where
//!   llvm-objdump shows it as it shows the call of a helper;
//! - a slot that is no instruction is `.insn opcode, dst, src, off, imm`, where it is `<unknown>`.

use std::fmt;

use super::instruction::{Imm64, Insn, Operand, SignedOp, SwapTo, Width};
use super::opcode::{AtomicOp, Size};
use super::raw::RawInsn;
use super::register::Reg;

impl fmt::Display for Insn {
    #[allow(clippy::too_many_lines)] // It is one list: a form for each instruction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Alu { width, op, dst, src } => {
                let dst = Sized(dst, width);
                write!(f, "{dst} {} {}", op.text(), SizedOperand(src, width))
            }
            Self::SignedAlu { width, op, dst, src } => {
                let op = match op {
                    SignedOp::Div => "s/=",
                    SignedOp::Mod => "s%=",
                };
                write!(f, "{} {op} {}", Sized(dst, width), SizedOperand(src, width))
            }
            Self::MoveSigned { width, bits, dst, src } => {
                write!(f, "{} = (s{}){}", Sized(dst, width), bits as u8, Sized(src, width))
            }
            Self::AddrSpaceCast { dst, src, to, from } => {
                write!(f, "{dst} = addr_space_cast({src}, {to}, {from})")
            }
            Self::Neg { width, dst } => {
                let dst = Sized(dst, width);
                write!(f, "{dst} = -{dst}")
            }
            Self::ByteSwap { dst, to, bits } => {
                let order = match to {
                    SwapTo::Little => "le",
                    SwapTo::Big => "be",
                    SwapTo::Other => "bswap",
                };
                write!(f, "{dst} = {order}{} {dst}", bits as u8)
            }
            Self::LoadImm64 { dst, value } => match value {
                Imm64::Value(number) => write!(f, "{dst} = {} ll", number as i64),
                Imm64::MapFd(fd) => write!(f, "{dst} = map[fd:{fd}]"),
                Imm64::MapValue { fd, offset } => write!(f, "{dst} = map[fd:{fd}][0]+{offset}"),
                Imm64::KernelVariable { btf_id, module: 0 } => write!(f, "{dst} = btf_id:{btf_id}"),
                Imm64::KernelVariable { btf_id, module } => {
                    write!(f, "{dst} = btf_id:{btf_id}, {module}")
                }
                Imm64::Function(off) => write!(f, "{dst} = subprog[{off:+}]"),
                Imm64::MapIndex(index) => write!(f, "{dst} = map[idx:{index}]"),
                Imm64::MapIndexValue { index, offset } => {
                    write!(f, "{dst} = map[idx:{index}][0]+{offset}")
                }
            },
            Self::Load { size, dst, base, off } => {
                write!(f, "{dst} = *{}", Pointer(size, base, off))
            }
            Self::LoadSigned { size, dst, base, off } => {
                write!(f, "{dst} = *(s{} *)({})", size.bytes() * 8, Place(base, off))
            }
            Self::LoadPacket { size, index, off } => {
                write!(f, "r0 = *({} *)skb[", size.text())?;
                match index {
                    None => write!(f, "{off}]"),
                    Some(index) if off == 0 => write!(f, "{index}]"),
                    Some(index) => {
                        let sign = if off < 0 { '-' } else { '+' };
                        write!(f, "{index} {sign} {}]", off.unsigned_abs())
                    }
                }
            }
            Self::LoadAcquire { size, dst, base, off } => {
                let dst = Sized(dst, width_of(size));
                write!(f, "{dst} = load_acquire({})", Pointer(size, base, off))
            }
            Self::StoreRelease { size, base, off, src } => {
                let src = Sized(src, width_of(size));
                write!(f, "store_release({}, {src})", Pointer(size, base, off))
            }
            Self::Store { size, base, off, src } => {
                write!(f, "*{} = {}", Pointer(size, base, off), SizedOperand(src, Width::W64))
            }
            Self::Atomic { op, size, base, off, src } => {
                let width = width_of(size);
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
            Self::JumpLong { off } => write!(f, "gotol {off:+}"),
            Self::MayGoto { off } => write!(f, "may_goto {off:+}"),
            Self::Call { helper } => write!(f, "call {helper}"),
            Self::CallLocal { off } => write!(f, "call pc{off:+}"),
            Self::CallKernel { btf_id, module: 0 } => write!(f, "call kfunc {btf_id}"),
            Self::CallKernel { btf_id, module } => write!(f, "call kfunc {btf_id}, {module}"),
            Self::Exit => f.write_str("exit"),
            Self::Unknown(RawInsn { opcode, dst, src, off, imm }) => {
                write!(f, ".insn {opcode:#04x}, {dst}, {src}, {off}, {imm}")
            }
        }
    }
}

/// The register that a memory access of that size is said to use.
const fn width_of(size: Size) -> Width {
    match size {
        Size::DW => Width::W64,
        Size::B | Size::H | Size::W => Width::W32,
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
