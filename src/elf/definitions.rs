//! Map definitions: what a map is like, said by the type of a variable.
//!
//! libbpf's headers define a map as a variable of a structure of pointers, of which only the types
//! count: `__uint(max_entries, 64)` is `int (*max_entries)[64]`, and `__type(key, u32)` is `u32 *key`.
//! So the size of a key is that of a type, and a number is the length of an array.

use super::error::MalformedObject;
use crate::btf::{MalformedBtf, TypeId, Types, TypesRead};
use crate::insn::MapDefinition;

/// Bytes of a pointer, which each member is.
const POINTER_BYTES: u32 = 8;

/// Writes the variable of a map; returns its type and its size in bytes.
pub(super) fn write(map: &MapDefinition, types: &mut Types) -> (TypeId, u32) {
    let int = types.integer("int", 4, true);
    let mut members = Vec::new();
    let mut number = |types: &mut Types, name: &'static str, value: u32| {
        let array = types.array(int, int, value);
        members.push((name, types.pointer(array)));
    };
    number(types, "type", map.map_type);
    for (name, value) in
        [("max_entries", map.max_entries), ("map_flags", map.flags), ("pinning", map.pinning)]
    {
        if value != 0 {
            number(types, name, value);
        }
    }
    for (name, bytes) in [("key", map.key_size), ("value", map.value_size)] {
        if bytes != 0 {
            let of = of_size(bytes, int, types);
            members.push((name, types.pointer(of)));
        }
    }
    let members: Vec<(&str, TypeId, u32)> = (0..)
        .zip(members)
        .map(|(index, (name, of))| (name, of, index * POINTER_BYTES * 8))
        .collect();
    let bytes = members.len() as u32 * POINTER_BYTES;
    let structure = types.structure(bytes, &members);
    (types.variable(&map.name, structure), bytes)
}

/// A type of that many bytes: an integer where there is one, else an array of bytes.
fn of_size(bytes: u32, int: TypeId, types: &mut Types) -> TypeId {
    match bytes {
        1 => types.integer("unsigned char", 1, false),
        2 => types.integer("unsigned short", 2, false),
        4 => types.integer("unsigned int", 4, false),
        8 => types.integer("unsigned long", 8, false),
        _ => {
            let byte = types.integer("unsigned char", 1, false);
            types.array(byte, int, bytes)
        }
    }
}

/// The definitions in the section `.maps`, and where each is in it, in bytes.
pub(super) fn read(types: &TypesRead<'_>) -> Result<Vec<(u32, MapDefinition)>, MalformedObject> {
    let malformed = |error: MalformedBtf| MalformedObject(error.to_string());
    let mut maps = Vec::new();
    for variable in types.variables(super::MAPS).map_err(malformed)? {
        let mut map = MapDefinition { name: variable.name, ..MapDefinition::default() };
        let members = types.members(variable.of).map_err(malformed)?;
        let members = members.ok_or_else(|| {
            MalformedObject(format!("map {} is not defined by a structure", map.name))
        })?;
        for (member, of) in members {
            let what = types.pointee(of).map_err(malformed)?;
            // An array of other maps' addresses, which is no pointer.
            let Some(what) = what else { continue };
            let number = || types.element_count(what).map(Option::unwrap_or_default);
            let size = || types.size(what);
            let (field, value) = match member.as_str() {
                "type" => (&mut map.map_type, number()),
                "max_entries" => (&mut map.max_entries, number()),
                "map_flags" => (&mut map.flags, number()),
                "pinning" => (&mut map.pinning, number()),
                "key_size" => (&mut map.key_size, number()),
                "value_size" => (&mut map.value_size, number()),
                "key" => (&mut map.key_size, size()),
                "value" => (&mut map.value_size, size()),
                _ => continue,
            };
            *field = value.map_err(malformed)?;
        }
        maps.push((variable.offset, map));
    }
    Ok(maps)
}
