//! From an object file to a module.

use std::collections::BTreeMap;

use object::read::elf::ElfFile64;
use object::{
    Architecture, Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags, SectionIndex,
    SymbolKind, SymbolSection, elf,
};

use super::error::MalformedObject;
use super::relocations::{self, Symbols};
use super::{
    ARRAY, DATA, LICENSE, LINES, MAPS, MMAPABLE, READ_ONLY, TYPES, definitions, is_of_variables,
    is_read_only,
};
use crate::btf::{SectionLines, TypesRead, read_ext};
use crate::insn::module::{Names, one_line};
use crate::insn::{Endianness, MapDefinition, Module, SLOT_BYTES, Section, decode_any};

/// What an object file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Programs, maps, license.
    pub module: Module,
    /// The byte order of its numbers.
    pub order: Endianness,
    /// What is in the file and not in the module, a sentence each.
    pub notes: Vec<String>,
}

pub(super) type File<'data> = ElfFile64<'data, object::Endianness>;

/// Reads the bytes of an object file, anybody's.
///
/// Code that is no instruction known here becomes [`Insn::Unknown`](crate::insn::Insn::Unknown). What a
/// [`Module`] has no place for, such as the initial values of variables, is named in the notes.
///
/// # Errors
/// When it is no ELF file for BPF, or a part of it is cut or points outside.
pub fn read(bytes: &[u8]) -> Result<Object, MalformedObject> {
    let file = File::parse(bytes).map_err(|error| not_elf(bytes, &error))?;
    if file.architecture() != Architecture::Bpf {
        let machine = file.elf_header().e_machine.get(file.endian());
        let why = format!("it is an ELF file for machine {}, and that of BPF is 247", machine.0);
        return Err(MalformedObject(why));
    }
    let order = match file.endian() {
        object::Endianness::Little => Endianness::Little,
        object::Endianness::Big => Endianness::Big,
    };
    let mut notes = Vec::new();
    let types = data_of(&file, TYPES)?.unwrap_or_default();
    let types = match types {
        [] => None,
        bytes => Some(TypesRead::parse(bytes, order).map_err(malformed)?),
    };
    let lines = match (&types, data_of(&file, LINES)?.unwrap_or_default()) {
        (Some(types), bytes @ [_, ..]) => read_ext(bytes, order, types).map_err(malformed)?,
        _ => Vec::new(),
    };
    let mut symbols = Symbols::default();
    let mut maps = Vec::new();
    maps_of_section(&file, types.as_ref(), &mut symbols, &mut maps)?;
    maps_of_variables(&file, &mut symbols, &mut maps, &mut notes)?;
    maps.sort_by_key(|(place, _)| *place);

    let mut module = Module {
        license: data_of(&file, LICENSE)?.map(text_before_zero),
        maps: maps.into_iter().map(|(_, map)| map).collect(),
        ..Module::default()
    };
    let mut taken = Names::taken(module.maps.iter().map(|map| map.name.clone()));
    let mut section_names = Names::default();
    let code: Vec<_> = file.sections().filter(is_code).collect();
    let mut indices = Vec::new();
    for section in &code {
        let name = name_of(section)?;
        let bytes = section.data().map_err(|error| cut(&name, &error))?;
        if bytes.is_empty() {
            continue;
        }
        let name = section_names.unused(&name);
        let insns = decode_any(bytes, order)
            .map_err(|error| MalformedObject(format!("section {name}: {error}")))?;
        let mut section_read = Section { name, insns, ..Section::default() };
        comments(&mut section_read, &lines);
        places(&file, section.index(), &mut section_read, &mut taken, &mut symbols)?;
        indices.push(section.index());
        module.sections.push(section_read);
    }
    symbols.sections = indices;
    relocations::apply(&file, &mut module, &symbols, &mut notes)?;
    notes.extend(notes_on_relocated_types(&file));
    Ok(Object { module, order, notes })
}

fn malformed(error: impl std::fmt::Display) -> MalformedObject {
    MalformedObject(error.to_string())
}

fn cut(section: &str, error: &object::read::Error) -> MalformedObject {
    MalformedObject(format!("section {section}: {error}"))
}

