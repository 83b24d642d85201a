//! From bytes back to instructions.
//!
//! Decoding is strict: a field that an instruction does not use must be zero, as the verifier asks.
//! So two different byte strings never decode to the same instructions, and encoding what was
//! decoded gives the very same bytes.

use std::fmt;

use super::instruction::{Imm64, Insn, Operand, SignedBits, SignedOp, SwapBits, SwapTo, Width};
use super::opcode::{
    ALU_END, ALU_NEG, AluOp, AtomicOp, Class, JUMP_ALWAYS, JUMP_CALL, JUMP_EXIT, JUMP_MAY, JumpOp,
    LOAD_ACQUIRE, Mode, SOURCE_X, STORE_RELEASE, Size,
};
use super::raw::{Endianness, RawInsn, SLOT_BYTES};
use super::register::Reg;

/// Why bytes are not a program, and at which slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The slot's index, the first one being 0.
    pub slot: usize,
    /// What is wrong with it.
    pub reason: DecodeReason,
}

/// What is wrong with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeReason {
    /// The bytes end in the middle of a slot.
    Truncated,
    /// A 64-bit immediate load whose second slot is missing or not empty but for `imm`.
    HalfImm64,
    /// No instruction known here has this opcode (or, for atomics and byte swaps, this `imm`).
    UnknownOpcode(RawInsn),
    /// There is no register with this number.
    NoSuchRegister(u8),
    /// A field that must be zero is not.
    ReservedField(RawInsn),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}: ", self.slot)?;
        match self.reason {
            DecodeReason::Truncated => f.write_str("the bytes end within a slot of 8"),
            DecodeReason::HalfImm64 => f.write_str("a 64-bit load lacks its second slot"),
            DecodeReason::UnknownOpcode(raw) => {
                write!(f, "unknown opcode {:#04x} with imm {}", raw.opcode, raw.imm)
            }
            DecodeReason::NoSuchRegister(number) => write!(f, "there is no register r{number}"),
            DecodeReason::ReservedField(raw) => {
                write!(f, "opcode {:#04x} uses a field that must be zero", raw.opcode)
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// The instructions that these bytes encode.
///
/// # Errors
/// [`DecodeReason::Truncated`] when the length is no whole number of slots, else the first slot that is
/// no instruction.
///
/// ```
/// use rlat::insn::{Endianness, Insn, decode};
///
/// let bytes = [0xb7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
/// let insns = decode(&bytes, Endianness::Little)?;
/// assert_eq!(insns[0].to_string(), "r0 = 0");
/// assert_eq!(insns[1], Insn::Exit);
/// # Ok::<(), rlat::insn::DecodeError>(())
/// ```
pub fn decode(bytes: &[u8], endianness: Endianness) -> Result<Vec<Insn>, DecodeError> {
    let (slots, rest) = bytes.as_chunks::<SLOT_BYTES>();
    if !rest.is_empty() {
        return Err(DecodeError { slot: slots.len(), reason: DecodeReason::Truncated });
    }
    let mut insns = Vec::with_capacity(slots.len());
    let mut raws = slots.iter().map(|slot| RawInsn::decode(*slot, endianness)).enumerate();
    while let Some((slot, raw)) = raws.next() {
        let insn = if is_imm64(raw) {
            imm64(raw, raws.next().map(|(_, second)| second))
        } else {
            one_slot(raw)
        };
        insns.push(insn.map_err(|reason| DecodeError { slot, reason })?);
    }
    Ok(insns)
}

/// The same for anybody's bytes: a slot that is no instruction becomes [`Insn::Unknown`], so that
/// nothing stops the reader, and [`encode`](super::encode) gives back the very same bytes.
///
/// # Errors
/// [`DecodeReason::Truncated`] only.
pub fn decode_any(bytes: &[u8], endianness: Endianness) -> Result<Vec<Insn>, DecodeError> {
    let (slots, rest) = bytes.as_chunks::<SLOT_BYTES>();
    if !rest.is_empty() {
        return Err(DecodeError { slot: slots.len(), reason: DecodeReason::Truncated });
    }
    let mut insns = Vec::with_capacity(slots.len());
    let mut raws = slots.iter().map(|slot| RawInsn::decode(*slot, endianness)).peekable();
    while let Some(raw) = raws.next() {
        let insn = if is_imm64(raw) {
            // Its second half is looked at by itself if the two do not make one.
            let insn = imm64(raw, raws.peek().copied());
            if insn.is_ok() {
                raws.next();
            }
            insn
        } else {
            one_slot(raw)
        };
        insns.push(insn.unwrap_or(Insn::Unknown(raw)));
    }
    Ok(insns)
}

/// The instruction of a single slot, if it is one.
pub(super) fn decode_slot(raw: RawInsn) -> Option<Insn> {
    if is_imm64(raw) { None } else { one_slot(raw).ok() }
}

const fn is_imm64(raw: RawInsn) -> bool {
    raw.opcode == Class::Ld as u8 | Mode::Imm.bits() | Size::DW.bits()
}

fn imm64(first: RawInsn, second: Option<RawInsn>) -> Result<Insn, DecodeReason> {
    let second = second.ok_or(DecodeReason::HalfImm64)?;
    if second != (RawInsn { imm: second.imm, ..RawInsn::default() }) {
        return Err(DecodeReason::HalfImm64);
    }
    let dst = register(first.dst)?;
    let (low, high) = (first.imm as u32, second.imm as u32);
    let value = match (first.off, first.src) {
        (0, 0) => Imm64::Value(u64::from(high) << 32 | u64::from(low)),
        (0, 1) if high == 0 => Imm64::MapFd(first.imm),
        (0, 2) => Imm64::MapValue { fd: first.imm, offset: high },
        (0, 3) => Imm64::KernelVariable { btf_id: first.imm, module: second.imm },
        (0, 4) if high == 0 => Imm64::Function(first.imm),
        (0, 5) if high == 0 => Imm64::MapIndex(first.imm),
        (0, 6) => Imm64::MapIndexValue { index: first.imm, offset: high },
        _ => return Err(DecodeReason::ReservedField(first)),
    };
    Ok(Insn::LoadImm64 { dst, value })
}

fn one_slot(raw: RawInsn) -> Result<Insn, DecodeReason> {
    let insn = match Class::of(raw.opcode) {
        Class::Alu => arithmetic(raw, Width::W32)?,
        Class::Alu64 => arithmetic(raw, Width::W64)?,
        Class::Jmp => jump(raw, Width::W64)?,
        Class::Jmp32 => jump(raw, Width::W32)?,
        Class::Ld | Class::Ldx | Class::St | Class::Stx => memory(raw)?,
    };
    // Whatever the instruction does not use must be zero: encoding it again tells.
    if insn.to_raw() == (raw, None) { Ok(insn) } else { Err(DecodeReason::ReservedField(raw)) }
}

fn arithmetic(raw: RawInsn, width: Width) -> Result<Insn, DecodeReason> {
    let unknown = DecodeReason::UnknownOpcode(raw);
    let dst = register(raw.dst)?;
    match raw.opcode & 0xf0 {
        ALU_NEG => Ok(Insn::Neg { width, dst }),
        ALU_END => {
            let bits = match raw.imm {
                16 => SwapBits::B16,
                32 => SwapBits::B32,
                64 => SwapBits::B64,
                _ => return Err(unknown),
            };
            let to = match (width, raw.opcode & SOURCE_X) {
                (Width::W32, 0) => SwapTo::Little,
                (Width::W32, _) => SwapTo::Big,
                (Width::W64, 0) => SwapTo::Other,
                (Width::W64, _) => return Err(unknown),
            };
            Ok(Insn::ByteSwap { dst, to, bits })
        }
        op => {
            let op = AluOp::from_bits(op).ok_or(unknown)?;
            Ok(match (op, operand(raw)?, raw.off) {
                (AluOp::Div, src, 1) => Insn::SignedAlu { width, op: SignedOp::Div, dst, src },
                (AluOp::Mod, src, 1) => Insn::SignedAlu { width, op: SignedOp::Mod, dst, src },
                (AluOp::Mov, Operand::Reg(src), 1) => {
                    let (to, from) = ((raw.imm as u32 >> 16) as u16, raw.imm as u16);
                    Insn::AddrSpaceCast { dst, src, to, from }
                }
                (AluOp::Mov, Operand::Reg(src), 8 | 16 | 32) => {
                    let bits = match raw.off {
                        8 => SignedBits::B8,
                        16 => SignedBits::B16,
                        _ => SignedBits::B32,
                    };
                    Insn::MoveSigned { width, bits, dst, src }
                }
                (op, src, _) => Insn::Alu { width, op, dst, src },
            })
        }
    }
}

fn jump(raw: RawInsn, width: Width) -> Result<Insn, DecodeReason> {
    match (raw.opcode & 0xf0, width) {
        (JUMP_ALWAYS, Width::W64) => Ok(Insn::Jump { off: raw.off }),
        (JUMP_ALWAYS, Width::W32) => Ok(Insn::JumpLong { off: raw.imm }),
        (JUMP_MAY, Width::W64) => Ok(Insn::MayGoto { off: raw.off }),
        (JUMP_CALL, Width::W64) => match raw.src {
            0 => Ok(Insn::Call { helper: raw.imm }),
            1 => Ok(Insn::CallLocal { off: raw.imm }),
            2 => Ok(Insn::CallKernel { btf_id: raw.imm, module: raw.off }),
            _ => Err(DecodeReason::ReservedField(raw)),
        },
        (JUMP_EXIT, Width::W64) => Ok(Insn::Exit),
        (op, width) => {
            let op = JumpOp::from_bits(op).ok_or(DecodeReason::UnknownOpcode(raw))?;
            let dst = register(raw.dst)?;
            Ok(Insn::JumpIf { width, op, dst, src: operand(raw)?, off: raw.off })
        }
    }
}

fn memory(raw: RawInsn) -> Result<Insn, DecodeReason> {
    let unknown = DecodeReason::UnknownOpcode(raw);
    let size = Size::from_bits(raw.opcode & 0x18).ok_or(unknown)?;
    let mode = Mode::from_bits(raw.opcode & 0xe0).ok_or(unknown)?;
    let (dst, src, off) = (register(raw.dst)?, register(raw.src)?, raw.off);
    match (Class::of(raw.opcode), mode) {
        (Class::Ldx, Mode::Mem) => Ok(Insn::Load { size, dst, base: src, off }),
        (Class::St, Mode::Mem) => Ok(Insn::Store { size, base: dst, off, src: raw.imm.into() }),
        (Class::Stx, Mode::Mem) => Ok(Insn::Store { size, base: dst, off, src: src.into() }),
        (Class::Ldx, Mode::MemSigned) => Ok(Insn::LoadSigned { size, dst, base: src, off }),
        (Class::Ld, Mode::Absolute) => Ok(Insn::LoadPacket { size, index: None, off: raw.imm }),
        (Class::Ld, Mode::Indirect) => {
            Ok(Insn::LoadPacket { size, index: Some(src), off: raw.imm })
        }
        (Class::Stx, Mode::Atomic) if raw.imm == LOAD_ACQUIRE => {
            Ok(Insn::LoadAcquire { size, dst, base: src, off })
        }
        (Class::Stx, Mode::Atomic) if raw.imm == STORE_RELEASE => {
            Ok(Insn::StoreRelease { size, base: dst, off, src })
        }
        (Class::Stx, Mode::Atomic) => {
            let op = u8::try_from(raw.imm).ok().and_then(AtomicOp::from_bits).ok_or(unknown)?;
            Ok(Insn::Atomic { op, size, base: dst, off, src })
        }
        _ => Err(unknown),
    }
}

fn operand(raw: RawInsn) -> Result<Operand, DecodeReason> {
    if raw.opcode & SOURCE_X == 0 {
        Ok(Operand::Imm(raw.imm))
    } else {
        register(raw.src).map(Operand::Reg)
    }
}

fn register(number: u8) -> Result<Reg, DecodeReason> {
    Reg::from_number(number).ok_or(DecodeReason::NoSuchRegister(number))
}
