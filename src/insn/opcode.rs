//! The opcode byte, taken apart: classes, operations, sizes and modes as types.
//!
//! The three low bits are the class, and the class says how to read the other five:
//!
//! ```text
//!   bit      7 6 5 4     3       2 1 0
//!          +-----------+-------+--------+
//!   ALU    | operation | source| class  |   classes 4 to 7: arithmetic and jumps
//!          +-----------+-------+--------+
//!          +--------+----------+--------+
//!   LD/ST  |  mode  |   size   | class  |   classes 0 to 3: loads and stores
//!          +--------+----------+--------+
//!   bit      7 6 5     4 3       2 1 0
//! ```
//!
//! Source: Documentation/bpf/standardization/instruction-set.rst and `include/uapi/linux/bpf.h`;
//! each variant's value is the constant of the same name there, already in its place in the byte.

/// Bits 0 to 2: what kind of instruction it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// `BPF_LD`: the 64-bit immediate load, and old packet loads.
    Ld = 0x00,
    /// `BPF_LDX`: from memory into a register.
    Ldx = 0x01,
    /// `BPF_ST`: an immediate into memory.
    St = 0x02,
    /// `BPF_STX`: a register into memory, and the atomic operations.
    Stx = 0x03,
    /// `BPF_ALU`: arithmetic on the low 32 bits; the high ones become zero.
    Alu = 0x04,
    /// `BPF_JMP`: jumps that compare 64 bits, calls, exit.
    Jmp = 0x05,
    /// `BPF_JMP32`: jumps that compare the low 32 bits. Linux 5.1.
    Jmp32 = 0x06,
    /// `BPF_ALU64`: arithmetic on 64 bits.
    Alu64 = 0x07,
}

impl Class {
    /// The class of an opcode: every value of the three bits is one.
    pub const fn of(opcode: u8) -> Self {
        match opcode & 0x07 {
            0 => Self::Ld,
            1 => Self::Ldx,
            2 => Self::St,
            3 => Self::Stx,
            4 => Self::Alu,
            5 => Self::Jmp,
            6 => Self::Jmp32,
            _ => Self::Alu64,
        }
    }
}

/// Bit 3 of arithmetic and jumps, set: the second operand is the register `src` (`BPF_X`); clear:
/// it is `imm` (`BPF_K`).
pub const SOURCE_X: u8 = 0x08;

