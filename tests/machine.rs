//! Arithmetic, jumps, loads, stores and atomic operations, run in the kernel, against the same written in Rust.
//!
//! Two words of memory hold the operands, a third one takes the result; what works on memory itself has a
//! fourth one. The reference is what Documentation/bpf/standardization/instruction-set.rst says.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod requirements;

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use rlat::insn::{
    AluOp, Assembler, AtomicOp, Insn, JumpOp, Operand, Program, Reg, SignedBits, SignedOp, Size,
    SwapBits, SwapTo, Width, text,
};
use rlat::loader::sys::{ProgramType, prog_test_run};
use rlat::loader::{LoadedProgram, load};
use rlat::maps::MmapableArray;

/// A socket filter can be run without being attached, on a packet that is at least an Ethernet header.
const PACKET: [u8; 14] = [0; 14];
/// Pairs of operands for each operation on two registers, and immediates for the others.
const PAIRS: usize = 200;
const IMMEDIATES: usize = 12;
/// The word of memory that loads, stores and atomic operations work on, in bytes from r6.
const MEMORY: i16 = 24;

/// One instruction between two words of memory and a third.
struct InKernel<'a> {
    words: &'a MmapableArray,
    program: LoadedProgram,
}

impl<'a> InKernel<'a> {
    /// `emit` leaves in r7 what it makes of r7 and r8.
    fn load(words: &'a MmapableArray, emit: impl FnOnce(&mut Assembler)) -> Self {
        let mut asm = Assembler::new("machine");
        asm.load_map_value(Reg::R6, "words", 0);
        asm.load(Size::DW, Reg::R7, Reg::R6, 0);
        asm.load(Size::DW, Reg::R8, Reg::R6, 8);
        emit(&mut asm);
        asm.store(Size::DW, Reg::R6, 16, Reg::R7);
        asm.mov(Reg::R0, 0);
        asm.exit();
        let program: Program = asm.finish().unwrap();
        // What is run has gone through its text, too.
        let listing: Vec<String> = program.insns().iter().map(ToString::to_string).collect();
        let listing = listing.join("\n");
        assert_eq!(text::parse(&listing).unwrap().module.sections[0].insns, program.insns());
        let maps = [("words", words.number())];
        let program = load(&program, ProgramType::SocketFilter, &maps)
            .unwrap_or_else(|error| panic!("{listing}: {error}"));
        Self { words, program }
    }

    fn run(&self, dst: u64, src: u64) -> u64 {
        let words: &[AtomicU64] = self.words.values().next().unwrap();
        words[0].store(dst, Ordering::SeqCst);
        words[1].store(src, Ordering::SeqCst);
        words[2].store(0x5555_5555_5555_5555, Ordering::SeqCst);
        prog_test_run(self.program.as_fd(), &PACKET).unwrap();
        words[2].load(Ordering::SeqCst)
    }
}

fn words() -> MmapableArray {
    MmapableArray::create("words", 4, 1).unwrap()
}

/// Numbers of every length, and those around where something changes.
fn number() -> impl Strategy<Value = u64> {
    let edges = [
        0,
        1,
        2,
        7,
        31,
        32,
        33,
        63,
        64,
        65,
        0x7f,
        0x80,
        0xff,
        0x7fff,
        0x8000,
        0xffff,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1_0000_0000,
        i64::MAX as u64,
        i64::MIN as u64,
        u64::MAX,
    ];
    prop_oneof![
        any::<u64>(),
        (any::<u64>(), 0_u32..64).prop_map(|(number, shift)| number >> shift),
        (any::<i64>(), 0_u32..64).prop_map(|(number, shift)| (number >> shift) as u64),
        prop::sample::select(edges.to_vec()),
    ]
}

