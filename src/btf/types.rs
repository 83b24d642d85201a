//! Writing types.
//!
//! A type is `struct btf_type`, three words, and for some kinds more words behind it:
//!
//! ```text
//! word 0   where its name begins among the strings, 0 for none
//! word 1   bits 0-15: how many members, parameters or variables; bits 24-28: the kind
//! word 2   its size in bytes, or the type that it refers to
//! ```
//!
//! Types are numbered from 1 in the order in which they are written; 0 is `void`.

use std::collections::BTreeMap;

use super::{MAGIC, Put as _, VERSION};
use crate::insn::Endianness;

/// The number of a type.
pub type TypeId = u32;

/// Who may call a function, or use a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// Only the same file. The verifier follows each call of such a function.
    Static = 0,
    /// Anybody.
    Global = 1,
}

/// The kinds that are written here (`BTF_KIND_...`).
#[derive(Clone, Copy)]
enum Kind {
    Int = 1,
    Pointer = 2,
    Array = 3,
    Struct = 4,
    Function = 12,
    Prototype = 13,
    Variable = 14,
    DataSection = 15,
}

/// The kernel takes names of less than 128 bytes (`KSYM_NAME_LEN` of Linux 5.10).
const LONGEST_NAME: usize = 127;

/// Types and strings in the making.
///
/// ```
/// use rlat::btf::Types;
/// use rlat::insn::Endianness;
///
/// let mut types = Types::new(Endianness::Little);
/// let int = types.integer("int", 4, true);
/// assert_eq!(int, 1);
/// assert_eq!(types.pointer(int), 2);
/// // Magic, version, flags, and the length of the header.
/// assert_eq!(types.encode()[..8], [0x9f, 0xeb, 1, 0, 24, 0, 0, 0]);
/// ```
#[derive(Debug)]
pub struct Types {
    order: Endianness,
    records: Vec<u8>,
    count: u32,
    strings: Vec<u8>,
    known: BTreeMap<String, u32>,
    /// Types of which one is enough, by all their words.
    shared: BTreeMap<Vec<u32>, TypeId>,
}

impl Types {
    /// No types, for a target of that byte order.
    pub fn new(order: Endianness) -> Self {
        // The first string is the empty one: offset 0 means "no name".
        let known = BTreeMap::from([(String::new(), 0)]);
        Self {
            order,
            records: Vec::new(),
            count: 0,
            strings: vec![0],
            known,
            shared: BTreeMap::new(),
        }
    }

    /// The byte order.
    pub fn order(&self) -> Endianness {
        self.order
    }

