//! What is written is read back, and no bytes make the reader panic.

use proptest::prelude::*;

use super::{read, write};
use crate::insn::text::tests::module;
use crate::insn::{Endianness, Imm64, Insn, MapDefinition, Module, Target, text};

/// A module as an object file can hold it: maps that are loaded by value are what libbpf makes of
/// variables, and names are different.
fn writable() -> impl Strategy<Value = Module> {
    module().prop_map(|mut module| {
        let mut names = std::collections::BTreeSet::new();
        let mut renamed = std::collections::BTreeMap::new();
        for name in module.maps.iter_mut().map(|map| &mut map.name).chain(&mut module.externs) {
            while !names.insert(name.clone()) {
                name.push('_');
            }
        }
        for (_, name) in module.sections.iter_mut().flat_map(|section| &mut section.functions) {
            let before = name.clone();
            while !names.insert(name.clone()) {
                name.push('_');
            }
            renamed.insert(before, name.clone());
        }
        for map in &mut module.maps {
            map.name.retain(|c| c.is_ascii_alphanumeric());
            map.name.insert_str(0, &format!("map{}", names.len()));
            names.insert(map.name.clone());
            *map = MapDefinition {
                name: map.name.clone(),
                key_size: map.key_size & 0xffff,
                ..map.clone()
            };
            map.value_size &= 0xffff;
        }
        for (index, section) in module.sections.iter_mut().enumerate() {
            section.name = format!("kprobe/{index}{}", section.name);
            // A comment of the first instruction of a function is a line either way.
            section.references.clear();
            for insn in &mut section.insns {
                // Without a relocation these are what a loader is to fill in.
                if let Insn::LoadImm64 { value: value @ Imm64::MapFd(0), .. } = insn {
                    *value = Imm64::Value(3);
                }
            }
        }
        module.license = module.license.filter(|license| !license.is_empty());
        module.externs.clear();
        module
    })
}

proptest! {
    #[test]
    fn what_is_written_to_an_object_file_is_read_back(module in writable(), big: bool) {
        let order = if big { Endianness::Big } else { Endianness::Little };
        let bytes = write(&module, "some.s", &[], order)
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let object = read(&bytes).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(text::write(&object.module), text::write(&module));
        prop_assert_eq!(object.order, order);
    }

    #[test]
    fn bytes_that_changed_are_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        end in any::<prop::sample::Index>(),
        cut: bool,
    ) {
        let mut bytes = everything();
        let length = bytes.len();
        for (at, byte) in changes {
            bytes[at.index(length)] = byte;
        }
        if cut {
            bytes.truncate(end.index(length));
        }
        check_any(&bytes);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        check_any(&bytes);
    }
}

/// What the fuzz target checks, too.
fn check_any(bytes: &[u8]) {
    match read(bytes) {
        Ok(object) => assert!(text::parse(&text::write(&object.module)).is_ok()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

const EVERYTHING: &str = "\
.license \"Dual MIT/GPL\"
.map starts, type hash, key 4, value 24, entries 1024
.map control, type array, key 4, value 16, entries 1, flags 1024
.map \"odd name\", type 99, key 3, flags 7, pinning 1
.extern a_kernel_function

.section tracepoint/syscalls/sys_enter_read
.func enter
    r6 = r1                              ; the context
    r1 = map[control][0]+8
    r2 = map[starts]                     ; where starts are
    r3 = map[\"odd name\"]
    call helper_of_ours
    r4 = subprog[helper_of_ours]
    call a_kernel_function
    if r1 == 0 goto out
again:
    r0 = -1 ll
    goto again
out:
also_out:
    exit

.section .text
.func helper_of_ours
    call other
    r0 = 0
    exit
.func other
    r0 = 1                               ; one
    exit
";

fn everything() -> Vec<u8> {
    let parsed = text::parse(EVERYTHING).unwrap();
    write(&parsed.module, "everything.s", &parsed.lines, Endianness::Little).unwrap()
}

#[test]
fn text_to_object_to_text_is_the_same_text() {
    assert_eq!(text::write(&text::parse(EVERYTHING).unwrap().module), EVERYTHING);
    let object = read(&everything()).unwrap();
    assert_eq!(text::write(&object.module), EVERYTHING);
    assert_eq!(object.notes, [] as [&str; 0]);
    let names = object.module.sections[0].references.iter().map(|reference| &reference.to);
    assert!(names.clone().any(|to| *to == Target::Extern("a_kernel_function".to_owned())));
}

#[test]
fn every_beginning_of_a_file_is_an_error_and_not_a_panic() {
    let bytes = everything();
    for length in 0..bytes.len() {
        let error = read(&bytes[..length]).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
    assert_eq!(read(b"").unwrap_err().to_string(), "it is empty");
    assert_eq!(read(b"#!/bin/sh").unwrap_err().to_string(), "it is no ELF file");
}

#[test]
fn what_no_object_file_can_say_is_refused_by_name() {
    let refused = |text: &str| {
        let parsed = text::parse(text).unwrap_or_else(|error| panic!("{error}"));
        write(&parsed.module, "x.s", &parsed.lines, Endianness::Little).unwrap_err().to_string()
    };
    let by_value = ".map m, type hash, key 4, value 8, entries 1\nr1 = map[m][0]+0\nexit";
    assert!(refused(by_value).starts_with("map m is loaded by value, so it must be"));
    let both = ".map m, type array, key 4, value 8, entries 1, flags 1024\n\
                r1 = map[m][0]+0\nr1 = map[m]\nexit";
    assert!(refused(both).starts_with("map m is loaded as a whole and by value"));
    let same = ".map f, type hash\n.section a\n.func f\nexit";
    assert_eq!(refused(same), "f is the name of a function and of a map");
    let place = ".section .maps\nexit";
    assert_eq!(refused(place), "section .maps is not for code: give it another name");
}

#[test]
fn seeds_of_the_fuzzer_are_read_or_refused() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/elf");
    let seeds: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert!(seeds.len() >= 3);
    for seed in seeds {
        check_any(&std::fs::read(seed.unwrap().path()).unwrap());
    }
}
