//! From a module to text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::lexer::is_in_word;
use crate::insn::helper_names::{helper_name, helper_number};
use crate::insn::instruction::{Imm64, Insn};
use crate::insn::module::{MapDefinition, Module, Section, Target, map_type_name};

/// The text of a module. [`parse`](super::parse()) reads it back as the same module.
///
/// ```
/// use rlat::insn::text::{parse, write};
///
/// let text = ".license \"GPL\"\n\n.section socket\n.func f\n    r0 = 0                               \
///             ; nothing\n    exit\n";
/// assert_eq!(write(&parse(text)?.module), text);
/// # Ok::<(), rlat::insn::text::TextError>(())
/// ```
pub fn write(module: &Module) -> String {
    let mut text = String::new();
    if let Some(license) = &module.license {
        line(&mut text, &format!(".license {}", quoted(license)));
    }
    for map in &module.maps {
        line(&mut text, &map_line(map));
    }
    for name in &module.externs {
        line(&mut text, &format!(".extern {}", word(name)));
    }
    for section in &module.sections {
        if !text.is_empty() {
            text.push('\n');
        }
        write_section(&mut text, section, &instructions(module, section));
    }
    text
}

fn write_section(text: &mut String, section: &Section, texts: &[String]) {
    line(text, &format!(".section {}", section_name(&section.name)));
    let (mut functions, mut labels) = (section.functions.iter(), section.labels.iter());
    let (mut function, mut label) = (functions.next(), labels.next());
    for (index, insn) in texts.iter().enumerate() {
        while let Some((_, name)) = function.filter(|(at, _)| *at <= index) {
            line(text, &format!(".func {}", word(name)));
            function = functions.next();
        }
        while let Some((_, name)) = label.filter(|(at, _)| *at <= index) {
            line(text, &format!("{}:", word(name)));
            label = labels.next();
        }
        line(
            text,
            &match section.comments.get(&index) {
                Some(comment) => format!("    {insn:<36} ; {comment}"),
                None => format!("    {insn}"),
            },
        );
    }
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// `.map NAME, type T, ...` with what is not 0.
fn map_line(map: &MapDefinition) -> String {
    let mut line = format!(".map {}, type ", word(&map.name));
    match map_type_name(map.map_type) {
        Some(name) => line.push_str(name),
        None => line.push_str(&map.map_type.to_string()),
    }
    let numbers = [
        ("key", map.key_size),
        ("value", map.value_size),
        ("entries", map.max_entries),
        ("flags", map.flags),
        ("pinning", map.pinning),
    ];
    for (name, number) in numbers.into_iter().filter(|(_, number)| *number != 0) {
        // Writing to a String cannot fail.
        let _ = write!(line, ", {name} {number}");
    }
    line
}

/// The text of each instruction of a section, with names where the file has them.
pub fn instructions(module: &Module, section: &Section) -> Vec<String> {
    let slots = section.slots();
    let indices: BTreeMap<i64, usize> =
        slots.iter().enumerate().map(|(index, slot)| (*slot as i64, index)).collect();
    let labels: BTreeMap<usize, &str> =
        section.labels.iter().rev().map(|(index, name)| (*index, name.as_str())).collect();
    let functions: BTreeMap<usize, &str> =
        section.functions.iter().map(|(index, name)| (*index, name.as_str())).collect();
    let references: BTreeMap<usize, &Target> =
        section.references.iter().map(|reference| (reference.index, &reference.to)).collect();
    // A function of the file may have taken the name of a helper.
    let own: BTreeSet<&str> = module
        .sections
        .iter()
        .flat_map(|section| &section.functions)
        .map(|(_, name)| name.as_str())
        .filter(|name| helper_number(name).is_some())
        .collect();
    let text = |(index, insn): (usize, &Insn)| {
        let target = |off: i64| indices.get(&(slots[index] as i64 + 1 + off)).copied();
        let label = |off: i64| target(off).and_then(|index| labels.get(&index).copied());
        let function = |off: i64| target(off).and_then(|index| functions.get(&index).copied());
        if let Some(to) = references.get(&index) {
            return referring(insn, to);
        }
        named(insn, label, function, &own).unwrap_or_else(|| insn.to_string())
    };
    section.insns.iter().enumerate().map(text).collect()
}

/// An instruction that refers to a map, or to a function of another section.
fn referring(insn: &Insn, to: &Target) -> String {
    let name = word(to.name());
    match (insn, to) {
        (Insn::LoadImm64 { dst, value: Imm64::MapValue { offset, .. } }, Target::Map(_)) => {
            format!("{dst} = map[{name}][0]+{offset}")
        }
        (Insn::LoadImm64 { dst, .. }, Target::Map(_)) => format!("{dst} = map[{name}]"),
        (Insn::LoadImm64 { dst, .. }, Target::Function(_)) => format!("{dst} = subprog[{name}]"),
        (Insn::LoadImm64 { dst, .. }, Target::Extern(_)) => {
            format!("{dst} = {} ll", symbol(to.name()))
        }
        (_, Target::Function(_) | Target::Extern(_)) => format!("call {}", callee(to.name())),
        _ => insn.to_string(),
    }
}

/// An instruction whose text has a name where disassembly has a number.
fn named<'a>(
    insn: &Insn,
    label: impl Fn(i64) -> Option<&'a str>,
    function: impl Fn(i64) -> Option<&'a str>,
    own: &BTreeSet<&str>,
) -> Option<String> {
    Some(match *insn {
        Insn::Jump { off } | Insn::JumpIf { off, .. } | Insn::MayGoto { off } => {
            with_target(insn, label(off.into())?)
        }
        Insn::JumpLong { off } => with_target(insn, label(off.into())?),
        Insn::CallLocal { off } => format!("call {}", callee(function(off.into())?)),
        Insn::LoadImm64 { dst, value: Imm64::Function(off) } => {
            format!("{dst} = subprog[{}]", word(function(off.into())?))
        }
        Insn::Call { helper } => {
            let name = helper_name(helper).filter(|name| !own.contains(name.as_str()))?;
            format!("call {name}")
        }
        _ => return None,
    })
}

