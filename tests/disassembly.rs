//! Our disassembly against that of llvm-objdump: the programs that are loaded, and every instruction that
//! can be assembled.
//!
//! The same bytes go into an object file, one section a program, and each line that llvm-objdump prints
//! of it must be ours. These are the differences that are known:
//!
//! - the load of a map: llvm-objdump writes `ld_pseudo r1, 1, 5`, we write `r1 = map[fd:5]`;
//! - llvm-objdump appends the target of a jump as `<section+0x18>`;
//! - `w2 = xchg32_32(...)` and `cmpxchg32_32`: we leave out the first 32, since `w2` says it;
//! - an atomic load or store is an addition for LLVM before 20;
//! - some instructions are not known to LLVM 14 at all, see [`may_be_unknown`].

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod requirements;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use object::write::Object;
use object::{Architecture, BinaryFormat, SectionKind};
use object::{Object as _, ObjectSection as _};
use rlat::histogram::{Linear, Unit};
use rlat::insn::{
    AluOp, AtomicOp, Endianness, Imm64, Insn, JumpOp, Operand, Reg, SignedBits, SignedOp, Size,
    SwapBits, SwapTo, Width, encode, text,
};
use rlat::latency::{
    Extremes, KernelReads, Member, Plan, PlannedCall, Returns, Room, Scope, TypedEntry, Way,
};
use rlat::loader::TracepointType;
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

/// The newest of a tool's versions: Debian installs others than its own with the number behind the name.
fn newest(tool: &str) -> String {
    let versions = (15..40).rev().map(|version| format!("{tool}-{version}"));
    let is_there = |name: &String| {
        let started = Command::new(name).arg("--version").stdout(Stdio::null()).status();
        started.is_ok_and(|status| status.success())
    };
    versions.into_iter().find(is_there).unwrap_or_else(|| tool.to_owned())
}

/// Whether that LLVM knows what came with Linux 6.6. An older one reads it as something else.
fn knows_newer(tool: &str) -> bool {
    let said = Command::new(tool).arg("--version").output().unwrap().stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    let version = said.split("LLVM version ").nth(1).and_then(|rest| rest.split('.').next());
    let knows =
        version.and_then(|version| version.parse().ok()).is_some_and(|version: u32| version >= 19);
    if !knows {
        println!("{tool} is older than LLVM 19: newer instructions are not compared");
    }
    knows
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
    let mut child = Command::new(newest("llvm-objdump"))
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
        | Insn::Store { src: Operand::Imm(_), .. }
        // What came with Linux 6.6 is known since LLVM 18.
        | Insn::SignedAlu { .. }
        | Insn::MoveSigned { .. }
        | Insn::LoadSigned { .. }
        | Insn::JumpLong { .. }
        | Insn::ByteSwap { to: SwapTo::Other, .. }
        // And this with Linux 6.9 and 6.15, since LLVM 19 and 20.
        | Insn::AddrSpaceCast { .. }
        | Insn::MayGoto { .. }
        | Insn::LoadAcquire { .. }
        | Insn::StoreRelease { .. } => true,
        _ => false,
    }
}

