//! The typed maps against the kernel: what we write, programs see, and the other way round.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod requirements;

use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;

use nix::errno::Errno;
use rlat::insn::{AluOp, Assembler, AtomicOp, Helper, JumpOp, Reg, Size};
use rlat::loader::sys::{ProgramType, prog_test_run};
use rlat::loader::{LoadedProgram, load};
use rlat::maps::{Array, HashMap, MmapableArray};

/// A socket filter can be run without being attached, on a packet that is at least an Ethernet header.
const PACKET: [u8; 14] = [0; 14];

fn load_filter(asm: Assembler, maps: &[(&str, i32)]) -> LoadedProgram {
    let program = asm.finish().unwrap();
    load(&program, ProgramType::SocketFilter, maps).unwrap_or_else(|error| panic!("{error}"))
}

fn run(program: &LoadedProgram) -> u32 {
    prog_test_run(program.as_fd(), &PACKET).unwrap()
}

#[test]
fn a_hash_gives_back_what_was_set_until_it_is_removed() {
    if !requirements::bpf() {
        return;
    }
    let map = HashMap::<u32, u64>::create("ages", 8).unwrap();
    assert_eq!(map.get(&7), Ok(None));
    assert_eq!(map.entries(), Ok(vec![]));

    map.set(&7, &u64::MAX).unwrap();
    map.set(&0, &1).unwrap();
    map.set(&7, &70).unwrap();
    assert_eq!(map.get(&7), Ok(Some(70)));
    let mut entries = map.entries().unwrap();
    entries.sort_unstable();
    assert_eq!(entries, [(0, 1), (7, 70)]);

    map.remove(&7).unwrap();
    assert_eq!(map.get(&7), Ok(None));
    assert_eq!(map.remove(&7), Err(Errno::ENOENT));
    assert_eq!(map.entries(), Ok(vec![(0, 1)]));
}

#[test]
fn a_full_hash_refuses_a_new_key_and_still_changes_an_old_one() {
    if !requirements::bpf() {
        return;
    }
    let map = HashMap::<u32, u64>::create("full", 4).unwrap();
    for key in 0..4 {
        map.set(&key, &0).unwrap();
    }
    assert_eq!(map.set(&4, &0), Err(Errno::E2BIG));
    map.set(&3, &33).unwrap();
    assert_eq!(map.entries().unwrap().len(), 4);

    map.remove(&0).unwrap();
    map.set(&4, &44).unwrap();
    assert_eq!(map.get(&4), Ok(Some(44)));
}

#[test]
fn an_array_has_its_values_from_the_beginning_and_no_others() {
    if !requirements::bpf() {
        return;
    }
    let map = Array::<u64>::create("three", 3).unwrap();
    assert_eq!(map.get(2), Ok(0));
    map.set(2, &u64::MAX).unwrap();
    assert_eq!(map.get(2), Ok(u64::MAX));
    assert_eq!(map.get(1), Ok(0));
    assert_eq!(map.get(3), Err(Errno::ENOENT));
    assert_eq!(map.set(3, &1), Err(Errno::E2BIG));
}

#[test]
fn what_a_program_inserts_into_a_hash_we_find_and_what_we_insert_it_finds() {
    if !requirements::bpf() {
        return;
    }
    // r0 = the map's value of key 5, or 0; and key 6 gets the value 600.
    let mut asm = Assembler::new("exchange");
    let unknown = asm.label("unknown");
    asm.store(Size::W, Reg::R10, -4, 5);
    asm.load_map(Reg::R1, "shared");
    asm.mov(Reg::R2, Reg::R10);
    asm.alu(AluOp::Add, Reg::R2, -4);
    asm.call(Helper::MapLookupElem);
    asm.mov(Reg::R6, 0);
    asm.jump_if(JumpOp::Eq, Reg::R0, 0, unknown);
    asm.load(Size::DW, Reg::R6, Reg::R0, 0);
    asm.bind(unknown);
    asm.store(Size::W, Reg::R10, -4, 6);
    asm.store(Size::DW, Reg::R10, -16, 600);
    asm.load_map(Reg::R1, "shared");
    asm.mov(Reg::R2, Reg::R10);
    asm.alu(AluOp::Add, Reg::R2, -4);
    asm.mov(Reg::R3, Reg::R10);
    asm.alu(AluOp::Add, Reg::R3, -16);
    asm.mov(Reg::R4, 0).comment("BPF_ANY");
    asm.call(Helper::MapUpdateElem);
    asm.mov(Reg::R0, Reg::R6);
    asm.exit();

    let map = HashMap::<u32, u64>::create("shared", 8).unwrap();
    let program = load_filter(asm, &[("shared", map.number())]);
    assert_eq!(run(&program), 0);
    map.set(&5, &500).unwrap();
    assert_eq!(run(&program), 500);
    let mut entries = map.entries().unwrap();
    entries.sort_unstable();
    assert_eq!(entries, [(5, 500), (6, 600)]);
}

