//! The section `.BTF.ext` of an object file: functions and lines, section by section.
//!
//! It counts instructions in bytes from the beginning of their section, where bpf(2) counts slots.

use super::lines::{FunctionInfo, LineInfo, Lines};
use super::read::{MalformedBtf, TypesRead};
use super::{MAGIC, Put as _, Types, VERSION, get32};
use crate::insn::{Endianness, SLOT_BYTES};

/// Bytes of the header, which has three parts here.
const HEADER_BYTES: usize = 32;
/// Bytes of a function's record and of a line's.
const FUNCTION_BYTES: u32 = 8;
const LINE_BYTES: u32 = 16;

/// The bytes of a `.BTF.ext` section about the named sections.
pub fn encode_ext(sections: &[(&str, Lines)], types: &mut Types) -> Vec<u8> {
    let order = types.order();
    let (mut functions, mut lines) = (Vec::new(), Vec::new());
    functions.put32(order, FUNCTION_BYTES);
    lines.put32(order, LINE_BYTES);
    for (name, described) in sections {
        let name = types.string(name);
        // A section without records is not allowed; ours have a function each.
        if !described.functions.is_empty() {
            functions.put32(order, name);
            functions.put32(order, described.functions.len() as u32);
            for FunctionInfo { slot, of } in &described.functions {
                functions.put32(order, slot * SLOT_BYTES as u32);
                functions.put32(order, *of);
            }
        }
        if !described.lines.is_empty() {
            lines.put32(order, name);
            lines.put32(order, described.lines.len() as u32);
            for LineInfo { slot, file, text, line_and_column } in &described.lines {
                lines.put32(order, slot * SLOT_BYTES as u32);
                for word in [file, text, line_and_column] {
                    lines.put32(order, *word);
                }
            }
        }
    }
    let (functions_len, lines_len) = (functions.len() as u32, lines.len() as u32);
    let end = functions_len + lines_len;
    let mut bytes = Vec::new();
    bytes.put16(order, MAGIC);
    bytes.extend([VERSION, 0]);
    // The last part, relocations for other kernels' types, is empty.
    for word in [HEADER_BYTES as u32, 0, functions_len, functions_len, lines_len, end, 0] {
        bytes.put32(order, word);
    }
    bytes.extend(functions);
    bytes.extend(lines);
    bytes
}

/// The source lines of one section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionLines {
    /// The section's name.
    pub section: String,
    /// Slot and source line, in the order of the file.
    pub lines: Vec<(usize, String)>,
}

/// The source lines in the bytes of a `.BTF.ext` section.
///
/// # Errors
/// When a part lies outside of the section, or a string outside of `types`.
pub fn read_ext(
    bytes: &[u8],
    order: Endianness,
    types: &TypesRead<'_>,
) -> Result<Vec<SectionLines>, MalformedBtf> {
    let malformed = |what: &str| MalformedBtf(format!(".BTF.ext: {what}"));
    let header =
        get32(order, bytes, 4).ok_or_else(|| malformed("it is shorter than its header"))?;
    let offset = get32(order, bytes, 16).ok_or_else(|| malformed("its header is cut"))?;
    let length = get32(order, bytes, 20).ok_or_else(|| malformed("its header is cut"))?;
    if length == 0 {
        return Ok(Vec::new());
    }
    let start = (header as usize).checked_add(offset as usize);
    let part = start.and_then(|start| bytes.get(start..start.checked_add(length as usize)?));
    let part = part.ok_or_else(|| malformed("the lines are outside of it"))?;
    let cut = || malformed("the lines are cut");
    let record = get32(order, part, 0).ok_or_else(cut)? as usize;
    if record < LINE_BYTES as usize {
        return Err(malformed("its records of lines are too short"));
    }
    let mut sections = Vec::new();
    let mut at = 4;
    while at < part.len() {
        let name = get32(order, part, at).ok_or_else(cut)?;
        let count = get32(order, part, at + 4).ok_or_else(cut)? as usize;
        at += 8;
        let mut lines = Vec::new();
        for _ in 0..count {
            let place = get32(order, part, at).ok_or_else(cut)? as usize;
            let text = get32(order, part, at + 8).ok_or_else(cut)?;
            lines.push((place / SLOT_BYTES, types.string(text)?));
            at = at.checked_add(record).ok_or_else(cut)?;
        }
        sections.push(SectionLines { section: types.string(name)?, lines });
    }
    Ok(sections)
}
