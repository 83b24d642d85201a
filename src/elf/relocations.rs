//! What instructions refer to, from the relocations of an object file.

use std::collections::{BTreeMap, HashMap};

use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags, RelocationTarget,
    SectionIndex, SymbolKind,
};

use super::error::MalformedObject;
use super::read::File;
use super::{CALL_FUNCTION, LOAD_ADDRESS};
use crate::insn::{Imm64, Insn, Module, Reference, SLOT_BYTES, Target};

/// What symbols can lead to.
#[derive(Default)]
pub(super) struct Symbols {
    /// Maps by section and offset in bytes.
    pub(super) maps: HashMap<(SectionIndex, u64), String>,
    /// Sections of variables, and the names of their maps.
    pub(super) variables: HashMap<SectionIndex, String>,
    /// Functions by section and index of the first instruction.
    pub(super) functions: HashMap<(SectionIndex, usize), String>,
    /// Which sections of the file those of the module are, in order.
    pub(super) sections: Vec<SectionIndex>,
}

/// A symbol that a relocation names.
struct Symbol {
    name: String,
    section: Option<SectionIndex>,
    address: u64,
}

/// Puts names to all instructions that have a relocation. What cannot be named is noted.
pub(super) fn apply(
    file: &File<'_>,
    module: &mut Module,
    symbols: &Symbols,
    notes: &mut Vec<String>,
) -> Result<(), MalformedObject> {
    // Where each instruction of each section is, by slot.
    let places: Vec<BTreeMap<usize, usize>> = module
        .sections
        .iter()
        .map(|section| {
            let slots = section.slots().into_iter().take(section.insns.len());
            slots.enumerate().map(|(index, slot)| (slot, index)).collect()
        })
        .collect();
    for (at, own) in symbols.sections.iter().enumerate() {
        let section = file
            .section_by_index(*own)
            .map_err(|error| MalformedObject(format!("section {}: {error}", own.0)))?;
        let mut references: BTreeMap<usize, Target> = BTreeMap::new();
        for (offset, relocation) in section.relocations() {
            let wrong = |why: &str| {
                let section = &module.sections[at].name;
                MalformedObject(format!("section {section}, relocation at byte {offset}: {why}"))
            };
            let slot = usize::try_from(offset).ok().filter(|offset| offset % SLOT_BYTES == 0);
            let index = slot.and_then(|offset| places[at].get(&(offset / SLOT_BYTES)));
            let index = *index.ok_or_else(|| wrong("there is no instruction"))?;
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                return Err(wrong("it names no symbol"));
            };
            let symbol = file.symbol_by_index(symbol).map_err(|error| wrong(&error.to_string()))?;
            let name = symbol.name_bytes().map_err(|error| wrong(&error.to_string()))?;
            let symbol = Symbol {
                name: String::from_utf8_lossy(name).into_owned(),
                section: symbol
                    .section_index()
                    .filter(|_| symbol.kind() != SymbolKind::File && !symbol.is_undefined()),
                address: symbol.address(),
            };
            let insn = module.sections[at].insns[index];
            let named = match (r_type.0, insn) {
                (LOAD_ADDRESS, Insn::LoadImm64 { .. }) => load(insn, &symbol, symbols, &places),
                (CALL_FUNCTION, Insn::CallLocal { off }) => {
                    call(off.into(), *own, &symbol, symbols, &places)
                }
                // A relocation of another field, such as those of debugging sections.
                _ => None,
            };
            match named {
                Some(Named::Here(target)) => {
                    let distance = target as i64 - (offset as usize / SLOT_BYTES) as i64 - 1;
                    if let Insn::CallLocal { off } = &mut module.sections[at].insns[index] {
                        *off = distance as i32;
                    }
                }
                Some(Named::Elsewhere(insn, to)) => {
                    if let Target::Extern(name) = &to
                        && !module.externs.contains(name)
                    {
                        module.externs.push(name.clone());
                    }
                    module.sections[at].insns[index] = insn;
                    references.insert(index, to);
                }
                None => {
                    let section = &module.sections[at].name;
                    let slot = offset as usize / SLOT_BYTES;
                    let kind = r_type.0;
                    notes.push(format!(
                        "the relocation of slot {slot} in section {section}: type {kind}, symbol {:?}",
                        symbol.name
                    ));
                }
            }
        }
        let references = references.into_iter().map(|(index, to)| Reference { index, to });
        module.sections[at].references = references.collect();
    }
    Ok(())
}

enum Named {
    /// A slot of the same section.
    Here(usize),
    /// Something else, and the instruction as it is then.
    Elsewhere(Insn, Target),
}

/// What a 64-bit load refers to.
fn load(
    insn: Insn,
    symbol: &Symbol,
    symbols: &Symbols,
    places: &[BTreeMap<usize, usize>],
) -> Option<Named> {
    let Insn::LoadImm64 { dst, value } = insn else { return None };
    // In the file, `imm` is what is added to the symbol; only some writers set the kind of load.
    let added = match value {
        Imm64::Value(number) => number as u32,
        Imm64::MapFd(number) | Imm64::Function(number) | Imm64::MapValue { fd: number, .. } => {
            number as u32
        }
        _ => return None,
    };
    let becomes = |value, to| Some(Named::Elsewhere(Insn::LoadImm64 { dst, value }, to));
    let Some(section) = symbol.section else {
        let name = Some(&symbol.name).filter(|name| !name.is_empty() && added == 0)?;
        return becomes(Imm64::Value(0), Target::Extern(name.clone()));
    };
    let place = symbol.address.checked_add(added.into())?;
    if let Some(map) = symbols.maps.get(&(section, place)) {
        return becomes(Imm64::MapFd(0), Target::Map(map.clone()));
    }
    if let Some(map) = symbols.variables.get(&section) {
        let offset = u32::try_from(place).ok()?;
        return becomes(Imm64::MapValue { fd: 0, offset }, Target::Map(map.clone()));
    }
    let function = function_at(section, place / SLOT_BYTES as u64, symbols, places)?;
    becomes(Imm64::Function(0), Target::Function(function))
}

/// What a call refers to; `added` counts slots from the symbol, less one.
fn call(
    added: i64,
    own: SectionIndex,
    symbol: &Symbol,
    symbols: &Symbols,
    places: &[BTreeMap<usize, usize>],
) -> Option<Named> {
    let insn = Insn::CallLocal { off: -1 };
    let Some(section) = symbol.section else {
        let name = Some(&symbol.name).filter(|name| !name.is_empty())?;
        return Some(Named::Elsewhere(insn, Target::Extern(name.clone())));
    };
    let slot = (symbol.address / SLOT_BYTES as u64) as i64 + added + 1;
    let slot = u64::try_from(slot).ok()?;
    if section == own {
        let at = symbols.sections.iter().position(|known| *known == section)?;
        return places[at].contains_key(&(slot as usize)).then_some(Named::Here(slot as usize));
    }
    let function = function_at(section, slot, symbols, places)?;
    Some(Named::Elsewhere(insn, Target::Function(function)))
}

fn function_at(
    section: SectionIndex,
    slot: u64,
    symbols: &Symbols,
    places: &[BTreeMap<usize, usize>],
) -> Option<String> {
    let at = symbols.sections.iter().position(|known| *known == section)?;
    let index = places[at].get(&usize::try_from(slot).ok()?)?;
    symbols.functions.get(&(section, *index)).cloned()
}
