//! Our disassembly against that of llvm-objdump: the programs that are loaded, and every instruction that
//! can be assembled.
//!
//! The same bytes go into an object file, one section a program, and each line that llvm-objdump prints
//! of it must be ours. These are the differences that are known:
//!
//! - the load of a map: llvm-objdump writes `ld_pseudo r1, 1, 5`, we write `r1 = map[fd:5]`;
//! - llvm-objdump appends the target of a jump as `<section+0x18>`;
//! - `w2 = xchg32_32(...)` and `cmpxchg32_32`: we leave out the first 32, since `w2` says it;
//! - some instructions are not known to LLVM 14 at all, see [`may_be_unknown`].

#![allow(clippy::unwrap_used)] // All of this file is tests.

mod requirements;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use object::write::Object;
use object::{Architecture, BinaryFormat, SectionKind};
use rlat::histogram::{Linear, Unit};
use rlat::insn::{
    AluOp, AtomicOp, Endianness, Imm64, Insn, JumpOp, Operand, Reg, Size, SwapBits, SwapTo, Width,
    encode,
};
use rlat::latency::{Extremes, KernelReads, Member, Plan, PlannedCall, Returns, Room, Scope, Way};
use rlat::process::PidNamespace;
use rlat::survey;

/// The slots of one section, each with its text.
type Listing = Vec<(usize, String)>;

/// How llvm-objdump names the register of a 32-bit load, and whether it knows 32-bit atomics.
#[derive(Clone, Copy)]
enum Registers {
    /// `r1`, as the verifier does and we do. The 32-bit atomics with fetch are unknown.
    Whole,
    /// `w1`, and all atomics are known.
    Halves,
}

/// Whether llvm-objdump can be run, or why not.
fn llvm_objdump_is_there() -> bool {
    requirements::tool("llvm-objdump", "Debian's package llvm")
}

/// An object file for BPF with one section of code for each program.
fn object_file<'a>(programs: impl IntoIterator<Item = (&'a str, &'a [Insn])>) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::Bpf, object::Endianness::Little);
    for (name, insns) in programs {
        let section = object.add_section(Vec::new(), name.into(), SectionKind::Text);
        object.append_section_data(section, &encode(insns, Endianness::Little), 8);
    }
    object.write().unwrap()
}

/// What llvm-objdump prints of an object file, by section.
fn llvm_objdump(object: &[u8], registers: Registers) -> BTreeMap<String, Listing> {
    let attributes = match registers {
        Registers::Whole => "--mattr=-alu32",
        Registers::Halves => "--mattr=+alu32",
    };
    let mut child = Command::new("llvm-objdump")
        .args(["-d", "--no-show-raw-insn", "--no-print-imm-hex", attributes, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It reads all of the file before it prints, so this cannot block.
    child.stdin.take().unwrap().write_all(object).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "llvm-objdump ended with {}", output.status);

    let mut sections = BTreeMap::new();
    let mut lines: &mut Listing = &mut Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        if let Some(name) = line.strip_prefix("Disassembly of section ") {
            lines = sections.entry(name.trim_end_matches(':').to_owned()).or_default();
        } else if let Some((slot, text)) = line.split_once(":\t")
            && let Ok(slot) = slot.trim().parse()
        {
            lines.push((slot, without_target(text.trim()).to_owned()));
        }
    }
    sections
}

/// `goto +1` of `goto +1 <section+0x18>`.
fn without_target(text: &str) -> &str {
    match text.rfind(" <") {
        Some(at) if text.ends_with('>') && text.contains("goto") => &text[..at],
        _ => text,
    }
}

/// Our text, in llvm-objdump's words where they are known to differ.
fn in_its_words(insn: &Insn) -> String {
    match *insn {
        Insn::LoadImm64 { dst, value: Imm64::MapFd(fd) } => format!("ld_pseudo\t{dst}, 1, {fd}"),
        // It does not show the second slot, where the offset is.
        Insn::LoadImm64 { dst, value: Imm64::MapValue { fd, .. } } => {
            format!("ld_pseudo\t{dst}, 2, {fd}")
        }
        Insn::Atomic { op: AtomicOp::Xchg | AtomicOp::CmpXchg, size: Size::W, .. } => {
            insn.to_string().replace("xchg_32", "xchg32_32")
        }
        _ => insn.to_string(),
    }
}

/// What LLVM 14 disassembles as `<unknown>`, since its code generator never makes it. A later one may
/// know it; then its text must be ours as well.
fn may_be_unknown(insn: &Insn) -> bool {
    match insn {
        // LLVM 14 turns the remainder into a division and a multiplication.
        Insn::Alu { op: AluOp::Mod, .. }
        // It tests bits by `&=` and a comparison with zero.
        | Insn::JumpIf { op: JumpOp::Set, .. }
        // It moves an immediate into a register before storing it.
        | Insn::Store { src: Operand::Imm(_), .. } => true,
        _ => false,
    }
}