fn not_elf(bytes: &[u8], error: &object::read::Error) -> MalformedObject {
    MalformedObject(match bytes {
        [] => "it is empty".to_owned(),
        [0x7f, b'E', b'L', b'F', 1, ..] => {
            "it is an ELF file of 32 bits; those of BPF have 64".to_owned()
        }
        [0x7f, b'E', b'L', b'F', ..] => format!("it is an ELF file that cannot be read: {error}"),
        _ => "it is no ELF file".to_owned(),
    })
}

type SectionOf<'data, 'file> = object::read::elf::ElfSection64<'data, 'file, object::Endianness>;

fn is_code(section: &SectionOf<'_, '_>) -> bool {
    let SectionFlags::Elf { sh_type, sh_flags } = section.flags() else { return false };
    sh_type == elf::SHT_PROGBITS && sh_flags.0 & elf::SHF_EXECINSTR.0 != 0
}

fn name_of(section: &SectionOf<'_, '_>) -> Result<String, MalformedObject> {
    let name = section.name_bytes().map_err(|error| cut("without a name", &error))?;
    let name = String::from_utf8_lossy(name).into_owned();
    Ok(if name.is_empty() { UNNAMED.to_owned() } else { name })
}

/// How something is called whose name is empty.
const UNNAMED: &str = "unnamed";

/// The bytes of the first section of that name, if there is one.
fn data_of<'data>(file: &File<'data>, name: &str) -> Result<Option<&'data [u8]>, MalformedObject> {
    let section = file.sections().find(|section| section.name_bytes() == Ok(name.as_bytes()));
    section.map(|section| section.data().map_err(|error| cut(name, &error))).transpose()
}

fn text_before_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Maps in the order in which the symbol table has them; what is in no symbol comes last.
type Found = ((usize, usize), MapDefinition);

/// What `.maps` defines.
fn maps_of_section(
    file: &File<'_>,
    types: Option<&TypesRead<'_>>,
    symbols: &mut Symbols,
    maps: &mut Vec<Found>,
) -> Result<(), MalformedObject> {
    let Some(section) = file.sections().find(|section| section.name_bytes() == Ok(MAPS.as_bytes()))
    else {
        return Ok(());
    };
    let Some(types) = types else {
        let why = format!("section {MAPS} has no meaning without section {TYPES}");
        return Err(MalformedObject(why));
    };
    for (order, (offset, mut map)) in definitions::read(types)?.into_iter().enumerate() {
        // The symbol knows where it is; clang leaves that in the types to relocations. But where the types
        // do know it, the name there may be one that is only similar, since it must be an identifier.
        let here: Vec<_> = file
            .symbols()
            .filter(|symbol| {
                symbol.section_index() == Some(section.index())
                    && symbol.kind() != SymbolKind::Section
            })
            .filter_map(|symbol| Some((symbol.name_bytes().ok()?, symbol)))
            .collect();
        let named = here.iter().find(|(name, _)| *name == map.name.as_bytes());
        let found =
            named.or_else(|| here.iter().find(|(_, symbol)| symbol.address() == u64::from(offset)));
        let symbol = found.map(|(name, symbol)| {
            map.name = String::from_utf8_lossy(name).into_owned();
            symbol
        });
        let offset = symbol.map_or(u64::from(offset), object::ObjectSymbol::address);
        let place = symbol.map_or(usize::MAX, |symbol| symbol.index().0);
        if map.name.is_empty() {
            UNNAMED.clone_into(&mut map.name);
        }
        if maps.iter().any(|(_, known)| known.name == map.name) {
            return Err(MalformedObject(format!("map {} is defined twice", map.name)));
        }
        symbols.maps.insert((section.index(), offset), map.name.clone());
        maps.push(((place, order), map));
    }
    Ok(())
}

