//! The emitted bucket code, run in the kernel, against the plain function that it stands for.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod requirements;

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use rlat::histogram::log2::{RECORDED_BUCKETS, RECORDED_K, bucket_index, bucket_range};
use rlat::insn::{Assembler, Reg, Size};
use rlat::latency::emit_bucket_index;
use rlat::loader::sys::{ProgramType, prog_test_run};
use rlat::loader::{LoadedProgram, load};
use rlat::maps::MmapableArray;

/// A socket filter can be run without being attached, on a packet that is at least an Ethernet header.
const PACKET: [u8; 14] = [0; 14];

/// The bucket code between two words of memory that we share with it: a number in, its index out.
struct InKernel {
    words: MmapableArray,
    program: LoadedProgram,
}

impl InKernel {
    fn load(n: Reg, index: Reg, scratch: Reg) -> Self {
        let mut asm = Assembler::new("bucket");
        asm.load_map_value(n, "words", 0);
        asm.load(Size::DW, n, n, 0).comment("the number");
        emit_bucket_index(&mut asm, n, index, scratch);
        asm.load_map_value(scratch, "words", 8);
        asm.store(Size::DW, scratch, 0, index).comment("its index");
        asm.mov(Reg::R0, 0);
        asm.exit();

        let words = MmapableArray::create("words", 2, 1).unwrap();
        let maps = [("words", words.number())];
        let program = load(&asm.finish().unwrap(), ProgramType::SocketFilter, &maps)
            .unwrap_or_else(|error| {
                panic!("with n in {n}, index in {index}, scratch in {scratch}: {error}")
            });
        Self { words, program }
    }

    fn index(&self, n: u64) -> u64 {
        let words: &[AtomicU64] = self.words.values().next().unwrap();
        words[0].store(n, Ordering::SeqCst);
        words[1].store(u64::MAX, Ordering::SeqCst);
        prog_test_run(self.program.as_fd(), &PACKET).unwrap();
        words[1].load(Ordering::SeqCst)
    }

    fn check(&self, n: u64) {
        assert_eq!(self.index(n), bucket_index(n, RECORDED_K) as u64, "the bucket of {n}");
    }
}

/// Where an index can change: at the powers of two and beside them.
fn edges() -> impl Iterator<Item = u64> {
    let around = |power: u64| [power - 1, power, power + 1];
    (0..64).map(|bit| 1 << bit).flat_map(around).chain([u64::MAX])
}

#[test]
fn powers_of_two_and_their_neighbours_fall_into_the_bucket_of_the_reference() {
    if !requirements::bpf() {
        return;
    }
    let in_kernel = InKernel::load(Reg::R1, Reg::R2, Reg::R3);
    for n in edges() {
        in_kernel.check(n);
    }
}

#[test]
fn both_ends_of_every_bucket_fall_into_it() {
    if !requirements::bpf() {
        return;
    }
    let in_kernel = InKernel::load(Reg::R1, Reg::R2, Reg::R3);
    for index in 0..RECORDED_BUCKETS {
        let bucket = bucket_range(index, RECORDED_K);
        for n in [bucket.min, bucket.max] {
            assert_eq!(in_kernel.index(n), index as u64, "the bucket of {n}");
        }
    }
}

#[test]
fn twenty_thousand_numbers_of_all_magnitudes_fall_into_the_bucket_of_the_reference() {
    if !requirements::bpf() {
        return;
    }
    let in_kernel = InKernel::load(Reg::R1, Reg::R2, Reg::R3);
    // Shifted by a random distance: of plain random numbers half would be above 2^63.
    let numbers = (any::<u64>(), 0..64_u32).prop_map(|(n, shift)| n >> shift);
    let mut random = TestRunner::deterministic();
    for _ in 0..20_000 {
        in_kernel.check(numbers.new_tree(&mut random).unwrap().current());
    }
}

#[test]
fn any_three_registers_will_do() {
    if !requirements::bpf() {
        return;
    }
    for (n, index, scratch) in
        [(Reg::R0, Reg::R1, Reg::R2), (Reg::R9, Reg::R0, Reg::R5), (Reg::R3, Reg::R8, Reg::R4)]
    {
        let in_kernel = InKernel::load(n, index, scratch);
        for number in edges() {
            in_kernel.check(number);
        }
    }
}
