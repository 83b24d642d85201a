//! From a module to an object file.

use std::collections::{BTreeMap, BTreeSet};

use object::write::{Object, Relocation, SectionId, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, RelocationFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
    elf,
};

use super::error::Unwritable;
use super::{
    ARRAY, CALL_FUNCTION, DATA, FUNCTIONS, LICENSE, LINES, LOAD_ADDRESS, MAPS, MMAPABLE, READ_ONLY,
    TYPES, definitions, is_of_variables, is_read_only,
};
use crate::btf::{Lines, Linkage, SourceFile, Types, encode_ext};
use crate::insn::{
    Endianness, Imm64, Insn, MapDefinition, Module, SLOT_BYTES, Section, Target, encode,
};

/// The bytes of an object file with everything that the module has. `lines` are those that
/// [`parse`](crate::insn::text::parse()) gives; without them, each section's instructions are numbered.
///
/// # Errors
/// When two things would need the same name, or a map cannot be what its use asks for.
///
/// ```
/// use rlat::elf;
/// use rlat::insn::{Endianness, text};
///
/// let parsed = text::parse(".license \"GPL\"\n.section socket\nr0 = 0 ; drop it\nexit\n").unwrap();
/// let bytes = elf::write(&parsed.module, "drop.s", &parsed.lines, Endianness::Little).unwrap();
/// assert_eq!(&bytes[..4], b"\x7fELF");
/// assert_eq!(elf::read(&bytes).unwrap().module, parsed.module);
/// ```
pub fn write(
    module: &Module,
    file: &str,
    lines: &[Vec<u32>],
    order: Endianness,
) -> Result<Vec<u8>, Unwritable> {
    check_names(module)?;
    let loaded = maps_loaded_by_value(module)?;
    let endian = match order {
        Endianness::Little => object::Endianness::Little,
        Endianness::Big => object::Endianness::Big,
    };
    let mut writer = Writer {
        object: Object::new(BinaryFormat::Elf, Architecture::Bpf, endian),
        types: Types::new(order),
        symbols: BTreeMap::new(),
        local: BTreeMap::new(),
    };
    if let Some(license) = &module.license {
        let id = writer.object.add_section(Vec::new(), LICENSE.into(), SectionKind::Data);
        let bytes = [license.as_bytes(), &[0]].concat();
        writer.object.append_section_data(id, &bytes, 1);
        writer.symbol("_license", id, 0, bytes.len() as u64, SymbolKind::Data, false);
    }
    writer.maps(&module.maps, &loaded);
    for name in &module.externs {
        writer.external(name);
    }
    let mut described = Vec::new();
    let mut sections = Vec::new();
    for (index, section) in module.sections.iter().enumerate() {
        sections.push(writer.section(section));
        let linkage = linkage(section);
        let lines = lines.get(index).map_or(&[][..], Vec::as_slice);
        let file = SourceFile { name: file, lines };
        described
            .push((section.name.as_str(), Lines::of(section, linkage, file, &mut writer.types)));
    }
    for (section, id) in module.sections.iter().zip(&sections) {
        writer.relocations(section, *id)?;
    }
    // Types last: lines add their strings to them.
    let ext = encode_ext(&described, &mut writer.types);
    let types = writer.types.encode();
    for (name, bytes) in [(TYPES, types), (LINES, ext)] {
        let id = writer.object.add_section(Vec::new(), name.into(), SectionKind::Other);
        writer.object.append_section_data(id, &bytes, 8);
    }
    writer.object.write().map_err(|error| Unwritable(error.to_string()))
}

/// Functions that are called are of use inside of the file only; to all others libbpf gives a program.
fn linkage(section: &Section) -> Linkage {
    if section.name == FUNCTIONS { Linkage::Static } else { Linkage::Global }
}

struct Writer {
    object: Object<'static>,
    types: Types,
    /// Functions, maps and what is extern, by name.
    symbols: BTreeMap<String, SymbolId>,
    /// Where the functions are that only this file knows: the section, and how far in it, in bytes.
    local: BTreeMap<String, (SectionId, u64)>,
}

impl Writer {
    fn symbol(
        &mut self,
        name: &str,
        section: SectionId,
        value: u64,
        size: u64,
        kind: SymbolKind,
        local: bool,
    ) -> SymbolId {
        self.object.add_symbol(Symbol {
            name: name.into(),
            value,
            size,
            kind,
            scope: if local { SymbolScope::Compilation } else { SymbolScope::Dynamic },
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        })
    }

