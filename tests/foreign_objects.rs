//! Object files that others have compiled: what LLVM disassembles, we disassemble to the same text.
//!
//! Of Debian's packages these have some: libxdp1 as files; libbpf-tools and xdp-tools inside of their
//! executables, as libbpf's skeletons. bpftrace has none, but writes one for each script of its package.
//! bpftool and systemd could have skeletons: those of Debian 12 have none, systemd since it is built with
//! `-BPF_FRAMEWORK`; they are looked through all the same. bpfcc-tools are C that is compiled when they
//! run, and no package has the kernel's selftests.
//!
//! These are the differences that are known:
//!
//! - the load of a map by its number, as bpftrace has it, is `r1 = map[fd:2]` here, and `ld_pseudo r1, 1, 2`
//!   there;
//! - the call of a function of the same program is `call pc+3` here, and `call 3` there;
//! - `w2 = xchg32_32(...)` and `cmpxchg32_32` there: we leave out the first 32, since `w2` says it;
//! - `lock *(u32 *)(r0 + 0) += w1`: where it names the registers of loads `r1`, it does so here, too;
//! - llvm-objdump appends the target of a jump as `<section+0x18>`;
//! - atomics of 32 bits with fetch are unknown to an llvm-objdump that names the registers of loads `r1`.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod requirements;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use rlat::elf;
use rlat::insn::{AtomicOp, Endianness, Imm64, Insn, Module, Size, decode_any, text};

/// The packages with object files, beside those that only have executables with some inside.
const PACKAGES: [&str; 5] = ["libbpf-tools", "xdp-tools", "libxdp1", "bpftool", "systemd"];

/// An object file, and where it comes from.
type Named = (String, Vec<u8>);

/// Every object file that there is here.
fn objects() -> &'static [Named] {
    static FOUND: OnceLock<Vec<Named>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let mut found = Vec::new();
        for package in PACKAGES {
            let objects = objects_of(package);
            println!("{} objects of {package}", objects.len());
            found.extend(objects);
        }
        let objects = compiled_by_bpftrace();
        println!("{} objects by bpftrace", objects.len());
        found.extend(objects);
        found
    })
}

/// The files of a package, if it is installed.
fn files_of(package: &str) -> Vec<String> {
    let Ok(list) = Command::new("dpkg").args(["-L", package]).output() else { return Vec::new() };
    let list = String::from_utf8(list.stdout).unwrap();
    let is_file = |file: &&str| fs::symlink_metadata(file).is_ok_and(|there| there.is_file());
    list.lines().filter(is_file).map(str::to_owned).collect()
}

/// Every object file for BPF that is a file of the package, or inside of one.
fn objects_of(package: &str) -> Vec<Named> {
    let mut found = Vec::new();
    for file in files_of(package) {
        let Ok(bytes) = fs::read(&file) else { continue };
        for (number, object) in embedded(&bytes).into_iter().enumerate() {
            found.push((format!("{file} {number}"), object.to_vec()));
        }
    }
    found
}

/// What bpftrace makes of the scripts in its package, without loading it. Some ask for what this kernel
/// does not have, or for headers that are not installed.
fn compiled_by_bpftrace() -> Vec<Named> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bpftrace.o");
    // It looks for tracepoints in tracefs: in one that only it sees, wherever one is mounted or not.
    let command = "mount -t tracefs t /sys/kernel/tracing && exec bpftrace --emit-elf \"$@\"";
    let mut found = Vec::new();
    for script in files_of("bpftrace")
        .into_iter()
        .filter(|file| Path::new(file).extension().is_some_and(|extension| extension == "bt"))
    {
        let _ = fs::remove_file(&file);
        let mut bpftrace = Command::new("unshare");
        bpftrace.args(["-m", "sh", "-c", command, "sh"]).arg(&file).arg(&script);
        let _ = bpftrace.output();
        if let Ok(bytes) = fs::read(&file) {
            found.push((script, bytes));
        }
    }
    found
}

/// Where ELF files for BPF begin in these bytes: up to the end of their section headers, which come last.
fn embedded(bytes: &[u8]) -> Vec<&[u8]> {
    const MAGIC: &[u8] = b"\x7fELF\x02\x01\x01";
    const HEADER_BYTES: usize = 64;
    const SECTION_HEADER_BYTES: usize = 64;
    let mut objects = Vec::new();
    let starts = bytes.windows(MAGIC.len()).enumerate().filter(|(_, window)| *window == MAGIC);
    for (start, _) in starts {
        let rest = &bytes[start..];
        let is_bpf = rest.len() > HEADER_BYTES && rest[18..20] == 247_u16.to_le_bytes();
        if !is_bpf {
            continue;
        }
        let headers_at = u64::from_le_bytes(*rest[40..].first_chunk().unwrap()) as usize;
        let count = usize::from(u16::from_le_bytes(*rest[60..].first_chunk().unwrap()));
        objects.extend(rest.get(..headers_at + count * SECTION_HEADER_BYTES));
    }
    objects
}

