//! The assembler: instructions in order, labels as values, comments on any line.
//!
//! Every method appends its instruction at once and returns a [`Line`] to hang a comment on; leaving
//! the `Line` unused loses nothing. What cannot be right is reported once, by [`Assembler::finish`].

use std::collections::BTreeMap;
use std::fmt;

use super::helper::Helper;
use super::instruction::{Imm64, Insn, Operand, SwapBits, SwapTo, Width};
use super::opcode::{AluOp, AtomicOp, JumpOp, Size};
use super::program::{Program, Relocation};
use super::register::Reg;

/// A place in the program to jump to, made by [`Assembler::label`] of the same assembler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// Why a program could not be put together. Each names the label at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssembleError {
    /// A jump goes to a label that was never bound to a place.
    UnboundLabel(String),
    /// A label was bound to two places.
    BoundTwice(String),
    /// The label is bound behind the last instruction: a jump there would leave the program.
    NothingAfter(String),
    /// The distance to the label, in slots, does not fit into 16 bits.
    JumpTooFar {
        /// The label's name.
        label: String,
        /// The slot of the jump.
        from: usize,
        /// The slot of the label.
        to: usize,
    },
    /// The label was made by an assembler with more labels than this one.
    ForeignLabel,
}

impl fmt::Display for AssembleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnboundLabel(label) => write!(f, "label {label} is jumped to but never bound"),
            Self::BoundTwice(label) => write!(f, "label {label} is bound twice"),
            Self::NothingAfter(label) => write!(f, "no instruction follows label {label}"),
            Self::JumpTooFar { label, from, to } => write!(
                f,
                "the jump at slot {from} cannot reach label {label} at slot {to}: \
                 the distance does not fit into 16 bits"
            ),
            Self::ForeignLabel => f.write_str("a label of another assembler was used"),
        }
    }
}

impl std::error::Error for AssembleError {}

struct LabelState {
    name: String,
    bound_to: Option<usize>,
}

/// Builds a [`Program`] line by line.
///
/// ```
/// use rlat::insn::{Assembler, Helper, JumpOp, Reg};
///
/// let mut asm = Assembler::new("is_thread_1");
/// let out = asm.label("out");
/// asm.call(Helper::GetCurrentPidTgid).comment("r0 = tgid << 32 | tid");
/// asm.mov32(Reg::R1, Reg::R0).comment("the low half: the thread");
/// asm.mov(Reg::R0, 0);
/// asm.jump_if(JumpOp::Ne, Reg::R1, 1, out);
/// asm.mov(Reg::R0, 1);
/// asm.bind(out);
/// asm.exit();
///
/// let program = asm.finish()?;
/// assert_eq!(program.insns()[3].to_string(), "if r1 != 1 goto +1");
/// assert_eq!(program.comment(1), Some("the low half: the thread"));
/// # Ok::<(), rlat::insn::AssembleError>(())
/// ```
pub struct Assembler {
    name: String,
    insns: Vec<Insn>,
    comments: BTreeMap<usize, String>,
    labels: Vec<LabelState>,
    jumps: Vec<(usize, Label)>,
    relocations: Vec<Relocation>,
    first_error: Option<AssembleError>,
}

/// The instruction that was appended last, to hang a comment on.
pub struct Line<'a>(&'a mut Assembler);

impl Line<'_> {
    /// Says why the instruction is there. Disassembly and the verifier's log show it.
    pub fn comment(self, text: impl Into<String>) {
        let at = self.0.insns.len() - 1;
        self.0.comments.insert(at, text.into());
    }
}

