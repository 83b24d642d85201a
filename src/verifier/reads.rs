//! Which registers an instruction reads: what the verifier knows of them decides whether it may.

use crate::insn::{Insn, Operand, Reg};

/// The registers, in the order in which the instruction names them. For a call those of all arguments: how
/// many it takes, only its function knows.
pub(super) fn registers(insn: &Insn) -> Vec<Reg> {
    let operand = |first: Option<Reg>, src: Operand| {
        let second = match src {
            Operand::Reg(reg) => Some(reg),
            Operand::Imm(_) => None,
        };
        first.into_iter().chain(second).collect()
    };
    match *insn {
        Insn::Alu { op: crate::insn::AluOp::Mov, src, .. } => operand(None, src),
        Insn::Alu { dst, src, .. }
        | Insn::SignedAlu { dst, src, .. }
        | Insn::JumpIf { dst, src, .. } => operand(Some(dst), src),
        Insn::MoveSigned { src, .. } | Insn::AddrSpaceCast { src, .. } => vec![src],
        Insn::Neg { dst, .. } | Insn::ByteSwap { dst, .. } => vec![dst],
        Insn::Load { base, .. }
        | Insn::LoadSigned { base, .. }
        | Insn::LoadAcquire { base, .. } => {
            vec![base]
        }
        Insn::Store { base, src, .. } => operand(Some(base), src),
        Insn::StoreRelease { base, src, .. } | Insn::Atomic { base, src, .. } => vec![base, src],
        Insn::LoadPacket { index, .. } => [Reg::R6].into_iter().chain(index).collect(),
        Insn::Call { .. } | Insn::CallLocal { .. } | Insn::CallKernel { .. } => {
            vec![Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5]
        }
        Insn::Exit => vec![Reg::R0],
        Insn::LoadImm64 { .. }
        | Insn::Jump { .. }
        | Insn::JumpLong { .. }
        | Insn::MayGoto { .. }
        | Insn::Unknown(_) => Vec::new(),
    }
}