/// Slot and text of each instruction, by section.
type Listings = BTreeMap<String, Vec<(usize, String)>>;

fn llvm_objdump(object: &Path) -> Listings {
    let output = Command::new("llvm-objdump")
        .args(["-d", "--no-show-raw-insn", "--no-print-imm-hex", "--mattr=-alu32"])
        .arg(object)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut listings = Listings::new();
    let mut lines = &mut Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        if let Some(name) = line.strip_prefix("Disassembly of section ") {
            lines = listings.entry(name.trim_end_matches(':').to_owned()).or_default();
        } else if let Some((slot, text)) = line.split_once(":\t")
            && let Ok(slot) = slot.trim().parse()
        {
            let text = text.trim();
            let text =
                text.rfind(" <").filter(|_| text.contains("goto")).map_or(text, |at| &text[..at]);
            lines.push((slot, text.to_owned()));
        }
    }
    listings
}

/// Our text in llvm-objdump's words.
fn in_its_words(insn: &Insn) -> String {
    match insn {
        Insn::LoadImm64 { dst, value: Imm64::MapFd(fd) } => format!("ld_pseudo\t{dst}, 1, {fd}"),
        Insn::CallLocal { off } => format!("call {off}"),
        Insn::Atomic { op: AtomicOp::Add, size: Size::W, src, .. } => {
            insn.to_string().replace(&format!("w{}", src.number()), &src.to_string())
        }
        insn => insn.to_string().replace("xchg_32", "xchg32_32"),
    }
}

fn is_atomic_of_32_bits(insn: &Insn) -> bool {
    matches!(insn, Insn::Atomic { size: Size::W, .. })
}

#[test]
fn what_others_compiled_reads_the_same() {
    if !requirements::tool("llvm-objdump", "Debian's package llvm") {
        return;
    }
    let objects = objects();
    if objects.is_empty() {
        requirements::skip("there are no object files: install Debian's package libbpf-tools");
        return;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign.o");
    let (mut compared, mut unknown) = (0, 0);
    for (name, bytes) in objects {
        fs::write(&file, bytes).unwrap();
        let theirs = llvm_objdump(&file);
        let sections = code(bytes);
        assert_eq!(
            sections.keys().collect::<Vec<_>>(),
            theirs.keys().collect::<Vec<_>>(),
            "sections of {name}"
        );
        for (section, insns) in &sections {
            let theirs = &theirs[section];
            assert_eq!(insns.len(), theirs.len(), "instructions of {name}, {section}");
            let mut slot = 0;
            for (insn, (their_slot, their_text)) in insns.iter().zip(theirs) {
                assert_eq!(slot, *their_slot, "{name}, {section}");
                slot += insn.slots();
                compared += 1;
                if their_text == "<unknown>" && is_atomic_of_32_bits(insn) {
                    unknown += 1;
                } else {
                    assert_eq!(in_its_words(insn), *their_text, "{name}, {section}, slot {slot}");
                }
            }
        }
    }
    println!("{} objects, {compared} instructions, {unknown} unknown to LLVM", objects.len());
    assert!(compared > 1000 && unknown < compared / 100, "{unknown} of {compared}");
}

/// The instructions in the bytes of each section, before anything is said about relocations.
fn code(bytes: &[u8]) -> BTreeMap<String, Vec<Insn>> {
    use object::{Object as _, ObjectSection as _};
    let file = object::File::parse(bytes).unwrap();
    file.sections()
        .filter(|section| section.kind() == object::SectionKind::Text && section.size() > 0)
        .map(|section| {
            let insns = decode_any(section.data().unwrap(), Endianness::Little).unwrap();
            assert!(!insns.iter().any(|insn| matches!(insn, Insn::Unknown(_))));
            (section.name().unwrap().to_owned(), insns)
        })
        .collect()
}

/// Each of them is read with its maps, functions and relocations; its text is one that is read again; and
/// whatever is left out is named.
#[test]
fn what_others_compiled_is_read_and_its_text_too() {
    let objects = objects();
    if objects.is_empty() {
        requirements::skip("there are no object files: install Debian's package libbpf-tools");
        return;
    }
    for (name, bytes) in objects {
        let object = elf::read(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let written = text::write(&object.module);
        let parsed = text::parse(&written).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(parsed.module, object.module, "{name}");
        assert!(
            object.notes.iter().all(|note| !note.contains("relocation of slot")),
            "{name}: {:?}",
            object.notes
        );
        assert!(has_what_programs_refer_to(&object.module), "{name}: {written}");
    }
}

fn has_what_programs_refer_to(module: &Module) -> bool {
    let references = module.sections.iter().flat_map(|section| &section.references);
    references.into_iter().all(|reference| match &reference.to {
        rlat::insn::Target::Map(name) => module.maps.iter().any(|map| map.name == *name),
        rlat::insn::Target::Function(name) => {
            let mut functions = module.sections.iter().flat_map(|section| &section.functions);
            functions.any(|(_, function)| function == name)
        }
        rlat::insn::Target::Extern(name) => module.externs.contains(name),
    })
}
