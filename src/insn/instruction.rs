//! One instruction: what it means. [`encode`](super::encode()) makes slots of it.

use super::opcode::{AluOp, AtomicOp, JumpOp, Size};
use super::raw::RawInsn;
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
    /// `bswap16`, `bswap32`, `bswap64`: the other one, whatever the machine's is. Linux 6.6.
    Other,
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

/// The operations of which signed numbers have their own. Linux 6.6; the `off` field is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedOp {
    /// `dst s/= src`; the quotient is cut towards zero, and division by zero gives 0.
    Div,
    /// `dst s%= src`; it has the sign of `dst`.
    Mod,
}

impl SignedOp {
    /// The unsigned operation, whose opcode it shares.
    pub const fn unsigned(self) -> AluOp {
        match self {
            Self::Div => AluOp::Div,
            Self::Mod => AluOp::Mod,
        }
    }
}

/// How many of the low bits of a register a sign-extending move takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedBits {
    /// 8
    B8 = 8,
    /// 16
    B16 = 16,
    /// 32, which makes sense only for a move to all 64.
    B32 = 32,
}

/// What the 64-bit immediate load puts into its register. The `src` field of the first slot says
/// which: the constants `BPF_PSEUDO_...` from 0 to 6.
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
    /// The address of a variable of the kernel. Linux 5.10.
    KernelVariable {
        /// The variable's number in the BTF of the kernel or of a module.
        btf_id: i32,
        /// The descriptor of the module's BTF, 0 for the kernel's own.
        module: i32,
    },
    /// The address of a function of this program, for helpers that call back. Linux 5.13.
    Function(i32),
    /// The map with this place in the array of descriptors that comes with the program. Linux 5.14.
    MapIndex(i32),
    /// As [`MapValue`](Self::MapValue), the map by its place in that array. Linux 5.14.
    MapIndexValue {
        /// The place.
        index: i32,
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
    /// `dst s/= src` or `dst s%= src`. Linux 6.6.
    SignedAlu {
        /// 32 or 64 bits.
        width: Width,
        /// The operation.
        op: SignedOp,
        /// First operand and result.
        dst: Reg,
        /// Second operand.
        src: Operand,
    },
    /// `dst = (s8)src`: copies of the sign fill the rest. Linux 6.6.
    MoveSigned {
        /// 32 or 64 bits of result.
        width: Width,
        /// How many of `src`.
        bits: SignedBits,
        /// The result.
        dst: Reg,
        /// The operand.
        src: Reg,
    },
    /// `dst = addr_space_cast(src, to, from)`: a pointer into an arena as the other side sees it.
    /// Linux 6.9.
    AddrSpaceCast {
        /// The result.
        dst: Reg,
        /// The pointer.
        src: Reg,
        /// The address space of the result.
        to: u16,
        /// The address space of the operand.
        from: u16,
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
    /// `dst = *(s8 *)(base + off)`: copies of the sign fill the rest. Linux 6.6.
    LoadSigned {
        /// How many bytes; the verifier takes 1, 2 and 4.
        size: Size,
        /// The result.
        dst: Reg,
        /// The pointer.
        base: Reg,
        /// Added to the pointer, in bytes.
        off: i16,
    },
    /// `r0 = *(u8 *)skb[5]`: a number from the packet that r6 points to, in network order. What is left
    /// of the packet filters before BPF had maps.
    LoadPacket {
        /// How many bytes; the verifier takes 1, 2 and 4.
        size: Size,
        /// A register that is added to the place.
        index: Option<Reg>,
        /// Where in the packet.
        off: i32,
    },
    /// `dst = load_acquire((u64 *)(base + off))`: what follows sees what was stored before. Linux 6.15.
    LoadAcquire {
        /// How many bytes.
        size: Size,
        /// The result.
        dst: Reg,
        /// The pointer.
        base: Reg,
        /// Added to the pointer, in bytes.
        off: i16,
    },
    /// `store_release((u64 *)(base + off), src)`: the other half of it. Linux 6.15.
    StoreRelease {
        /// How many bytes.
        size: Size,
        /// The pointer.
        base: Reg,
        /// Added to the pointer, in bytes.
        off: i16,
        /// What is stored.
        src: Reg,
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
    /// `gotol off`: farther than 16 bits reach. Linux 6.6.
    JumpLong {
        /// How far, in slots from the next instruction.
        off: i32,
    },
    /// `may_goto off`: jumps if the kernel thinks that it has looped long enough. Linux 6.9.
    MayGoto {
        /// How far, in slots from the next instruction.
        off: i16,
    },
    /// `call pc+off`: a function of the same program. Linux 4.16.
    CallLocal {
        /// How far, in slots from the next instruction.
        off: i32,
    },
    /// `call kfunc 123`: a function of the kernel that is no helper. Linux 5.13.
    CallKernel {
        /// The function's number in the BTF of the kernel or of a module.
        btf_id: i32,
        /// The place of the module's BTF in the program's array of descriptors, 0 for the kernel's.
        module: i16,
    },
    /// `call helper`: arguments in r1 to r5, result in r0, r1 to r5 are lost.
    Call {
        /// The helper's number; see [`Helper`](super::Helper).
        helper: i32,
    },
    /// `exit`: the program ends, r0 is its result.
    Exit,
    /// A slot that is no instruction known here. [`decode`](super::decode) never gives it;
    /// [`decode_any`](super::decode_any) does.
    Unknown(RawInsn),
}

impl Insn {
    /// How many 8-byte slots it takes: two for the 64-bit immediate load, one for all others.
    pub const fn slots(&self) -> usize {
        match self {
            Self::LoadImm64 { .. } => 2,
            _ => 1,
        }
    }
}