fn samples<S: Strategy>(strategy: S, count: usize) -> Vec<S::Value> {
    let mut runner = TestRunner::default();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// The low half of a number, sign-extended.
fn low(number: u64) -> i64 {
    i64::from(number as u32 as i32)
}

fn alu(width: Width, op: AluOp, dst: u64, src: u64) -> u64 {
    match width {
        Width::W64 => match op {
            AluOp::Add => dst.wrapping_add(src),
            AluOp::Sub => dst.wrapping_sub(src),
            AluOp::Mul => dst.wrapping_mul(src),
            AluOp::Div => dst.checked_div(src).unwrap_or(0),
            AluOp::Mod => dst.checked_rem(src).unwrap_or(dst),
            AluOp::Or => dst | src,
            AluOp::And => dst & src,
            AluOp::Xor => dst ^ src,
            AluOp::Mov => src,
            AluOp::Lsh => dst << (src & 63),
            AluOp::Rsh => dst >> (src & 63),
            AluOp::Arsh => ((dst as i64) >> (src & 63)) as u64,
        },
        Width::W32 => {
            let (dst, src) = (dst as u32, src as u32);
            u64::from(match op {
                AluOp::Add => dst.wrapping_add(src),
                AluOp::Sub => dst.wrapping_sub(src),
                AluOp::Mul => dst.wrapping_mul(src),
                AluOp::Div => dst.checked_div(src).unwrap_or(0),
                AluOp::Mod => dst.checked_rem(src).unwrap_or(dst),
                AluOp::Or => dst | src,
                AluOp::And => dst & src,
                AluOp::Xor => dst ^ src,
                AluOp::Mov => src,
                AluOp::Lsh => dst << (src & 31),
                AluOp::Rsh => dst >> (src & 31),
                AluOp::Arsh => ((dst as i32) >> (src & 31)) as u32,
            })
        }
    }
}

/// Division by 0 gives 0 and its remainder the dividend; the smallest number by -1 is itself and 0.
fn signed(width: Width, op: SignedOp, dst: u64, src: u64) -> u64 {
    let (a, b) = match width {
        Width::W64 => (dst as i64, src as i64),
        Width::W32 => (low(dst), low(src)),
    };
    let result = match (op, b) {
        (SignedOp::Div, 0) => 0,
        (SignedOp::Mod, 0) => a,
        (SignedOp::Div, b) => a.wrapping_div(b),
        (SignedOp::Mod, b) => a.wrapping_rem(b),
    } as u64;
    match width {
        Width::W64 => result,
        Width::W32 => u64::from(result as u32),
    }
}

fn holds(width: Width, op: JumpOp, dst: u64, src: u64) -> bool {
    let (a, b, c, d) = match width {
        Width::W64 => (dst, src, dst as i64, src as i64),
        Width::W32 => (dst & 0xffff_ffff, src & 0xffff_ffff, low(dst), low(src)),
    };
    match op {
        JumpOp::Eq => a == b,
        JumpOp::Ne => a != b,
        JumpOp::Gt => a > b,
        JumpOp::Ge => a >= b,
        JumpOp::Lt => a < b,
        JumpOp::Le => a <= b,
        JumpOp::Set => a & b != 0,
        JumpOp::Sgt => c > d,
        JumpOp::Sge => c >= d,
        JumpOp::Slt => c < d,
        JumpOp::Sle => c <= d,
    }
}

const WIDTHS: [Width; 2] = [Width::W32, Width::W64];

fn insn_of(width: Width, op: AluOp, src: Operand) -> Insn {
    Insn::Alu { width, op, dst: Reg::R7, src }
}

/// What the verifier takes as immediate of that operation: no division by 0, no shift beyond the width.
fn is_taken(width: Width, op: AluOp, imm: i32) -> bool {
    let bits = if width == Width::W32 { 32 } else { 64 };
    match op {
        AluOp::Div | AluOp::Mod => imm != 0,
        AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => (0..bits).contains(&imm),
        _ => true,
    }
}

#[test]
fn arithmetic_on_registers() {
    if !requirements::bpf() {
        return;
    }
    let words = words();
    for width in WIDTHS {
        for op in AluOp::ALL.iter().copied() {
            let insn = insn_of(width, op, Reg::R8.into());
            let kernel = InKernel::load(&words, |asm| {
                asm.push(insn);
            });
            for (dst, src) in samples((number(), number()), PAIRS) {
                let expected = alu(width, op, dst, src);
                assert_eq!(kernel.run(dst, src), expected, "{insn} with {dst:#x} and {src:#x}");
            }
        }
    }
}

#[test]
fn arithmetic_with_immediates() {
    if !requirements::bpf() {
        return;
    }
    let words = words();
    for width in WIDTHS {
        for op in AluOp::ALL.iter().copied() {
            let shift = matches!(op, AluOp::Lsh | AluOp::Rsh | AluOp::Arsh);
            let imms = number().prop_map(move |n| if shift { n as i32 & 63 } else { n as i32 });
            let imms = imms.prop_filter("refused", move |imm| is_taken(width, op, *imm));
            for imm in samples(imms, IMMEDIATES) {
                let insn = insn_of(width, op, imm.into());
                let kernel = InKernel::load(&words, |asm| {
                    asm.push(insn);
                });
                for dst in samples(number(), IMMEDIATES) {
                    let expected = alu(width, op, dst, i64::from(imm) as u64);
                    assert_eq!(kernel.run(dst, 0), expected, "{insn} with {dst:#x}");
                }
            }
        }
    }
}

/// What an instruction with one operand makes of it.
type Reference = Box<dyn Fn(u64) -> u64>;

#[test]
fn negation_and_byte_swaps() {
    if !requirements::bpf() {
        return;
    }
    let words = words();
    let swap = |to, bits| Insn::ByteSwap { dst: Reg::R7, to, bits };
    let swapped = |bits: SwapBits, swap: bool, n: u64| match (bits, swap) {
        (SwapBits::B16, false) => u64::from(n as u16),
        (SwapBits::B32, false) => u64::from(n as u32),
        (SwapBits::B64, false) => n,
        (SwapBits::B16, true) => u64::from((n as u16).swap_bytes()),
        (SwapBits::B32, true) => u64::from((n as u32).swap_bytes()),
        (SwapBits::B64, true) => n.swap_bytes(),
    };
    let negated = |width| Insn::Neg { width, dst: Reg::R7 };
    let mut cases: Vec<(Insn, Reference)> = vec![
        (negated(Width::W64), Box::new(u64::wrapping_neg)),
        (negated(Width::W32), Box::new(|n| u64::from((n as u32).wrapping_neg()))),
    ];
    for bits in [SwapBits::B16, SwapBits::B32, SwapBits::B64] {
        let little = cfg!(target_endian = "little");
        cases.push((swap(SwapTo::Little, bits), Box::new(move |n| swapped(bits, !little, n))));
        cases.push((swap(SwapTo::Big, bits), Box::new(move |n| swapped(bits, little, n))));
        if is_of_linux_6_6() {
            cases.push((swap(SwapTo::Other, bits), Box::new(move |n| swapped(bits, true, n))));
        }
    }
    for (insn, reference) in cases {
        let kernel = InKernel::load(&words, |asm| {
            asm.push(insn);
        });
        for n in samples(number(), PAIRS) {
            assert_eq!(kernel.run(n, 0), reference(n), "{insn} with {n:#x}");
        }
    }
}

fn is_of_linux_6_6() -> bool {
    is_at_least(6, 6)
}

/// Whether the kernel has the instructions that came with that version.
fn is_at_least(major: u32, minor: u32) -> bool {
    let release = nix::sys::utsname::uname().unwrap().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|number| number.parse::<u32>().ok()).unwrap_or(0);
    (number(), number()) >= (major, minor)
}