/// Adds 1 to the second word of the value at `index`, and returns its first word.
fn adder(map: &MmapableArray, index: i32) -> LoadedProgram {
    let mut asm = Assembler::new("adder");
    let out = asm.label("out");
    asm.store(Size::W, Reg::R10, -4, index);
    asm.load_map(Reg::R1, "mapped");
    asm.mov(Reg::R2, Reg::R10);
    asm.alu(AluOp::Add, Reg::R2, -4);
    asm.call(Helper::MapLookupElem);
    asm.jump_if(JumpOp::Eq, Reg::R0, 0, out);
    asm.mov(Reg::R1, 1);
    asm.atomic(AtomicOp::Add, Reg::R0, 8, Reg::R1);
    asm.load(Size::DW, Reg::R0, Reg::R0, 0);
    asm.bind(out);
    asm.exit();
    load_filter(asm, &[("mapped", map.number())])
}

#[test]
fn a_mapped_array_is_the_very_memory_that_programs_use() {
    if !requirements::bpf() {
        return;
    }
    // Values of three words: no power of two, so that a wrong stride would show.
    let map = MmapableArray::create("mapped", 3, 5).unwrap();
    let word = |value: usize, word: usize| &map.values().nth(value).unwrap()[word];
    assert_eq!(map.values().count(), 5);
    assert!(map.values().all(|value| value.len() == 3));
    assert!(map.values().flatten().all(|word| word.load(Ordering::SeqCst) == 0));

    let add_to_value_3 = adder(&map, 3);
    word(3, 0).store(4711, Ordering::SeqCst);
    word(3, 1).store(41, Ordering::SeqCst);
    assert_eq!(run(&add_to_value_3), 4711);
    assert_eq!(word(3, 1).load(Ordering::SeqCst), 42);
    let sum: u64 = map.values().flatten().map(|word| word.load(Ordering::SeqCst)).sum();
    assert_eq!(sum, 4711 + 42);
}

#[test]
fn a_mapped_array_has_no_value_behind_the_last() {
    if !requirements::bpf() {
        return;
    }
    let map = MmapableArray::create("mapped", 3, 5).unwrap();
    assert_eq!(run(&adder(&map, 5)), 0);
    assert!(map.values().flatten().all(|word| word.load(Ordering::SeqCst) == 0));
}

#[test]
fn atomic_additions_of_programs_and_threads_at_once_lose_nothing() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 20_000;
    if !requirements::bpf() {
        return;
    }
    let map = MmapableArray::create("mapped", 3, 1).unwrap();
    let program = adder(&map, 0);
    let counter = &map.values().next().unwrap()[1];
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    run(&program);
                }
            });
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(counter.load(Ordering::SeqCst), 2 * THREADS * ROUNDS);
}

/// What bpftool lists of the maps with that name.
fn bpftool_shows(name: &str) -> String {
    let output = Command::new("bpftool").args(["map", "show", "name", name]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn bpftool_shows_fifteen_bytes_of_a_maps_name_until_it_is_dropped() {
    if !requirements::bpf() || !requirements::tool("bpftool", "Debian's package bpftool") {
        return;
    }
    // The process id keeps tests that run at the same time apart.
    let name = format!("rlat{:07}abcd_and_more", std::process::id() % 10_000_000);
    let shown = &name[..15];
    let hash = HashMap::<u32, u64>::create(&name, 1).unwrap();
    let listed = bpftool_shows(shown);
    assert!(listed.contains(&format!("hash  name {shown}  flags 0x0")), "{listed}");
    assert!(listed.contains("key 4B  value 8B  max_entries 1"), "{listed}");

    let array = Array::<u32>::create(&name, 2).unwrap();
    let mapped = MmapableArray::create(&name, 3, 1).unwrap();
    let listed = bpftool_shows(shown);
    assert!(listed.contains(&format!("array  name {shown}  flags 0x0")), "{listed}");
    assert!(listed.contains(&format!("array  name {shown}  flags 0x400")), "{listed}");

    drop((hash, array, mapped));
    assert_eq!(bpftool_shows(shown), "");
}