    fn external(&mut self, name: &str) {
        let id = self.object.add_symbol(Symbol {
            name: name.into(),
            value: 0,
            size: 0,
            kind: SymbolKind::Unknown,
            scope: SymbolScope::Unknown,
            weak: false,
            section: SymbolSection::Undefined,
            flags: SymbolFlags::None,
        });
        self.symbols.insert(name.to_owned(), id);
    }

    /// Variables in `.maps`, and a section for each map of which a value's address is loaded.
    fn maps(&mut self, maps: &[MapDefinition], by_value: &BTreeSet<&str>) {
        let mut variables = Vec::new();
        let mut section = None;
        let mut bytes = 0;
        for map in maps {
            if by_value.contains(map.name.as_str()) {
                let (name, kind) = match map.name.as_str() {
                    name @ ".bss" => (name.to_owned(), SectionKind::UninitializedData),
                    name if is_read_only(name) => (name.to_owned(), SectionKind::ReadOnlyData),
                    name if is_of_variables(name) => (name.to_owned(), SectionKind::Data),
                    name => (format!("{DATA}{name}"), SectionKind::Data),
                };
                let id = self.object.add_section(Vec::new(), name.into(), kind);
                let size = map.value_size;
                if kind == SectionKind::UninitializedData {
                    self.object.append_section_bss(id, size.into(), 8);
                } else {
                    self.object.append_section_data(id, &vec![0; size as usize], 8);
                }
                let symbol = self.symbol(&map.name, id, 0, size.into(), SymbolKind::Data, false);
                self.symbols.insert(map.name.clone(), symbol);
                continue;
            }
            let id = *section.get_or_insert_with(|| {
                self.object.add_section(Vec::new(), MAPS.into(), SectionKind::Data)
            });
            let (variable, size) = definitions::write(map, &mut self.types);
            self.object.append_section_data(id, &vec![0; size as usize], 8);
            let symbol =
                self.symbol(&map.name, id, bytes.into(), size.into(), SymbolKind::Data, false);
            self.symbols.insert(map.name.clone(), symbol);
            variables.push((variable, bytes, size));
            bytes += size;
        }
        if section.is_some() {
            self.types.data_section(MAPS, bytes, &variables);
        }
    }

    /// The code, its functions and its labels.
    fn section(&mut self, section: &Section) -> SectionId {
        let name = section.name.clone().into_bytes();
        let id = self.object.add_section(Vec::new(), name, SectionKind::Text);
        let code = encode(&section.insns, self.types.order());
        self.object.append_section_data(id, &code, SLOT_BYTES as u64);
        let slots = section.slots();
        let at = |index: usize| (slots[index] * SLOT_BYTES) as u64;
        let local = linkage(section) == Linkage::Static;
        let ends = section.functions.iter().skip(1).map(|(index, _)| at(*index));
        let ends = ends.chain([code.len() as u64]);
        for ((index, name), end) in section.functions.iter().zip(ends) {
            let start = at(*index);
            let symbol = self.symbol(name, id, start, end - start, SymbolKind::Text, local);
            self.symbols.insert(name.clone(), symbol);
            if local {
                self.local.insert(name.clone(), (id, start));
            }
        }
        for (index, name) in &section.labels {
            self.symbol(name, id, at(*index), 0, SymbolKind::Label, true);
        }
        id
    }

    fn relocations(&mut self, section: &Section, id: SectionId) -> Result<(), Unwritable> {
        let slots = section.slots();
        for reference in &section.references {
            let name = reference.to.name();
            let symbol = self.symbols.get(name).copied();
            let mut symbol = symbol.ok_or_else(|| Unwritable(format!("there is no {name}")))?;
            let mut addend = 0;
            let r_type = match section.insns.get(reference.index) {
                Some(Insn::LoadImm64 { .. }) => {
                    // As the address of a static function, libbpf takes only a distance in its section.
                    if let Some((section, start)) = self.local.get(name).copied() {
                        (symbol, addend) = (self.object.section_symbol(section), start as u32);
                    }
                    LOAD_ADDRESS
                }
                _ => CALL_FUNCTION,
            };
            let offset = (slots[reference.index] * SLOT_BYTES) as u64;
            let flags = RelocationFlags::Elf { r_type: elf::RelocationType(r_type) };
            self.load_as_clang_does(section, reference.index, id, offset, addend);
            let relocation = Relocation { offset, symbol, addend: 0, flags };
            let added = self.object.add_relocation(id, relocation);
            added.map_err(|error| Unwritable(error.to_string()))?;
        }
        Ok(())
    }

