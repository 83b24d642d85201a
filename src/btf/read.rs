//! Reading types, as far as map definitions need them: names, sizes, members.

use std::fmt;

use super::types::TypeId;
use super::{MAGIC, get32};
use crate::insn::Endianness;

/// Why bytes are no BTF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedBtf(pub String);

impl fmt::Display for MalformedBtf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MalformedBtf {}

/// A type, not interpreted.
#[derive(Clone, Copy, Debug)]
struct Record {
    name: u32,
    kind: u32,
    count: usize,
    size_or_type: u32,
    /// Where the words behind it begin.
    more: usize,
}

/// A variable of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type.
    pub of: TypeId,
    /// Where it is in the section, in bytes.
    pub offset: u32,
}

/// Types that were read from the bytes of a `.BTF` section.
#[derive(Debug)]
pub struct TypesRead<'a> {
    order: Endianness,
    bytes: &'a [u8],
    strings: &'a [u8],
    types: Vec<Record>,
}

const KIND_INT: u32 = 1;
const KIND_POINTER: u32 = 2;
const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
const KIND_PROTOTYPE: u32 = 13;
const KIND_VARIABLE: u32 = 14;
const KIND_DATA_SECTION: u32 = 15;
const KIND_FLOAT: u32 = 16;
const KIND_DECL_TAG: u32 = 17;
const KIND_ENUM64: u32 = 19;
/// Those that only stand before another type: typedef, volatile, const, restrict and type tag.
const KINDS_BEFORE_ANOTHER: [u32; 5] = [8, 9, 10, 11, 18];
/// The last kind that is known here.
const LAST_KIND: u32 = 19;

/// A type that refers to itself through more others than this is taken for endless.
const DEEPEST: usize = 64;

impl<'a> TypesRead<'a> {
    /// Reads the bytes of a `.BTF` section.
    ///
    /// # Errors
    /// When a part lies outside of the bytes, or a type is of a kind that is not known.
    pub fn parse(bytes: &'a [u8], order: Endianness) -> Result<Self, MalformedBtf> {
        let malformed = |what: &str| MalformedBtf(format!(".BTF: {what}"));
        let word = |at| get32(order, bytes, at).ok_or_else(|| malformed("its header is cut"));
        let magic = match order {
            Endianness::Little => MAGIC.to_le_bytes(),
            Endianness::Big => MAGIC.to_be_bytes(),
        };
        if !bytes.starts_with(&magic) {
            return Err(malformed("it does not begin with eb9f"));
        }
        let header = word(4)? as usize;
        let part = |offset: u32, length: u32| {
            let start = header.checked_add(offset as usize)?;
            bytes.get(start..start.checked_add(length as usize)?)
        };
        let types =
            part(word(8)?, word(12)?).ok_or_else(|| malformed("types are outside of it"))?;
        let strings =
            part(word(16)?, word(20)?).ok_or_else(|| malformed("strings are outside of it"))?;
        let types = records(types, order).map_err(|what| malformed(&what))?;
        let start = header + word(8)? as usize;
        Ok(Self { order, bytes: bytes.get(start..).unwrap_or_default(), strings, types })
    }

    /// The string that begins there.
    ///
    /// # Errors
    /// When none does.
    pub fn string(&self, offset: u32) -> Result<String, MalformedBtf> {
        let rest = self.strings.get(offset as usize..);
        let end = rest.and_then(|rest| rest.iter().position(|byte| *byte == 0));
        let text =
            rest.zip(end).map(|(rest, end)| String::from_utf8_lossy(&rest[..end]).into_owned());
        text.ok_or_else(|| MalformedBtf(format!(".BTF: no string begins at {offset}")))
    }

    /// The variables of the section of that name, none where there is no such section.
    ///
    /// # Errors
    /// When one of them is no variable.
    pub fn variables(&self, section: &str) -> Result<Vec<Variable>, MalformedBtf> {
        let mut variables = Vec::new();
        for record in self.types.iter().filter(|record| record.kind == KIND_DATA_SECTION) {
            if self.string(record.name)? != section {
                continue;
            }
            for index in 0..record.count {
                let (of, offset) =
                    (self.word(record, index * 3)?, self.word(record, index * 3 + 1)?);
                let variable = self.record(of)?;
                if variable.kind != KIND_VARIABLE {
                    return Err(MalformedBtf(format!(
                        ".BTF: type {of} in {section} is no variable"
                    )));
                }
                let name = self.string(variable.name)?;
                variables.push(Variable { name, of: variable.size_or_type, offset });
            }
        }
        Ok(variables)
    }