/// The sections of which libbpf makes maps.
fn maps_of_variables(
    file: &File<'_>,
    symbols: &mut Symbols,
    maps: &mut Vec<Found>,
    notes: &mut Vec<String>,
) -> Result<(), MalformedObject> {
    let mut names = Names::taken(maps.iter().map(|(_, map)| map.name.clone()));
    for section in file.sections() {
        let name = name_of(&section)?;
        let read_only = is_read_only(&name);
        if !(is_of_variables(&name) || name.starts_with(DATA)) || section.size() == 0 {
            continue;
        }
        let value_size = u32::try_from(section.size())
            .map_err(|_| MalformedObject(format!("section {name} is too large")))?;
        // Ours have one variable of the name that the section has.
        let own = name.strip_prefix(DATA).unwrap_or(&name).to_owned();
        let place = file
            .symbols()
            .find(|symbol| {
                symbol.section_index() == Some(section.index())
                    && symbol.kind() != SymbolKind::Section
            })
            .map_or(usize::MAX, |symbol| symbol.index().0);
        let map = names.unused(&own);
        let data = section.data().map_err(|error| cut(&name, &error))?;
        if data.iter().any(|byte| *byte != 0) {
            notes.push(format!("the initial values of section {name}, {} bytes", data.len()));
        }
        symbols.variables.insert(section.index(), map.clone());
        maps.push((
            (place, usize::MAX),
            MapDefinition {
                name: map,
                map_type: ARRAY,
                key_size: 4,
                value_size,
                max_entries: 1,
                flags: if read_only { MMAPABLE | READ_ONLY } else { MMAPABLE },
                pinning: 0,
            },
        ));
    }
    Ok(())
}

/// Source lines become comments.
fn comments(section: &mut Section, lines: &[SectionLines]) {
    let slots: BTreeMap<usize, usize> =
        section.slots().into_iter().enumerate().map(|(index, slot)| (slot, index)).collect();
    for (slot, line) in
        lines.iter().filter(|lines| lines.section == section.name).flat_map(|lines| &lines.lines)
    {
        let comment = one_line(line);
        if let Some(index) = slots.get(slot).filter(|index| **index < section.insns.len())
            && !comment.is_empty()
        {
            section.comments.insert(*index, comment);
        }
    }
}

/// Functions and labels.
fn places(
    file: &File<'_>,
    own: SectionIndex,
    section: &mut Section,
    taken: &mut Names,
    symbols: &mut Symbols,
) -> Result<(), MalformedObject> {
    let slots: BTreeMap<u64, usize> = section
        .slots()
        .into_iter()
        .take(section.insns.len())
        .enumerate()
        .map(|(index, slot)| ((slot * SLOT_BYTES) as u64, index))
        .collect();
    let mut labels = Names::default();
    let mut functions: BTreeMap<usize, String> = BTreeMap::new();
    let here = |symbol: &object::read::elf::ElfSymbol64<'_, '_, object::Endianness>| {
        symbol.section() == SymbolSection::Section(own)
    };
    for symbol in file.symbols().filter(here) {
        let name = symbol.name_bytes().map_err(|error| cut(&section.name, &error))?;
        let name: String = String::from_utf8_lossy(name).into_owned();
        let index = slots.get(&symbol.address()).copied();
        match (symbol.kind(), index) {
            (SymbolKind::Text, Some(index))
                if !name.is_empty() && !functions.contains_key(&index) =>
            {
                // Static functions of two files may share a name.
                functions.insert(index, taken.unused(&name));
            }
            (SymbolKind::Text, None) => {
                let why = format!("function {name} does not begin at an instruction");
                return Err(MalformedObject(format!("section {}: {why}", section.name)));
            }
            (SymbolKind::Label | SymbolKind::Unknown, Some(index)) if !name.is_empty() => {
                section.labels.push((index, labels.unused(&name)));
            }
            _ => {}
        }
    }
    section.labels.sort_by_key(|(index, _)| *index);
    functions.entry(0).or_insert_with(|| taken.unused(&section.default_function_name()));
    for (index, name) in &functions {
        symbols.functions.insert((own, *index), name.clone());
    }
    section.functions = functions.into_iter().collect();
    Ok(())
}

/// Relocations for another kernel's types are made by the loader, and are in `.BTF.ext`.
fn notes_on_relocated_types(file: &File<'_>) -> Option<String> {
    let bytes = data_of(file, LINES).ok()??;
    let word = |at: usize| {
        let field = bytes.get(at..at + 4)?.first_chunk::<4>()?;
        Some(match file.endian() {
            object::Endianness::Little => u32::from_le_bytes(*field),
            object::Endianness::Big => u32::from_be_bytes(*field),
        })
    };
    // The length of the third part, where the header has one.
    let there = word(4)? >= 32 && word(28)? > 0;
    there.then(|| {
        "relocations for the types of the kernel that it is loaded into (CO-RE)".to_owned()
    })
}
