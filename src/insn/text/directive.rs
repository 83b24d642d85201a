//! Lines that begin with a point.

use super::cursor::Cursor;
use super::error::beginning;
use super::lexer::{self, Fault, Token};
use crate::insn::decode::decode_slot;
use crate::insn::instruction::Insn;
use crate::insn::module::{MapDefinition, map_type_number};
use crate::insn::raw::RawInsn;

/// `.map NAME, type T, ...`, the first word taken.
pub(super) fn map(cursor: &mut Cursor<'_>) -> Result<MapDefinition, Fault> {
    let start = cursor.place();
    let mut map = MapDefinition { name: cursor.name("the name of the map")?, ..Default::default() };
    let mut given: Vec<String> = Vec::new();
    while cursor.takes(",") {
        let at = cursor.place();
        let property = cursor.name("type, key, value, entries, flags or pinning")?;
        if given.contains(&property) {
            return Err((at, format!("`{property}` is given twice")));
        }
        let field = match property.as_str() {
            "type" => {
                map.map_type = map_type(cursor)?;
                given.push(property);
                continue;
            }
            "key" => &mut map.key_size,
            "value" => &mut map.value_size,
            "entries" => &mut map.max_entries,
            "flags" => &mut map.flags,
            "pinning" => &mut map.pinning,
            _ => {
                let what = "expected type, key, value, entries, flags or pinning";
                return Err((at, format!("{what}, found `{}`", beginning(&property))));
            }
        };
        *field = cursor.number(0..1 << 32, "a number")? as u32;
        given.push(property);
    }
    if !given.iter().any(|property| property == "type") {
        cursor.end()?;
        let at = cursor.since(&start);
        return Err((at, "this map has no type: add `, type hash` or another one".to_owned()));
    }
    cursor.end()?;
    Ok(map)
}

fn map_type(cursor: &mut Cursor<'_>) -> Result<u32, Fault> {
    let number = match cursor.peek() {
        Some(Token::Word(name)) => map_type_number(name),
        Some(Token::Number(number)) => u32::try_from(*number).ok(),
        _ => None,
    };
    match number {
        Some(number) => {
            cursor.advance();
            Ok(number)
        }
        None => cursor.expected("a type of map, such as hash, array or percpu_array"),
    }
}

/// `.insn OPCODE, DST, SRC, OFF, IMM`, the first word taken.
pub(super) fn slot(cursor: &mut Cursor<'_>) -> Result<Insn, Fault> {
    let opcode = cursor.number(0..256, "an opcode")? as u8;
    cursor.sign(",")?;
    let dst = cursor.number(0..16, "a register's number")? as u8;
    cursor.sign(",")?;
    let src = cursor.number(0..16, "a register's number")? as u8;
    cursor.sign(",")?;
    let off = cursor.number(i128::from(i16::MIN)..1 << 15, "an offset of 16 bits")? as i16;
    cursor.sign(",")?;
    let imm = cursor.number(i128::from(i32::MIN)..1 << 31, "an immediate of 32 bits")? as i32;
    cursor.end()?;
    let raw = RawInsn { opcode, dst, src, off, imm };
    Ok(decode_slot(raw).unwrap_or(Insn::Unknown(raw)))
}

/// The name behind `.section`, which begins at `from`: in quotes, or up to a blank, comma or `;`. The rest
/// of the line must be a comment.
pub(super) fn section(line: &[char], from: usize) -> Result<String, Fault> {
    let blanks = line[from..].iter().take_while(|c| c.is_whitespace()).count();
    let mut at = from + blanks;
    let start = at;
    let name = if line.get(at) == Some(&'"') {
        lexer::quoted(line, &mut at)?
    } else {
        let is_in_name = |c: &&char| !c.is_whitespace() && !matches!(c, ',' | ';' | '#' | '"');
        at += line[at..].iter().take_while(is_in_name).count();
        line[start..at].iter().collect()
    };
    if name.is_empty() || name.contains('\0') {
        let what = "expected the name of a section, such as tracepoint/syscalls/sys_enter_read";
        return Err((start..at.max(start + 1), what.to_owned()));
    }
    let rest = &line[at..];
    let blanks = rest.iter().take_while(|c| c.is_whitespace()).count();
    if blanks < rest.len() && !lexer::begins_comment(&rest[blanks..]) {
        let what = "expected the end of the line behind the section's name";
        return Err((at + blanks..line.len(), what.to_owned()));
    }
    Ok(name)
}
