//! Programs for people, for other tools, and for C.

use std::fmt::Write as _;

use super::plan::Dump;
use crate::insn::{Endianness, Insn, MapDefinition, RawInsn, Section, map_type_name, text};

/// Every instruction with its slot, its bytes, its text and its comment.
pub(super) fn text(dump: &Dump) -> String {
    let mut out = String::new();
    for note in &dump.notes {
        line(&mut out, &format!("note: {note}"));
    }
    for map in &dump.module.maps {
        line(&mut out, &map_line(map));
    }
    for (section, context) in dump.module.sections.iter().zip(&dump.context) {
        let slots = section.slots();
        let name = program(section);
        let count = section.insns.len();
        let slot_count = slots.last().copied().unwrap_or_default();
        line(&mut out, "");
        line(
            &mut out,
            &format!(
                "program {name}: {}, {count} instructions in {slot_count} slots",
                section.name
            ),
        );
        for field in context {
            let (field_name, offset, bytes) = (&field.name, field.offset, field.bytes);
            line(&mut out, &format!("context: {field_name} at offset {offset}, {bytes} bytes"));
        }
        let maps: Vec<&str> = used_maps(section);
        if !maps.is_empty() {
            line(&mut out, &format!("maps: {}", maps.join(", ")));
        }
        let texts = text::instructions(&dump.module, section);
        let mut labels = section.labels.iter().peekable();
        for (index, (insn, text)) in section.insns.iter().zip(&texts).enumerate() {
            while let Some((_, label)) = labels.next_if(|(at, _)| *at <= index) {
                line(&mut out, &format!("{label}:"));
            }
            let (first, second) = slots_of(insn);
            let comment = section.comments.get(&index);
            let told = match comment {
                Some(comment) => format!("{text:<36} ; {comment}"),
                None => text.clone(),
            };
            line(&mut out, &format!("{:6}: {}  {told}", slots[index], bytes(first)));
            if let Some(second) = second {
                line(&mut out, &format!("{:6}: {}", slots[index] + 1, bytes(second)));
            }
        }
    }
    out
}

/// The bytes of each program, a line a slot, behind a line with its name.
pub(super) fn hex(dump: &Dump) -> String {
    let mut out = String::new();
    for note in &dump.notes {
        line(&mut out, &format!("# note: {note}"));
    }
    for section in &dump.module.sections {
        line(&mut out, &format!("# {}: {}", program(section), section.name));
        for (slot, name) in references(section) {
            line(&mut out, &format!("# slot {slot}: the descriptor of map {name}"));
        }
        for slot in section.insns.iter().flat_map(|insn| both(slots_of(insn))) {
            line(&mut out, &bytes(slot));
        }
    }
    out
}

/// An array of `struct bpf_insn` for each program, which compiles with the kernel's headers alone.
pub(super) fn c(dump: &Dump) -> String {
    let mut out = String::from("#include <linux/bpf.h>\n");
    for note in &dump.notes {
        line(&mut out, &format!("\n/* note: {} */", harmless(note)));
    }
    for map in &dump.module.maps {
        line(&mut out, &format!("/* {} */", harmless(&map_line(map))));
    }
    for section in &dump.module.sections {
        line(&mut out, &format!("\n/* {} */", harmless(&section.name)));
        line(&mut out, &format!("static const struct bpf_insn {}[] = {{", program(section)));
        let texts = text::instructions(&dump.module, section);
        for (index, (insn, text)) in section.insns.iter().zip(&texts).enumerate() {
            let told = match section.comments.get(&index) {
                Some(comment) => format!("{text} ; {comment}"),
                None => text.clone(),
            };
            let (first, second) = slots_of(insn);
            line(&mut out, &format!("\t{}, /* {} */", initializer(first), harmless(&told)));
            if let Some(second) = second {
                line(&mut out, &format!("\t{},", initializer(second)));
            }
        }
        line(&mut out, "};");
    }
    out
}

fn line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

/// The name of the only program of a section.
fn program(section: &Section) -> &str {
    section.functions.first().map_or("", |(_, name)| name.as_str())
}

fn map_line(map: &MapDefinition) -> String {
    let MapDefinition { name, map_type, key_size, value_size, max_entries, flags, .. } = map;
    let type_name = map_type_name(*map_type).unwrap_or("unknown");
    let mut line = format!(
        "map {name}: {type_name}, key {key_size}, value {value_size}, entries {max_entries}"
    );
    if *flags != 0 {
        // Writing to a String cannot fail.
        let _ = write!(line, ", flags {flags}");
    }
    line
}

fn used_maps(section: &Section) -> Vec<&str> {
    let mut maps: Vec<&str> = Vec::new();
    for reference in &section.references {
        if !maps.contains(&reference.to.name()) {
            maps.push(reference.to.name());
        }
    }
    maps
}

fn references(section: &Section) -> impl Iterator<Item = (usize, &str)> {
    let slots = section.slots();
    section.references.iter().map(move |reference| (slots[reference.index], reference.to.name()))
}

/// The slots of an instruction, as the kernel of this machine takes them.
fn slots_of(insn: &Insn) -> (RawInsn, Option<RawInsn>) {
    insn.to_raw()
}

fn both((first, second): (RawInsn, Option<RawInsn>)) -> impl Iterator<Item = RawInsn> {
    std::iter::once(first).chain(second)
}

fn bytes(slot: RawInsn) -> String {
    slot.encode(Endianness::NATIVE).map(|byte| format!("{byte:02x}")).join(" ")
}

fn initializer(RawInsn { opcode, dst, src, off, imm }: RawInsn) -> String {
    format!(
        "{{ .code = {opcode:#04x}, .dst_reg = {dst}, .src_reg = {src}, .off = {off}, .imm = {imm} }}"
    )
}

/// A text that does not end the comment it stands in.
fn harmless(text: &str) -> String {
    text.replace("*/", "* /").replace("/*", "/ *")
}
