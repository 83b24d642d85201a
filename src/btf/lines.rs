//! Which instruction begins a function, and which source line an instruction is from.
//!
//! Our source lines are the comments. An instruction without one has no line of its own, so that tools
//! show it under the comment before it, as they show the instructions of one line of C.

use super::{Linkage, Put as _, TypeId, Types};
use crate::insn::Section;

/// Where the instructions of a section are written down.
#[derive(Clone, Copy, Debug)]
pub struct SourceFile<'a> {
    /// Its name, as people are to see it.
    pub name: &'a str,
    /// The line of each instruction; where there is none, they are numbered from 1.
    pub lines: &'a [u32],
}

/// Says that a function begins at a slot (`struct bpf_func_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// The slot.
    pub slot: u32,
    /// The function's type.
    pub of: TypeId,
}

/// Says which line the instruction at a slot is from (`struct bpf_line_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineInfo {
    /// The slot.
    pub slot: u32,
    /// Where the file's name begins among the strings.
    pub file: u32,
    /// Where the line itself begins among the strings.
    pub text: u32,
    /// The line's number in bits 10 to 31, and the column in bits 0 to 9.
    pub line_and_column: u32,
}

/// What is said about the slots of one section, both in rising order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Where functions begin.
    pub functions: Vec<FunctionInfo>,
    /// Where lines begin: at each function's first instruction, as the kernel asks, and at each comment.
    pub lines: Vec<LineInfo>,
}

/// The greatest number of a line that its field holds.
const LAST_LINE: u32 = (1 << 22) - 1;

impl Lines {
    /// Describes a section. Its functions are written to the types as `int name(void *ctx)`.
    ///
    /// ```
    /// use rlat::btf::{Linkage, Lines, SourceFile, Types};
    /// use rlat::insn::{Endianness, text};
    ///
    /// let section = &text::parse("r0 = 0\nr1 = 5 ll ; five\nexit").unwrap().module.sections[0];
    /// let mut types = Types::new(Endianness::Little);
    /// let file = SourceFile { name: "five.s", lines: &[] };
    /// let lines = Lines::of(section, Linkage::Global, file, &mut types);
    /// assert_eq!(lines.functions[0].slot, 0);
    /// let slots: Vec<u32> = lines.lines.iter().map(|line| line.slot).collect();
    /// assert_eq!(slots, [0, 1]);
    /// ```
    pub fn of(
        section: &Section,
        linkage: Linkage,
        file: SourceFile<'_>,
        types: &mut Types,
    ) -> Self {
        let slots = section.slots();
        let returns = types.integer("int", 4, true);
        let context = types.pointer(0);
        let mut described = Self::default();
        for (index, name) in &section.functions {
            let of = types.function(name, linkage, returns, &[("ctx", context)]);
            described.functions.push(FunctionInfo { slot: slots[*index] as u32, of });
        }
        let name = types.string(file.name);
        let mut functions = section.functions.iter().map(|(index, _)| *index).peekable();
        for (index, slot) in slots.iter().enumerate().take(section.insns.len()) {
            let begins_function = functions.next_if_eq(&index).is_some();
            let comment = section.comments.get(&index);
            if comment.is_none() && !begins_function {
                continue;
            }
            let number = file.lines.get(index).copied().unwrap_or(index as u32 + 1);
            described.lines.push(LineInfo {
                slot: *slot as u32,
                file: name,
                text: types.string(comment.map_or("", String::as_str)),
                line_and_column: number.min(LAST_LINE) << 10 | 1,
            });
        }
        described
    }

    /// An array of `struct bpf_func_info`, as bpf(2) takes it.
    pub fn functions_for_kernel(&self, types: &Types) -> Vec<u8> {
        let mut bytes = Vec::new();
        for FunctionInfo { slot, of } in &self.functions {
            bytes.put32(types.order(), *slot);
            bytes.put32(types.order(), *of);
        }
        bytes
    }

    /// An array of `struct bpf_line_info`, as bpf(2) takes it.
    pub fn lines_for_kernel(&self, types: &Types) -> Vec<u8> {
        let mut bytes = Vec::new();
        for LineInfo { slot, file, text, line_and_column } in &self.lines {
            for word in [slot, file, text, line_and_column] {
                bytes.put32(types.order(), *word);
            }
        }
        bytes
    }
}