    /// In an object file, a load does not say yet what it loads, and `imm` is added to the symbol.
    fn load_as_clang_does(
        &mut self,
        section: &Section,
        index: usize,
        id: SectionId,
        offset: u64,
        addend: u32,
    ) {
        let Insn::LoadImm64 { dst, value } = section.insns[index] else { return };
        let addend = match value {
            Imm64::MapValue { offset, .. } => offset,
            _ => addend,
        };
        let insn = Insn::LoadImm64 { dst, value: Imm64::Value(addend.into()) };
        let bytes = encode(&[insn], self.types.order());
        let data = self.object.section_mut(id).data_mut();
        if let Some(place) = data.get_mut(offset as usize..offset as usize + bytes.len()) {
            place.copy_from_slice(&bytes);
        }
    }
}

/// A name means one thing in a symbol table, and some sections have a meaning of their own.
fn check_names(module: &Module) -> Result<(), Unwritable> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let functions = module.sections.iter().flat_map(|section| &section.functions);
    let all = functions
        .map(|(_, name)| ("function", name))
        .chain(module.maps.iter().map(|map| ("map", &map.name)))
        .chain(module.externs.iter().map(|name| ("extern", name)));
    for (what, name) in all {
        if let Some(other) = names.insert(name, what) {
            return Err(Unwritable(format!("{name} is the name of a {other} and of a {what}")));
        }
    }
    for Section { name, .. } in &module.sections {
        let reserved =
            [MAPS, "maps", LICENSE, "version", TYPES, LINES, ".symtab", ".strtab", ".bss"];
        let begins = [".rel", ".data", ".rodata", ".debug", ".shstrtab", ".kconfig", ".ksyms"];
        if reserved.contains(&name.as_str()) || begins.iter().any(|begin| name.starts_with(begin)) {
            return Err(Unwritable(format!(
                "section {name} is not for code: give it another name"
            )));
        }
    }
    Ok(())
}

/// The maps of which a value's address is loaded. They must be what libbpf makes of variables.
fn maps_loaded_by_value(module: &Module) -> Result<BTreeSet<&str>, Unwritable> {
    // What a compiler calls a section of variables is one, whether or not anything is loaded from it.
    let variables =
        module.maps.iter().map(|map| map.name.as_str()).filter(|name| is_of_variables(name));
    let (mut by_value, mut whole) = (variables.collect::<BTreeSet<_>>(), BTreeSet::new());
    for section in &module.sections {
        for reference in &section.references {
            if let Target::Map(name) = &reference.to {
                match section.insns.get(reference.index) {
                    Some(Insn::LoadImm64 { value: Imm64::MapValue { .. }, .. }) => {
                        by_value.insert(name.as_str());
                    }
                    _ => {
                        whole.insert(name.as_str());
                    }
                }
            }
        }
    }
    for map in module.maps.iter().filter(|map| by_value.contains(map.name.as_str())) {
        let name = &map.name;
        if whole.contains(name.as_str()) {
            return Err(Unwritable(format!(
                "map {name} is loaded as a whole and by value, which no object file can say"
            )));
        }
        let flags = if is_read_only(name) { MMAPABLE | READ_ONLY } else { MMAPABLE };
        let needed = MapDefinition {
            name: name.clone(),
            map_type: ARRAY,
            key_size: 4,
            value_size: map.value_size,
            max_entries: 1,
            flags,
            pinning: 0,
        };
        if *map != needed || map.value_size == 0 || map.value_size > LARGEST_DATA {
            let why = if is_of_variables(name) {
                "has the name of a section of variables"
            } else {
                "is loaded by value"
            };
            return Err(Unwritable(format!(
                "map {name} {why}, so it must be `type array, key 4, value N, entries 1, \
                 flags {flags}` with N from 1 to {LARGEST_DATA}: what libbpf makes of variables"
            )));
        }
    }
    Ok(by_value)
}

/// Its bytes are in the file.
const LARGEST_DATA: u32 = 1 << 24;
