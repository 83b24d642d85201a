//! The programs of a survey in the kernel: the verifier takes every kind of them, and their buckets are
//! those of the reference.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod requirements;

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rlat::histogram::log2::{bucket_count, bucket_index, bucket_range};
use rlat::insn::{Assembler, Reg, Size};
use rlat::latency::layout::Slot;
use rlat::latency::starts::{SLOTS_MAP, STARTS_MAP};
use rlat::latency::{Extremes, Member, Room, Scope, emit_bucket_index_at};
use rlat::loader::load;
use rlat::loader::sys::{ProgramType, prog_test_run};
use rlat::maps::{HashMap, MmapableArray};
use rlat::process::PidNamespace;
use rlat::survey::layout::{BUCKET_K, CALLS_MAP, ROW_WORDS, ROWS};
use rlat::survey::{Plan, Regions, enter_program, exit_program, thread_end_program};

#[test]
fn the_verifier_takes_every_kind_of_program() {
    if !requirements::bpf() {
        return;
    }
    let control = MmapableArray::create("rlat_control", 16, 1).unwrap();
    let slots = MmapableArray::create(SLOTS_MAP, 1024 * 8, 1).unwrap();
    let starts = HashMap::<u32, Slot>::create(STARTS_MAP, 10).unwrap();
    let calls = MmapableArray::create(CALLS_MAP, ROW_WORDS, ROWS).unwrap();
    let maps = [
        ("rlat_control", control.number()),
        (SLOTS_MAP, slots.number()),
        (STARTS_MAP, starts.number()),
        (CALLS_MAP, calls.number()),
    ];
    let outside = Member { namespace: PidNamespace::Initial, id: 1 };
    let inside = Member { namespace: PidNamespace::Other { dev: 4, ino: 4_026_531_999 }, id: 1 };
    for (extremes, direct_slots) in [(Extremes::CompareExchange, 1024), (Extremes::LoadStore, 0)] {
        let room = Room { direct_slots, threads: 10, on_demand: false };
        for regions in [Regions::OneEach, Regions::Shared] {
            for members in [vec![outside], vec![inside], vec![outside, inside, outside]] {
                let scope = Scope::Processes(members);
                let plan = Plan { scope, regions, room, extremes };
                for program in
                    [enter_program(&plan), exit_program(&plan), thread_end_program(&plan)]
                {
                    let program = program.unwrap();
                    if let Err(error) = load(&program, ProgramType::RawTracepoint, &maps) {
                        panic!("{plan:?}: {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn both_ends_of_every_bucket_fall_into_it() {
    if !requirements::bpf() {
        return;
    }
    let mut asm = Assembler::new("bucket");
    asm.load_map_value(Reg::R1, "words", 0);
    asm.load(Size::DW, Reg::R1, Reg::R1, 0).comment("the number");
    emit_bucket_index_at(BUCKET_K, &mut asm, Reg::R1, Reg::R2, Reg::R3);
    asm.load_map_value(Reg::R3, "words", 8);
    asm.store(Size::DW, Reg::R3, 0, Reg::R2).comment("its index");
    asm.mov(Reg::R0, 0);
    asm.exit();
    let map = MmapableArray::create("words", 2, 1).unwrap();
    let maps = [("words", map.number())];
    let program = load(&asm.finish().unwrap(), ProgramType::SocketFilter, &maps).unwrap();
    let words: &[AtomicU64] = map.values().next().unwrap();
    for index in 0..bucket_count(BUCKET_K) {
        let bucket = bucket_range(index, BUCKET_K);
        for n in [bucket.min, u64::midpoint(bucket.min, bucket.max), bucket.max] {
            assert_eq!(bucket_index(n, BUCKET_K), index);
            words[0].store(n, Ordering::SeqCst);
            // A packet that is at least an Ethernet header.
            prog_test_run(program.as_fd(), &[0; 14]).unwrap();
            assert_eq!(words[1].load(Ordering::SeqCst), index as u64, "the bucket of {n}");
        }
    }
}