    /// Where a string begins among the strings. What stands behind a zero is left out.
    pub fn string(&mut self, text: &str) -> u32 {
        let text = text.split('\0').next().unwrap_or_default();
        if let Some(at) = self.known.get(text) {
            return *at;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(text.bytes());
        self.strings.push(0);
        self.known.insert(text.to_owned(), at);
        at
    }

    /// An integer of 1, 2, 4, 8 or 16 bytes.
    pub fn integer(&mut self, name: &str, bytes: u32, signed: bool) -> TypeId {
        let encoding = if signed { 1 << 24 } else { 0 };
        self.once(name, Kind::Int, 0, bytes, &[encoding | (bytes * 8)])
    }

    /// A pointer to a type.
    pub fn pointer(&mut self, to: TypeId) -> TypeId {
        self.once("", Kind::Pointer, 0, to, &[])
    }

    /// An array; `index` is the type of an index, any integer.
    pub fn array(&mut self, of: TypeId, index: TypeId, count: u32) -> TypeId {
        self.once("", Kind::Array, 0, 0, &[of, index, count])
    }

    /// A structure without a name: each member has a name, a type and an offset in bits.
    pub fn structure(&mut self, bytes: u32, members: &[(&str, TypeId, u32)]) -> TypeId {
        let id = self.head("", Kind::Struct, members.len(), bytes);
        for (name, of, bits) in members {
            let name = self.string(name);
            self.words(&[name, *of, *bits]);
        }
        id
    }

    /// A function that takes parameters of these names and types.
    pub fn function(
        &mut self,
        name: &str,
        linkage: Linkage,
        returns: TypeId,
        parameters: &[(&str, TypeId)],
    ) -> TypeId {
        let parameters: Vec<u32> =
            parameters.iter().flat_map(|(name, of)| [self.string(name), *of]).collect();
        let count = parameters.len() / 2;
        let prototype = self.once("", Kind::Prototype, count, returns, &parameters);
        self.head(&identifier(name), Kind::Function, linkage as usize, prototype)
    }

    /// A global variable.
    pub fn variable(&mut self, name: &str, of: TypeId) -> TypeId {
        let id = self.head(&identifier(name), Kind::Variable, 0, of);
        self.words(&[Linkage::Global as u32]);
        id
    }

    /// A section of variables: each with its offset and its size in bytes.
    pub fn data_section(
        &mut self,
        name: &str,
        bytes: u32,
        variables: &[(TypeId, u32, u32)],
    ) -> TypeId {
        let id = self.head(name, Kind::DataSection, variables.len(), bytes);
        for (variable, offset, size) in variables {
            self.words(&[*variable, *offset, *size]);
        }
        id
    }

    /// The bytes of a `.BTF` section, which are also those that bpf(2) takes.
    pub fn encode(&self) -> Vec<u8> {
        const HEADER_BYTES: u32 = 24;
        let order = self.order;
        let (types, strings) = (self.records.len() as u32, self.strings.len() as u32);
        let mut bytes = Vec::new();
        bytes.put16(order, MAGIC);
        bytes.extend([VERSION, 0]);
        for word in [HEADER_BYTES, 0, types, types, strings] {
            bytes.put32(order, word);
        }
        bytes.extend(&self.records);
        bytes.extend(&self.strings);
        bytes
    }

    /// A type that is written only if it is not there yet.
    fn once(
        &mut self,
        name: &str,
        kind: Kind,
        count: usize,
        size_or_type: u32,
        more: &[u32],
    ) -> TypeId {
        let mut key = vec![self.string(name), kind as u32, count as u32, size_or_type];
        key.extend(more);
        if let Some(id) = self.shared.get(&key) {
            return *id;
        }
        let id = self.head(name, kind, count, size_or_type);
        self.words(more);
        self.shared.insert(key, id);
        id
    }

    fn head(&mut self, name: &str, kind: Kind, count: usize, size_or_type: u32) -> TypeId {
        let name = self.string(name);
        self.words(&[name, (kind as u32) << 24 | count as u32, size_or_type]);
        self.count += 1;
        self.count
    }

    fn words(&mut self, words: &[u32]) {
        for word in words {
            self.records.put32(self.order, *word);
        }
    }
}

/// A name as the kernel takes it: letters, digits and `_`, and no digit first.
fn identifier(name: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut clean: String = name.chars().map(clean).take(LONGEST_NAME).collect();
    if clean.is_empty() {
        clean.push('_');
    } else if clean.starts_with(|c: char| c.is_ascii_digit()) {
        clean.replace_range(..1, "_");
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        assert_eq!(identifier("rlat_read_enter"), "rlat_read_enter");
        assert_eq!(identifier("a.b-ä c"), "a_b___c");
        assert_eq!(identifier("4you"), "_you");
        assert_eq!(identifier(""), "_");
        assert_eq!(identifier(&"x".repeat(200)).len(), 127);
    }

    #[test]
    fn a_string_is_written_once() {
        let mut types = Types::new(Endianness::Big);
        let first = types.string("count it");
        assert_eq!(types.string("count it"), first);
        assert_eq!(types.string(""), 0);
        assert_eq!(types.string("a\0b"), types.string("a"));
        assert_eq!(types.encode()[..2], [0xeb, 0x9f]);
    }
}