#[test]
fn signed_division_and_moves() {
    if !requirements::bpf() {
        return;
    }
    if !is_of_linux_6_6() {
        requirements::skip("this kernel is older than the signed operations: Linux 6.6");
        return;
    }
    let words = words();
    for width in WIDTHS {
        for op in [SignedOp::Div, SignedOp::Mod] {
            let insn = Insn::SignedAlu { width, op, dst: Reg::R7, src: Reg::R8.into() };
            let kernel = InKernel::load(&words, |asm| {
                asm.push(insn);
            });
            for (dst, src) in samples((number(), number()), PAIRS) {
                let expected = signed(width, op, dst, src);
                assert_eq!(kernel.run(dst, src), expected, "{insn} with {dst:#x} and {src:#x}");
            }
            for imm in samples(number().prop_map(|n| n as i32 | 1), IMMEDIATES) {
                let insn = Insn::SignedAlu { width, op, dst: Reg::R7, src: imm.into() };
                let kernel = InKernel::load(&words, |asm| {
                    asm.push(insn);
                });
                for dst in samples(number(), IMMEDIATES) {
                    let expected = signed(width, op, dst, i64::from(imm) as u64);
                    assert_eq!(kernel.run(dst, 0), expected, "{insn} with {dst:#x}");
                }
            }
        }
        for bits in [SignedBits::B8, SignedBits::B16, SignedBits::B32] {
            if (width, bits) == (Width::W32, SignedBits::B32) {
                continue;
            }
            let insn = Insn::MoveSigned { width, bits, dst: Reg::R7, src: Reg::R8 };
            let kernel = InKernel::load(&words, |asm| {
                asm.push(insn);
            });
            for src in samples(number(), PAIRS) {
                let extended = match bits {
                    SignedBits::B8 => i64::from(src as i8),
                    SignedBits::B16 => i64::from(src as i16),
                    SignedBits::B32 => low(src),
                } as u64;
                let expected = if width == Width::W32 { extended & 0xffff_ffff } else { extended };
                assert_eq!(kernel.run(0, src), expected, "{insn} with {src:#x}");
            }
        }
    }
}