/// Declares a fieldless enum over opcode bits with `from_bits`, so that value and inverse stand in
/// one place.
macro_rules! opcode_bits {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $bits:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant = $bits,)* }

        impl $name {
            /// Every variant, in the order of its bits.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The bits, in their place in the opcode or, for atomics, in `imm`.
            pub const fn bits(self) -> u8 { self as u8 }

            /// The variant with these bits, if there is one.
            pub const fn from_bits(bits: u8) -> Option<Self> {
                match bits { $($bits => Some(Self::$variant),)* _ => None }
            }

            /// How disassembly writes it.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

opcode_bits! {
    /// Bits 4 to 7 of an arithmetic instruction with two operands. Negation and byte swaps, which
    /// have one, are instructions of their own.
    AluOp {
        /// `dst += src`
        Add = 0x00 "+=",
        /// `dst -= src`
        Sub = 0x10 "-=",
        /// `dst *= src`
        Mul = 0x20 "*=",
        /// `dst /= src`, unsigned; division by zero gives 0.
        Div = 0x30 "/=",
        /// `dst |= src`
        Or = 0x40 "|=",
        /// `dst &= src`
        And = 0x50 "&=",
        /// `dst <<= src`; the shift is taken modulo the width.
        Lsh = 0x60 "<<=",
        /// `dst >>= src`, zeros come in from the left.
        Rsh = 0x70 ">>=",
        /// `dst %= src`, unsigned; modulo zero leaves `dst` as it is.
        Mod = 0x90 "%=",
        /// `dst ^= src`
        Xor = 0xa0 "^=",
        /// `dst = src`
        Mov = 0xb0 "=",
        /// `dst s>>= src`, copies of the sign come in from the left.
        Arsh = 0xc0 "s>>=",
    }
}

/// Bits 4 to 7 of negation, `dst = -dst`.
pub const ALU_NEG: u8 = 0x80;
/// Bits 4 to 7 of a byte swap; bit 3 then says to which order.
pub const ALU_END: u8 = 0xd0;

opcode_bits! {
    /// Bits 4 to 7 of a conditional jump: how the two operands are compared.
    JumpOp {
        /// equal
        Eq = 0x10 "==",
        /// greater, unsigned
        Gt = 0x20 ">",
        /// greater or equal, unsigned
        Ge = 0x30 ">=",
        /// any common bit: `dst & src` is not zero
        Set = 0x40 "&",
        /// not equal
        Ne = 0x50 "!=",
        /// greater, signed
        Sgt = 0x60 "s>",
        /// greater or equal, signed
        Sge = 0x70 "s>=",
        /// less, unsigned
        Lt = 0xa0 "<",
        /// less or equal, unsigned
        Le = 0xb0 "<=",
        /// less, signed
        Slt = 0xc0 "s<",
        /// less or equal, signed
        Sle = 0xd0 "s<=",
    }
}

/// Bits 4 to 7 of the unconditional jump (`BPF_JA`).
pub const JUMP_ALWAYS: u8 = 0x00;
/// Bits 4 to 7 of a call.
pub const JUMP_CALL: u8 = 0x80;
/// Bits 4 to 7 of `may_goto` (`BPF_JCOND`). Linux 6.9.
pub const JUMP_MAY: u8 = 0xe0;
/// Bits 4 to 7 of exit.
pub const JUMP_EXIT: u8 = 0x90;

opcode_bits! {
    /// Bits 3 and 4 of a load or store: how many bytes. A store of three bytes has no variant.
    Size {
        /// `BPF_W`: 4 bytes, a word.
        W = 0x00 "u32",
        /// `BPF_H`: 2 bytes, a half word.
        H = 0x08 "u16",
        /// `BPF_B`: one byte.
        B = 0x10 "u8",
        /// `BPF_DW`: 8 bytes, a double word.
        DW = 0x18 "u64",
    }
}

impl Size {
    /// The number of bytes: 1, 2, 4 or 8.
    pub const fn bytes(self) -> usize {
        match self {
            Self::B => 1,
            Self::H => 2,
            Self::W => 4,
            Self::DW => 8,
        }
    }
}

opcode_bits! {
    /// Bits 5 to 7 of a load or store: how the address is made.
    Mode {
        /// `BPF_IMM`: no address, the value is in the instruction.
        Imm = 0x00 "imm",
        /// `BPF_ABS`: a place in the packet.
        Absolute = 0x20 "abs",
        /// `BPF_IND`: a place in the packet, plus a register.
        Indirect = 0x40 "ind",
        /// `BPF_MEM`: register plus offset.
        Mem = 0x60 "mem",
        /// `BPF_MEMSX`: register plus offset, and copies of the sign fill the rest. Linux 6.6.
        MemSigned = 0x80 "memsx",
        /// `BPF_ATOMIC`: register plus offset, changed atomically. Until Linux 5.11 this was
        /// `BPF_XADD`, and addition without fetch was all there was.
        Atomic = 0xc0 "atomic",
    }
}

opcode_bits! {
    /// What an atomic instruction does, as its `imm` says. All but `Add` need Linux 5.12.
    AtomicOp {
        /// `lock *dst += src`
        Add = 0x00 "+=",
        /// `src = atomic_fetch_add(dst, src)`
        FetchAdd = 0x01 "atomic_fetch_add",
        /// `lock *dst |= src`
        Or = 0x40 "|=",
        /// `src = atomic_fetch_or(dst, src)`
        FetchOr = 0x41 "atomic_fetch_or",
        /// `lock *dst &= src`
        And = 0x50 "&=",
        /// `src = atomic_fetch_and(dst, src)`
        FetchAnd = 0x51 "atomic_fetch_and",
        /// `lock *dst ^= src`
        Xor = 0xa0 "^=",
        /// `src = atomic_fetch_xor(dst, src)`
        FetchXor = 0xa1 "atomic_fetch_xor",
        /// `src = xchg(dst, src)`
        Xchg = 0xe1 "xchg",
        /// `r0 = cmpxchg(dst, r0, src)`: stores `src` if the old value equals `r0`, and leaves the
        /// old value in `r0` either way.
        CmpXchg = 0xf1 "cmpxchg",
    }
}

/// The `imm` of an atomic load, `BPF_LOAD_ACQ`. Linux 6.15.
pub const LOAD_ACQUIRE: i32 = 0x100;
/// The `imm` of an atomic store, `BPF_STORE_REL`. Linux 6.15.
pub const STORE_RELEASE: i32 = 0x110;
