//! A program as its author knows it, by slot: what the log is shown beside.

use std::collections::BTreeMap;

use crate::insn::{Insn, Program};

/// The instructions of a program by the slot at which they begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    lines: BTreeMap<usize, Listed>,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The instruction.
    pub insn: Insn,
    /// Its text, with names where the author has them.
    pub text: String,
    /// What its author says about it.
    pub comment: Option<String>,
    /// Its line in the author's file, where there is one; the first is 1.
    pub line: Option<u32>,
}

impl Listed {
    /// What is said behind a line of the kernel's that shows the instruction.
    pub fn remark(&self) -> Option<String> {
        match (self.line, &self.comment) {
            (Some(line), Some(comment)) => Some(format!("line {line}: {comment}")),
            (Some(line), None) => Some(format!("line {line}")),
            (None, comment) => comment.clone(),
        }
    }
}

impl Listing {
    /// Of a program in our own disassembly.
    pub fn of(program: &Program) -> Self {
        Self::new(program.insns().iter().enumerate().map(|(index, insn)| Listed {
            insn: *insn,
            text: insn.to_string(),
            comment: program.comment(index).map(str::to_owned),
            line: None,
        }))
    }

    /// Of instructions in their order.
    pub fn new(listed: impl IntoIterator<Item = Listed>) -> Self {
        let mut slot = 0;
        let place = |listed: Listed| {
            let at = slot;
            slot += listed.insn.slots();
            (at, listed)
        };
        Self { lines: listed.into_iter().map(place).collect() }
    }

    /// The instruction that begins at a slot.
    pub fn get(&self, slot: usize) -> Option<&Listed> {
        self.lines.get(&slot)
    }

    /// All, by slot.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &Listed)> {
        self.lines.iter().map(|(slot, listed)| (*slot, listed))
    }
}