#[test]
fn jumps() {
    if !requirements::bpf() {
        return;
    }
    let words = words();
    // r7 becomes 1 if the jump is taken, else 2.
    let load = |width, op, src: Operand| {
        InKernel::load(&words, |asm| {
            let (taken, end) = (asm.label("taken"), asm.label("end"));
            // To jump over an instruction of a fixed length needs no label.
            asm.push(Insn::JumpIf { width, op, dst: Reg::R7, src, off: 2 });
            asm.mov(Reg::R7, 2);
            asm.jump(end);
            asm.bind(taken);
            asm.mov(Reg::R7, 1);
            asm.bind(end);
        })
    };
    let expected = |width, op, dst, src| if holds(width, op, dst, src) { 1 } else { 2 };
    for width in WIDTHS {
        for op in JumpOp::ALL.iter().copied() {
            let kernel = load(width, op, Reg::R8.into());
            let pairs = prop_oneof![
                3 => (number(), number()),
                1 => number().prop_map(|n| (n, n)),
                1 => number().prop_map(|n| (n, n ^ 1 << 40)),
            ];
            for (dst, src) in samples(pairs, PAIRS) {
                let wanted = expected(width, op, dst, src);
                assert_eq!(kernel.run(dst, src), wanted, "{width:?} {op:?}, {dst:#x}, {src:#x}");
            }
            for imm in samples(number().prop_map(|n| n as i32), IMMEDIATES) {
                let kernel = load(width, op, imm.into());
                let wide = i64::from(imm) as u64;
                let near = [wide, wide.wrapping_add(1), wide.wrapping_sub(1), wide & 0xffff_ffff];
                for dst in samples(number(), IMMEDIATES).into_iter().chain(near) {
                    let wanted = expected(width, op, dst, wide);
                    assert_eq!(kernel.run(dst, 0), wanted, "{width:?} {op:?}, {dst:#x}, {imm}");
                }
            }
        }
    }
}

const SIZES: [Size; 4] = [Size::B, Size::H, Size::W, Size::DW];

/// Some bytes of a word as the number that they are in memory.
fn narrow(word: u64, size: Size, at: usize) -> u64 {
    let bytes = &word.to_ne_bytes()[at..at + size.bytes()];
    match size {
        Size::B => u64::from(bytes[0]),
        Size::H => u64::from(u16::from_ne_bytes(bytes.try_into().unwrap())),
        Size::W => u64::from(u32::from_ne_bytes(bytes.try_into().unwrap())),
        Size::DW => u64::from_ne_bytes(bytes.try_into().unwrap()),
    }
}

/// The word with some of its bytes replaced by that number, cut to the size.
fn with_narrow(word: u64, size: Size, at: usize, value: u64) -> u64 {
    let mut bytes = word.to_ne_bytes();
    let place = &mut bytes[at..at + size.bytes()];
    match size {
        Size::B => place.copy_from_slice(&(value as u8).to_ne_bytes()),
        Size::H => place.copy_from_slice(&(value as u16).to_ne_bytes()),
        Size::W => place.copy_from_slice(&(value as u32).to_ne_bytes()),
        Size::DW => place.copy_from_slice(&value.to_ne_bytes()),
    }
    u64::from_ne_bytes(bytes)
}

/// The low bytes of a number, with copies of the sign above.
fn sign_extended(value: u64, size: Size) -> u64 {
    let unused = 64 - 8 * size.bytes() as u32;
    ((value << unused) as i64 >> unused) as u64
}

/// Where a number of that size can stand in a word, in bytes.
fn places(size: Size) -> impl Iterator<Item = usize> {
    (0..8).step_by(size.bytes())
}

#[test]
fn loads() {
    if !requirements::bpf() {
        return;
    }
    let words = words();
    for size in SIZES {
        for at in places(size) {
            let (dst, base, off) = (Reg::R7, Reg::R6, MEMORY + at as i16);
            let mut insns = vec![(Insn::Load { size, dst, base, off }, false)];
            if size != Size::DW && is_of_linux_6_6() {
                insns.push((Insn::LoadSigned { size, dst, base, off }, true));
            }
            if is_at_least(6, 15) {
                insns.push((Insn::LoadAcquire { size, dst, base, off }, false));
            }
            for (insn, signed) in insns {
                let kernel = InKernel::load(&words, |asm| {
                    asm.store(Size::DW, Reg::R6, MEMORY, Reg::R7);
                    asm.push(insn);
                });
                for word in samples(number(), PAIRS) {
                    let loaded = narrow(word, size, at);
                    let expected = if signed { sign_extended(loaded, size) } else { loaded };
                    assert_eq!(kernel.run(word, 0), expected, "{insn} of {word:#x}");
                }
            }
        }
    }
}