fn listing(insns: &[Insn]) -> Listing {
    let mut next_slot = 0;
    insns
        .iter()
        .map(|insn| {
            let slot = next_slot;
            next_slot += insn.slots();
            (slot, in_its_words(insn))
        })
        .collect()
}

/// Compares line by line; returns how many instructions llvm-objdump did not know.
fn assert_agreement(program: &str, insns: &[Insn], theirs: &Listing) -> usize {
    let ours = listing(insns);
    assert_eq!(ours.len(), theirs.len(), "instructions in {program}");
    let mut unknown = 0;
    for (insn, (ours, theirs)) in insns.iter().zip(ours.iter().zip(theirs)) {
        if theirs.1 == "<unknown>" && may_be_unknown(insn) {
            unknown += 1;
            assert_eq!(ours.0, theirs.0, "slot in {program}");
        } else {
            assert_eq!(ours, theirs, "(ours, llvm-objdump's) in {program}: {insn:?}");
        }
    }
    unknown
}

#[test]
fn every_program_that_is_loaded_reads_the_same() {
    if !llvm_objdump_is_there() {
        return;
    }
    let member = |namespace| Member { namespace, id: 1234 };
    let inside = PidNamespace::Other { dev: 4, ino: 0xf000_0123 };
    let (outer, inner) = (member(PidNamespace::Initial), member(inside));
    let scopes = [
        ("process", Scope::Processes(vec![outer])),
        ("processes of two namespaces", Scope::Processes(vec![outer, inner, outer])),
        ("thread", Scope::Threads(vec![inner])),
        ("family", Scope::Family(vec![outer])),
        ("name", Scope::Named(*b"redis-server\0\0\0\0")),
        ("control group", Scope::ControlGroup),
        ("all", Scope::AllBut(inner)),
    ];
    let mut programs = Vec::new();
    for (place, scope) in &scopes {
        // The second set has a kernel with a wider tracepoint header, and everything that can be asked.
        for (descriptors, offset, returns, unit, linear) in [
            (vec![], 16, Returns::Any, Unit::Us, None),
            (vec![7, 9], 24, Returns::Ok, Unit::Ns, Some(Linear::new(10, 100, 5).unwrap())),
            (vec![7], 16, Returns::Error, Unit::S, None),
            (vec![], 16, Returns::Zero, Unit::Ms, None),
        ] {
            let which = format!("{place} {descriptors:?} {returns:?}");
            let call = |name: &str, number| PlannedCall {
                name: name.to_owned(),
                number: Some(number),
                argument_offset: Some(offset),
                result_offset: offset,
            };
            let one_or_two = [vec![call("read", 0)], vec![call("read", 0), call("write", 1)]];
            let reads = KernelReads {
                number: 120,
                number_is_wide: true,
                argument: 112,
                compat: 16,
                compat_bit: 2,
            };
            let ways = [Way::Tracepoint, Way::Raw { reads: Some(reads) }, Way::Raw { reads: None }];
            let stores = [(1024, Extremes::CompareExchange), (0, Extremes::LoadStore)];
            for (calls, (way, (direct_slots, extremes))) in one_or_two
                .iter()
                .flat_map(|calls| ways.map(|way| (calls, way)))
                .flat_map(|(calls, way)| stores.map(|store| (calls, (way, store))))
            {
                let plan = Plan {
                    scope: scope.clone(),
                    calls: calls.clone(),
                    descriptors: descriptors.clone(),
                    returns,
                    unit,
                    linear,
                    room: Room { direct_slots, threads: 4096, on_demand: false },
                    extremes,
                    way,
                };
                for (place, program) in plan.programs().unwrap() {
                    let which = format!("{which} {} {way:?} {direct_slots} {place:?}", calls.len());
                    programs.push((which, program));
                }
            }
        }
        for (extremes, regions, direct_slots) in [
            (Extremes::CompareExchange, survey::Regions::Shared, 1024),
            (Extremes::LoadStore, survey::Regions::OneEach, 0),
        ] {
            let room = Room { direct_slots, threads: 4096, on_demand: false };
            let plan = survey::Plan { scope: scope.clone(), regions, room, extremes };
            let all = [
                survey::enter_program(&plan).unwrap(),
                survey::exit_program(&plan).unwrap(),
                survey::thread_end_program(&plan).unwrap(),
            ];
            for program in all {
                programs
                    .push((format!("survey of {place} {extremes:?} {}", program.name()), program));
            }
        }
    }

    let sections = programs.iter().map(|(name, program)| (name.as_str(), program.insns()));
    let theirs = llvm_objdump(&object_file(sections), Registers::Whole);
    for (name, program) in &programs {
        let unknown = assert_agreement(name, program.insns(), &theirs[name]);
        assert_eq!(unknown, 0, "of {name} llvm-objdump must know every instruction");
    }
}