impl Assembler {
    /// An empty program of that name. The kernel keeps 15 bytes of it.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            insns: Vec::new(),
            comments: BTreeMap::new(),
            labels: Vec::new(),
            jumps: Vec::new(),
            relocations: Vec::new(),
            first_error: None,
        }
    }

    /// A new label, not bound to a place yet. Two may have the same name.
    pub fn label(&mut self, name: impl Into<String>) -> Label {
        self.labels.push(LabelState { name: name.into(), bound_to: None });
        Label(self.labels.len() - 1)
    }

    /// Binds the label to the next instruction.
    pub fn bind(&mut self, label: Label) {
        let next = self.insns.len();
        match self.labels.get_mut(label.0) {
            Some(LabelState { bound_to: bound @ None, .. }) => *bound = Some(next),
            Some(LabelState { name, .. }) => {
                let error = AssembleError::BoundTwice(name.clone());
                self.first_error.get_or_insert(error);
            }
            None => {
                self.first_error.get_or_insert(AssembleError::ForeignLabel);
            }
        }
    }

    /// Appends any instruction; the methods below are short for it.
    pub fn push(&mut self, insn: Insn) -> Line<'_> {
        self.insns.push(insn);
        Line(self)
    }

    /// `dst = src`
    pub fn mov(&mut self, dst: Reg, src: impl Into<Operand>) -> Line<'_> {
        self.alu(AluOp::Mov, dst, src)
    }

    /// `dst = r10 + offset`: the address of a place on the stack, which takes two instructions.
    pub fn stack_address(&mut self, dst: Reg, offset: i16) -> Line<'_> {
        self.mov(dst, Reg::R10);
        self.alu(AluOp::Add, dst, i32::from(offset))
    }

    /// `dst = src`, the low 32 bits only.
    pub fn mov32(&mut self, dst: Reg, src: impl Into<Operand>) -> Line<'_> {
        self.push(Insn::Alu { width: Width::W32, op: AluOp::Mov, dst, src: src.into() })
    }

    /// `dst op= src`
    pub fn alu(&mut self, op: AluOp, dst: Reg, src: impl Into<Operand>) -> Line<'_> {
        self.push(Insn::Alu { width: Width::W64, op, dst, src: src.into() })
    }

    /// `dst = be16 dst` and its like.
    pub fn byte_swap(&mut self, to: SwapTo, bits: SwapBits, dst: Reg) -> Line<'_> {
        self.push(Insn::ByteSwap { dst, to, bits })
    }

    /// `dst = number`, all 64 bits of it.
    pub fn load_imm64(&mut self, dst: Reg, number: u64) -> Line<'_> {
        self.push(Insn::LoadImm64 { dst, value: Imm64::Value(number) })
    }

    /// `dst =` the map of that name, as helper calls take it.
    pub fn load_map(&mut self, dst: Reg, map: &str) -> Line<'_> {
        self.load_map_imm64(dst, map, Imm64::MapFd(0))
    }

    /// `dst =` the address of a byte in the only value of the array map of that name.
    pub fn load_map_value(&mut self, dst: Reg, map: &str, offset: u32) -> Line<'_> {
        self.load_map_imm64(dst, map, Imm64::MapValue { fd: 0, offset })
    }

    /// As in an object file, the descriptor stays 0 and a relocation beside it names the map.
    fn load_map_imm64(&mut self, dst: Reg, map: &str, value: Imm64) -> Line<'_> {
        self.relocations.push(Relocation { index: self.insns.len(), map: map.to_owned() });
        self.push(Insn::LoadImm64 { dst, value })
    }

    /// `dst = *(size *)(base + off)`
    pub fn load(&mut self, size: Size, dst: Reg, base: Reg, off: i16) -> Line<'_> {
        self.push(Insn::Load { size, dst, base, off })
    }

    /// `*(size *)(base + off) = src`
    pub fn store(&mut self, size: Size, base: Reg, off: i16, src: impl Into<Operand>) -> Line<'_> {
        self.push(Insn::Store { size, base, off, src: src.into() })
    }

    /// An atomic operation on 8 bytes.
    pub fn atomic(&mut self, op: AtomicOp, base: Reg, off: i16, src: Reg) -> Line<'_> {
        self.push(Insn::Atomic { op, size: Size::DW, base, off, src })
    }

    /// `if dst op src goto label`
    pub fn jump_if(
        &mut self,
        op: JumpOp,
        dst: Reg,
        src: impl Into<Operand>,
        label: Label,
    ) -> Line<'_> {
        self.jumps.push((self.insns.len(), label));
        self.push(Insn::JumpIf { width: Width::W64, op, dst, src: src.into(), off: 0 })
    }

    /// `goto label`
    pub fn jump(&mut self, label: Label) -> Line<'_> {
        self.jumps.push((self.insns.len(), label));
        self.push(Insn::Jump { off: 0 })
    }

    /// `call helper`
    pub fn call(&mut self, helper: Helper) -> Line<'_> {
        self.push(Insn::Call { helper: helper.id() })
    }

    /// `exit`
    pub fn exit(&mut self) -> Line<'_> {
        self.push(Insn::Exit)
    }

    /// Resolves the jumps and hands the program over.
    ///
    /// # Errors
    /// The first label that was bound twice, else the first jump that cannot be resolved.
    pub fn finish(mut self) -> Result<Program, AssembleError> {
        if let Some(error) = self.first_error {
            return Err(error);
        }
        // Offsets count slots, not instructions: a 64-bit immediate load is two.
        let mut slots = Vec::with_capacity(self.insns.len());
        let mut next_slot = 0;
        for insn in &self.insns {
            slots.push(next_slot);
            next_slot += insn.slots();
        }
        for (at, label) in &self.jumps {
            let label = self.labels.get(label.0).ok_or(AssembleError::ForeignLabel)?;
            let target =
                label.bound_to.ok_or_else(|| AssembleError::UnboundLabel(label.name.clone()))?;
            let (from, to) = (slots[*at], slots.get(target).copied());
            let to = to.ok_or_else(|| AssembleError::NothingAfter(label.name.clone()))?;
            let distance = to as i64 - (from as i64 + 1);
            let resolved = i16::try_from(distance).map_err(|_| AssembleError::JumpTooFar {
                label: label.name.clone(),
                from,
                to,
            })?;
            if let Insn::Jump { off } | Insn::JumpIf { off, .. } = &mut self.insns[*at] {
                *off = resolved;
            }
        }
        let labels = self
            .labels
            .into_iter()
            .filter_map(|label| label.bound_to.map(|index| (index, label.name)))
            .collect();
        Ok(Program::new(self.name, self.insns, self.comments, labels, self.relocations))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_64_bit_load_counts_two_slots_in_both_directions() {
        let mut asm = Assembler::new("t");
        let (back, forward) = (asm.label("back"), asm.label("forward"));
        asm.bind(back);
        asm.jump(forward);
        asm.load_imm64(Reg::R0, u64::MAX);
        asm.bind(forward);
        asm.load_map(Reg::R1, "m");
        asm.jump(back);
        let program = asm.finish().unwrap();
        assert_eq!(program.insns()[0], Insn::Jump { off: 2 });
        assert_eq!(program.insns()[3], Insn::Jump { off: -6 });
    }

    #[test]
    fn label_errors_name_the_label() {
        let mut asm = Assembler::new("t");
        let lost = asm.label("lost");
        asm.jump(lost);
        assert_eq!(asm.finish().unwrap_err(), AssembleError::UnboundLabel("lost".into()));

        let mut asm = Assembler::new("t");
        let twice = asm.label("twice");
        asm.bind(twice);
        asm.exit();
        asm.bind(twice);
        assert_eq!(asm.finish().unwrap_err(), AssembleError::BoundTwice("twice".into()));

        let mut asm = Assembler::new("t");
        let end = asm.label("end");
        asm.jump(end);
        asm.bind(end);
        assert_eq!(asm.finish().unwrap_err(), AssembleError::NothingAfter("end".into()));

        let mut other = Assembler::new("o");
        let foreign = other.label("foreign");
        let mut asm = Assembler::new("t");
        asm.jump(foreign);
        assert_eq!(asm.finish().unwrap_err(), AssembleError::ForeignLabel);
    }

    /// A jump over `padding` one-slot instructions, forward or back.
    fn jump_over(padding: usize, forward: bool) -> Result<Program, AssembleError> {
        let mut asm = Assembler::new("t");
        let far = asm.label("far");
        if forward {
            asm.jump_if(JumpOp::Eq, Reg::R1, 0, far);
        } else {
            asm.bind(far);
        }
        for _ in 0..padding {
            asm.mov(Reg::R0, 0);
        }
        if forward {
            asm.bind(far);
        } else {
            asm.jump_if(JumpOp::Eq, Reg::R1, 0, far);
        }
        asm.exit();
        asm.finish()
    }

    #[test]
    fn jumps_reach_as_far_as_16_bits_and_no_farther() {
        assert!(jump_over(32_767, true).is_ok());
        assert!(matches!(jump_over(32_768, true), Err(AssembleError::JumpTooFar { .. })));
        assert!(jump_over(32_767, false).is_ok());
        assert!(matches!(jump_over(32_768, false), Err(AssembleError::JumpTooFar { .. })));
    }
}