    /// The members of a structure: their names and types. `None` if it is none.
    ///
    /// # Errors
    /// When a name or a type is not there.
    pub fn members(&self, of: TypeId) -> Result<Option<Vec<(String, TypeId)>>, MalformedBtf> {
        let record = self.plain(of)?;
        if record.kind != KIND_STRUCT {
            return Ok(None);
        }
        let member = |index| {
            let name = self.string(self.word(&record, index * 3)?)?;
            Ok((name, self.word(&record, index * 3 + 1)?))
        };
        (0..record.count).map(member).collect::<Result<_, _>>().map(Some)
    }

    /// What a pointer points to. `None` if it is none.
    ///
    /// # Errors
    /// When the type is not there.
    pub fn pointee(&self, of: TypeId) -> Result<Option<TypeId>, MalformedBtf> {
        let record = self.plain(of)?;
        Ok((record.kind == KIND_POINTER).then_some(record.size_or_type))
    }

    /// How many elements an array has. `None` if it is none.
    ///
    /// # Errors
    /// When the type is not there.
    pub fn element_count(&self, of: TypeId) -> Result<Option<u32>, MalformedBtf> {
        let record = self.plain(of)?;
        if record.kind != KIND_ARRAY {
            return Ok(None);
        }
        self.word(&record, 2).map(Some)
    }

    /// How many bytes a value of that type takes; 0 for what has no size.
    ///
    /// # Errors
    /// When a type is not there, or endless.
    pub fn size(&self, of: TypeId) -> Result<u32, MalformedBtf> {
        let (mut of, mut times) = (of, 1_u64);
        for _ in 0..DEEPEST {
            if of == 0 {
                return Ok(0);
            }
            let record = self.plain(of)?;
            let bytes = match record.kind {
                KIND_ARRAY => {
                    times = times.saturating_mul(u64::from(self.word(&record, 2)?));
                    of = self.word(&record, 0)?;
                    continue;
                }
                KIND_POINTER => 8,
                KIND_INT | KIND_STRUCT | KIND_UNION | KIND_ENUM | KIND_FLOAT | KIND_ENUM64
                | KIND_DATA_SECTION => u64::from(record.size_or_type),
                _ => 0,
            };
            let bytes = u32::try_from(bytes.saturating_mul(times));
            return bytes.map_err(|_| MalformedBtf(format!(".BTF: type {of} is too large")));
        }
        Err(MalformedBtf(format!(".BTF: type {of} contains itself")))
    }

    /// A type without what stands before it.
    fn plain(&self, of: TypeId) -> Result<Record, MalformedBtf> {
        let mut record = self.record(of)?;
        for _ in 0..DEEPEST {
            if !KINDS_BEFORE_ANOTHER.contains(&record.kind) {
                return Ok(record);
            }
            record = self.record(record.size_or_type)?;
        }
        Err(MalformedBtf(format!(".BTF: type {of} refers to itself")))
    }

    fn record(&self, of: TypeId) -> Result<Record, MalformedBtf> {
        if of == 0 {
            return Ok(Record { name: 0, kind: 0, count: 0, size_or_type: 0, more: 0 });
        }
        let record = self.types.get(of as usize - 1).copied();
        record.ok_or_else(|| MalformedBtf(format!(".BTF: there is no type {of}")))
    }

    /// A word behind a type.
    fn word(&self, record: &Record, index: usize) -> Result<u32, MalformedBtf> {
        get32(self.order, self.bytes, record.more + index * 4)
            .ok_or_else(|| MalformedBtf(".BTF: the types are cut".to_owned()))
    }
}

fn records(bytes: &[u8], order: Endianness) -> Result<Vec<Record>, String> {
    let cut = || "the types are cut".to_owned();
    let mut records = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let word = |index: usize| get32(order, bytes, at + index * 4).ok_or_else(cut);
        let (name, info, size_or_type) = (word(0)?, word(1)?, word(2)?);
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        let words = match kind {
            KIND_INT | KIND_VARIABLE | KIND_DECL_TAG => 1,
            KIND_ARRAY => 3,
            KIND_STRUCT | KIND_UNION | KIND_DATA_SECTION | KIND_ENUM64 => 3 * count,
            KIND_ENUM | KIND_PROTOTYPE => 2 * count,
            1..=LAST_KIND => 0,
            _ => return Err(format!("type {} is of the unknown kind {kind}", records.len() + 1)),
        };
        let more = at + 12;
        records.push(Record { name, kind, count, size_or_type, more });
        at = more + words * 4;
        if at > bytes.len() {
            return Err(cut());
        }
    }
    Ok(records)
}