/// A jump's text, with the label in the place of the distance, which is its last word.
fn with_target(insn: &Insn, label: &str) -> String {
    let text = insn.to_string();
    let condition = text.rsplit_once(' ').map_or("", |(condition, _)| condition);
    format!("{condition} {}", word(label))
}

/// A function's name, so that it is taken for nothing else behind `call`.
fn callee(name: &str) -> String {
    if matches!(name, "pc" | "kfunc") { quoted(name) } else { word(name) }
}

/// The name of an address, so that it is taken for nothing else behind `r1 =`.
fn symbol(name: &str) -> String {
    let plain = name.len() > 4
        && !name.contains("cast")
        && !TAKEN.iter().any(|taken| name.starts_with(taken));
    if plain { word(name) } else { quoted(name) }
}

/// What names of operations begin with.
const TAKEN: [&str; 6] = ["bswap", "atomic_", "load_", "xchg", "cmpxchg", "btf_id"];

/// A name as it can be read again: in quotes where it is no word.
fn word(name: &str) -> String {
    let begins = name.chars().next().is_some_and(|c| is_in_word(c) && !c.is_ascii_digit());
    let plain = begins && name.chars().all(is_in_word) && name != "pc";
    if plain { name.to_owned() } else { quoted(name) }
}

fn section_name(name: &str) -> String {
    let plain = |c: char| is_in_word(c) || matches!(c, '/' | ':' | '?' | '+' | '-' | '*' | '@');
    if name.is_empty() || !name.chars().all(plain) { quoted(name) } else { name.to_owned() }
}

fn quoted(name: &str) -> String {
    let mut text = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_ascii_control() => {
                let _ = write!(text, "\\x{:02x}", c as u32);
            }
            // What does not simply print could move the line or turn it around.
            c if !c.is_ascii() && c.escape_debug().len() > 1 => {
                let _ = write!(text, "\\u{{{:x}}}", c as u32);
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}