/// LLVM before 20 takes these for an atomic addition: it does not look at all bits of `imm`.
fn is_ordered(insn: &Insn) -> bool {
    matches!(insn, Insn::LoadAcquire { .. } | Insn::StoreRelease { .. })
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
        } else if is_ordered(insn) && theirs.1.starts_with("lock ") {
            unknown += 1;
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
            let tracepoint = TracepointType { number: 1, tid: 1264, tgid: 1268 };
            let typed = Some(TypedEntry { tracepoint, reads });
            let ways = [
                Way::Tracepoint,
                Way::Raw { reads: Some(reads), typed },
                Way::Raw { reads: Some(reads), typed: None },
                Way::Raw { reads: None, typed: None },
            ];
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
        ("signed", signed()),
        ("packets", packets()),
        ("newer", newer()),
        ("the rest", vec![Insn::Call { helper: 5 }, Insn::Call { helper: -1 }, Insn::Exit]),
    ];
    let sections = chapters.iter().map(|(name, insns)| (*name, insns.as_slice()));
    let theirs = llvm_objdump(&object_file(sections), Registers::Whole);
    let newer = knows_newer(&newest("llvm-objdump"));
    for (name, insns) in
        chapters.iter().filter(|(name, _)| newer || !["signed", "newer"].contains(name))
    {
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

/// What LLVM's assembler takes, ours takes, and makes the same bytes of it. What LLVM does not take must be
/// something that may be unknown to it, or that is written otherwise here.
#[test]
fn llvms_assembler_makes_the_same_bytes_of_our_text() {
    let llvm_mc = newest("llvm-mc");
    if !requirements::tool(&llvm_mc, "Debian's package llvm") {
        return;
    }
    let all: Vec<Insn> = [
        arithmetic(),
        byte_swaps(),
        immediates().into_iter().filter(is_number).collect(),
        memory(),
        jumps(),
        atomics(Size::DW),
        atomics(Size::W),
        signed(),
        packets(),
        newer(),
        vec![Insn::Call { helper: 5 }, Insn::Call { helper: -1 }, Insn::Exit],
    ]
    .concat();
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("all.s");
    let object = source.with_extension("o");
    let assemble = |insns: &[Insn]| {
        let lines: Vec<String> = insns.iter().map(in_its_words).collect();
        std::fs::write(&source, lines.join("\n") + "\n").unwrap();
        let options = ["-triple=bpfel", "-mattr=+alu32", "-filetype=obj", "-o"];
        let mut command = Command::new(&llvm_mc);
        command.args(options).args([&object, &source]).output().unwrap()
    };
    let refused: BTreeSet<usize> = String::from_utf8_lossy(&assemble(&all).stderr)
        .lines()
        .filter(|line| line.contains(": error: "))
        .filter_map(|line| line.split(':').nth(1)?.parse().ok())
        .collect();
    let newer = knows_newer(&llvm_mc);
    let mut taken = Vec::new();
    for (index, insn) in all.iter().enumerate() {
        if refused.contains(&(index + 1)) {
            assert!(!newer || may_be_refused(insn), "{insn}");
        } else {
            taken.push(*insn);
        }
    }
    assert!(taken.len() > all.len() / 2, "{} of {}", taken.len(), all.len());
    let assembled = assemble(&taken);
    assert!(assembled.status.success(), "{assembled:?}");
    let bytes = std::fs::read(&object).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let code = file.section_by_name(".text").unwrap().data().unwrap();
    let listing = std::fs::read_to_string(&source).unwrap();
    let ours = &text::parse(&listing).unwrap_or_else(|error| panic!("{error}")).module.sections[0];
    assert_eq!(ours.insns, taken);
    assert!(encode(&ours.insns, Endianness::Little) == code, "{listing}");
}

fn is_number(insn: &Insn) -> bool {
    matches!(insn, Insn::LoadImm64 { value: Imm64::Value(_), .. })
}

/// What LLVM's assembler may not take of what is written as it disassembles it.
fn may_be_refused(insn: &Insn) -> bool {
    may_be_unknown(insn)
        || match insn {
            // Into half a register, where the name of the whole one is refused with `alu32`.
            Insn::Load { size: Size::B | Size::H | Size::W, .. }
            | Insn::Store { size: Size::B | Size::H | Size::W, .. }
            | Insn::ByteSwap { .. } => true,
            _ => false,
        }
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

fn signed() -> Vec<Insn> {
    let mut insns = Vec::new();
    for width in WIDTHS {
        for op in [SignedOp::Div, SignedOp::Mod] {
            let all = operands().into_iter();
            insns.extend(all.map(|(dst, src)| Insn::SignedAlu { width, op, dst, src }));
        }
        for bits in [SignedBits::B8, SignedBits::B16] {
            let all = registers();
            insns.extend(all.map(|(dst, src)| Insn::MoveSigned { width, bits, dst, src }));
        }
    }
    let (width, bits) = (Width::W64, SignedBits::B32);
    insns.extend(registers().map(|(dst, src)| Insn::MoveSigned { width, bits, dst, src }));
    for size in [Size::B, Size::H, Size::W] {
        let (dst, base) = (Reg::R3, Reg::R4);
        insns.extend([0, -8, i16::MAX].map(|off| Insn::LoadSigned { size, dst, base, off }));
    }
    insns
}

fn packets() -> Vec<Insn> {
    let mut insns = Vec::new();
    for size in [Size::B, Size::H, Size::W] {
        insns.push(Insn::LoadPacket { size, index: None, off: 23 });
        insns.push(Insn::LoadPacket { size, index: Some(Reg::R7), off: 0 });
    }
    insns
}

fn newer() -> Vec<Insn> {
    let (dst, src, base) = (Reg::R1, Reg::R2, Reg::R2);
    let mut insns = vec![
        Insn::JumpLong { off: 70_000 },
        Insn::JumpLong { off: -70_000 },
        Insn::MayGoto { off: 3 },
        Insn::AddrSpaceCast { dst, src, to: 0, from: 1 },
    ];
    for size in Size::ALL.iter().copied() {
        insns.push(Insn::LoadAcquire { size, dst, base, off: 8 });
        insns.push(Insn::StoreRelease { size, base, off: -8, src });
    }
    insns
}

fn byte_swaps() -> Vec<Insn> {
    let mut insns = Vec::new();
    for to in [SwapTo::Little, SwapTo::Big, SwapTo::Other] {
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
