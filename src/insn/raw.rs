//! The eight bytes: `struct bpf_insn` as the kernel reads it.
//!
//! ```text
//!   byte 0    byte 1         bytes 2-3    bytes 4-7
//! +---------+------+------+-------------+-------------+
//! | opcode  | src  | dst  |  off (i16)  |  imm (i32)  |    little-endian
//! +---------+------+------+-------------+-------------+
//! | opcode  | dst  | src  |  off (i16)  |  imm (i32)  |    big-endian
//! +---------+------+------+-------------+-------------+
//!             4 bit  4 bit
//! ```
//!
//! The kernel declares the registers as bit fields (`include/uapi/linux/bpf.h`), and C lays those
//! out from the other end on a big-endian machine: there even the two nibbles change places.

use byteorder::{BigEndian, ByteOrder, LittleEndian};

/// The order of bytes in a number of more than one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endianness {
    /// Least significant byte first: x86-64, arm64, riscv64.
    Little,
    /// Most significant byte first: s390x.
    Big,
}

impl Endianness {
    /// The order of the machine that this was compiled for, which is what its kernel expects.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };
}

/// The length of one encoded slot in bytes. A 64-bit immediate load takes two slots.
pub const SLOT_BYTES: usize = 8;

/// One slot of an encoded program, its fields not interpreted.
///
/// ```
/// use rlat::insn::{Endianness, RawInsn};
///
/// // r6 = r1: class ALU64 (0x07), operation MOV (0xb0), source X (0x08)
/// let raw = RawInsn { opcode: 0xbf, dst: 6, src: 1, off: 0, imm: 0 };
/// assert_eq!(raw.encode(Endianness::Little), [0xbf, 0x16, 0, 0, 0, 0, 0, 0]);
/// assert_eq!(raw.encode(Endianness::Big), [0xbf, 0x61, 0, 0, 0, 0, 0, 0]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawInsn {
    /// Class, and by class: operation and source, or mode and size. See [`opcode`](super::opcode).
    pub opcode: u8,
    /// Number of the destination register, 0 to 15 as far as the encoding goes.
    pub dst: u8,
    /// Number of the source register, or what kind of 64-bit immediate or call this is.
    pub src: u8,
    /// Offset of a memory access in bytes, or of a jump in slots from the next instruction.
    pub off: i16,
    /// The immediate operand.
    pub imm: i32,
}

impl RawInsn {
    /// The slot's eight bytes in that order.
    pub fn encode(self, endianness: Endianness) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        bytes[0] = self.opcode;
        let (dst, src) = (self.dst & 0x0f, self.src & 0x0f);
        match endianness {
            Endianness::Little => {
                bytes[1] = src << 4 | dst;
                LittleEndian::write_i16(&mut bytes[2..4], self.off);
                LittleEndian::write_i32(&mut bytes[4..8], self.imm);
            }
            Endianness::Big => {
                bytes[1] = dst << 4 | src;
                BigEndian::write_i16(&mut bytes[2..4], self.off);
                BigEndian::write_i32(&mut bytes[4..8], self.imm);
            }
        }
        bytes
    }

    /// The fields of one slot. Every eight bytes are some slot, so this cannot fail.
    pub fn decode(bytes: [u8; SLOT_BYTES], endianness: Endianness) -> Self {
        let (low, high) = (bytes[1] & 0x0f, bytes[1] >> 4);
        match endianness {
            Endianness::Little => Self {
                opcode: bytes[0],
                dst: low,
                src: high,
                off: LittleEndian::read_i16(&bytes[2..4]),
                imm: LittleEndian::read_i32(&bytes[4..8]),
            },
            Endianness::Big => Self {
                opcode: bytes[0],
                dst: high,
                src: low,
                off: BigEndian::read_i16(&bytes[2..4]),
                imm: BigEndian::read_i32(&bytes[4..8]),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_eight_bytes_survive(bytes: [u8; 8], big: bool) {
            let order = if big { Endianness::Big } else { Endianness::Little };
            prop_assert_eq!(RawInsn::decode(bytes, order).encode(order), bytes);
        }
    }

    #[test]
    fn a_map_load_of_both_endiannesses_byte_by_byte() {
        // r1 = map fd 5, first slot: opcode 0x18, src 1 (BPF_PSEUDO_MAP_FD)
        let raw = RawInsn { opcode: 0x18, dst: 2, src: 1, off: -2, imm: 0x0102_0304 };
        assert_eq!(raw.encode(Endianness::Little), [0x18, 0x12, 0xfe, 0xff, 4, 3, 2, 1]);
        assert_eq!(raw.encode(Endianness::Big), [0x18, 0x21, 0xff, 0xfe, 1, 2, 3, 4]);
    }
}