#[test]
fn every_instruction_reads_the_same() {
    if !llvm_objdump_is_there() {
        return;
    }
    let chapters = [
        ("arithmetic", arithmetic()),
        ("byte swaps", byte_swaps()),
        ("64-bit immediates", immediates()),
        ("memory", memory()),
        ("jumps", jumps()),
        ("64-bit atomics", atomics(Size::DW)),
        ("the rest", vec![Insn::Call { helper: 5 }, Insn::Call { helper: -1 }, Insn::Exit]),
    ];
    let sections = chapters.iter().map(|(name, insns)| (*name, insns.as_slice()));
    let theirs = llvm_objdump(&object_file(sections), Registers::Whole);
    for (name, insns) in &chapters {
        assert_agreement(name, insns, &theirs[*name]);
    }
}

#[test]
fn every_atomic_operation_on_32_bits_reads_the_same() {
    if !llvm_objdump_is_there() {
        return;
    }
    let name = "32-bit atomics";
    let insns = atomics(Size::W);
    let theirs = llvm_objdump(&object_file([(name, insns.as_slice())]), Registers::Halves);
    assert_agreement(name, &insns, &theirs[name]);
}

const WIDTHS: [Width; 2] = [Width::W32, Width::W64];

/// Pairs in which every register comes once on either side.
fn registers() -> impl Iterator<Item = (Reg, Reg)> {
    Reg::ALL.into_iter().zip(Reg::ALL.into_iter().cycle().skip(3))
}

/// Every register, and immediates of both signs and at both limits.
fn operands() -> Vec<(Reg, Operand)> {
    let by_register = registers().map(|(dst, src)| (dst, src.into()));
    let by_immediate = [0, 1, -1, 4096, i32::MAX, i32::MIN].map(|imm| (Reg::R1, imm.into()));
    by_register.chain(by_immediate).collect()
}

fn arithmetic() -> Vec<Insn> {
    let mut insns = Vec::new();
    for width in WIDTHS {
        for op in AluOp::ALL.iter().copied() {
            insns.extend(operands().into_iter().map(|(dst, src)| Insn::Alu {
                width,
                op,
                dst,
                src,
            }));
        }
        insns.extend(Reg::ALL.map(|dst| Insn::Neg { width, dst }));
    }
    insns
}

fn byte_swaps() -> Vec<Insn> {
    let mut insns = Vec::new();
    for to in [SwapTo::Little, SwapTo::Big] {
        for bits in [SwapBits::B16, SwapBits::B32, SwapBits::B64] {
            insns.push(Insn::ByteSwap { dst: Reg::R3, to, bits });
        }
    }
    insns
}

fn immediates() -> Vec<Insn> {
    let numbers = [0, 1, 1 << 31, 1 << 32, 1 << 63, u64::MAX >> 1, u64::MAX];
    let numbers = numbers.map(Imm64::Value).into_iter();
    let maps = [Imm64::MapFd(5), Imm64::MapValue { fd: 6, offset: 72 }];
    numbers.chain(maps).map(|value| Insn::LoadImm64 { dst: Reg::R2, value }).collect()
}

fn memory() -> Vec<Insn> {
    let mut insns = Vec::new();
    for size in Size::ALL.iter().copied() {
        for off in [0, 8, -8, i16::MAX, i16::MIN] {
            insns.push(Insn::Load { size, dst: Reg::R0, base: Reg::R10, off });
            insns.push(Insn::Store { size, base: Reg::R10, off, src: Reg::R9.into() });
            insns.push(Insn::Store { size, base: Reg::R10, off, src: (-9).into() });
        }
    }
    insns
}

fn jumps() -> Vec<Insn> {
    let mut insns = Vec::new();
    for off in [0, 1, -1, i16::MAX, i16::MIN] {
        insns.push(Insn::Jump { off });
        for width in WIDTHS {
            for op in JumpOp::ALL.iter().copied() {
                let compared = operands().into_iter();
                insns.extend(compared.map(|(dst, src)| Insn::JumpIf { width, op, dst, src, off }));
            }
        }
    }
    insns
}

fn atomics(size: Size) -> Vec<Insn> {
    let mut insns = Vec::new();
    for op in AtomicOp::ALL.iter().copied() {
        for (base, src) in registers() {
            insns.extend([0, -16].map(|off| Insn::Atomic { op, size, base, off, src }));
        }
    }
    insns
}