#[test]
fn stores() {
    if !requirements::bpf() {
        return;
    }
    let words = words();
    let load = |insn: Insn| {
        InKernel::load(&words, |asm| {
            asm.store(Size::DW, Reg::R6, MEMORY, Reg::R7);
            asm.push(insn);
            asm.load(Size::DW, Reg::R7, Reg::R6, MEMORY);
        })
    };
    for size in SIZES {
        for at in places(size) {
            let (base, off, src) = (Reg::R6, MEMORY + at as i16, Reg::R8);
            let mut insns = vec![Insn::Store { size, base, off, src: src.into() }];
            if is_at_least(6, 15) {
                insns.push(Insn::StoreRelease { size, base, off, src });
            }
            for insn in insns {
                let kernel = load(insn);
                for (word, src) in samples((number(), number()), PAIRS) {
                    let expected = with_narrow(word, size, at, src);
                    assert_eq!(kernel.run(word, src), expected, "{insn} of {src:#x} to {word:#x}");
                }
            }
            for imm in samples(number().prop_map(|n| n as i32), IMMEDIATES) {
                let insn = Insn::Store { size, base, off, src: imm.into() };
                let kernel = load(insn);
                for word in samples(number(), IMMEDIATES) {
                    let expected = with_narrow(word, size, at, i64::from(imm) as u64);
                    assert_eq!(kernel.run(word, 0), expected, "{insn} to {word:#x}");
                }
            }
        }
    }
}

/// What is in memory afterwards.
fn atomic(op: AtomicOp, old: u64, src: u64, comparand: u64) -> u64 {
    match op {
        AtomicOp::Add | AtomicOp::FetchAdd => old.wrapping_add(src),
        AtomicOp::Or | AtomicOp::FetchOr => old | src,
        AtomicOp::And | AtomicOp::FetchAnd => old & src,
        AtomicOp::Xor | AtomicOp::FetchXor => old ^ src,
        AtomicOp::Xchg => src,
        AtomicOp::CmpXchg if old == comparand => src,
        AtomicOp::CmpXchg => old,
    }
}

#[test]
fn atomic_operations() {
    if !requirements::bpf() {
        return;
    }
    let words = words();
    for size in [Size::W, Size::DW] {
        for op in AtomicOp::ALL.iter().copied() {
            if op != AtomicOp::Add && !is_at_least(5, 12) {
                continue;
            }
            let insn = Insn::Atomic { op, size, base: Reg::R6, off: MEMORY, src: Reg::R8 };
            // Only a comparison looks at r0: with what is there, it succeeds, and with the other
            // operand mostly not.
            for comparand in [Reg::R7, Reg::R8] {
                let run_then = |then: &dyn Fn(&mut Assembler)| {
                    InKernel::load(&words, |asm| {
                        asm.store(Size::DW, Reg::R6, MEMORY, Reg::R7);
                        asm.mov(Reg::R0, comparand);
                        asm.push(insn);
                        then(asm);
                    })
                };
                let memory = run_then(&|asm| {
                    asm.load(Size::DW, Reg::R7, Reg::R6, MEMORY);
                });
                let src_after = run_then(&|asm| {
                    asm.mov(Reg::R7, Reg::R8);
                });
                let r0_after = run_then(&|asm| {
                    asm.mov(Reg::R7, Reg::R0);
                });
                let pairs = prop_oneof![
                    4 => (number(), number()),
                    1 => number().prop_map(|n| (n, n ^ 1 << 40)),
                ];
                for (word, src) in samples(pairs, PAIRS) {
                    let told = format!("{insn} with {word:#x}, {src:#x}, r0 = {comparand}");
                    let r0 = if comparand == Reg::R7 { word } else { src };
                    let cut = |n: u64| if size == Size::W { n & 0xffff_ffff } else { n };
                    let old = narrow(word, size, 0);
                    let new = atomic(op, old, cut(src), cut(r0));
                    assert_eq!(memory.run(word, src), with_narrow(word, size, 0, new), "{told}");
                    let fetches = !matches!(
                        op,
                        AtomicOp::Add
                            | AtomicOp::Or
                            | AtomicOp::And
                            | AtomicOp::Xor
                            | AtomicOp::CmpXchg
                    );
                    let expected = if fetches { old } else { src };
                    assert_eq!(src_after.run(word, src), expected, "{told}: {}", Reg::R8);
                    let expected = if op == AtomicOp::CmpXchg { old } else { r0 };
                    assert_eq!(r0_after.run(word, src), expected, "{told}: {}", Reg::R0);
                }
            }
        }
    }
}
