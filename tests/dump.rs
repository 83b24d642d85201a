//! `rlat dump` shows what would be loaded: against the kernel's own copy of what was.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use rlat::elf;
use rlat::insn::{Endianness, Imm64, Insn, Module, Operand, decode_any, encode, helper_number};

use support::{Folder, RLAT, Rlat, can_measure, workload_path};

fn dump(arguments: &[&str]) -> Vec<u8> {
    dump_by(arguments).0
}

/// The same, and the number of the process that printed it.
fn dump_by(arguments: &[&str]) -> (Vec<u8>, u32) {
    let mut rlat = Command::new(RLAT);
    rlat.arg("dump").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let rlat = rlat.spawn().unwrap();
    let pid = rlat.id();
    let output = rlat.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    (output.stdout, pid)
}

fn dumped_module(arguments: &[&str]) -> Module {
    dumped_module_by(arguments).0
}

fn dumped_module_by(arguments: &[&str]) -> (Module, u32) {
    let (bytes, pid) = dump_by(&[&["--as", "elf"], arguments].concat());
    (elf::read(&bytes).unwrap().module, pid)
}

/// With --all, each program leaves the rlat out that made it: the one comparison of a process with that
/// number becomes one with the number of another rlat.
fn as_if_made_by(module: &mut Module, dumper: u32, measurer: u32) {
    for section in &mut module.sections {
        let mut changed = 0;
        for (index, insn) in section.insns.iter_mut().enumerate() {
            let is_about_process =
                section.comments.get(&index).is_some_and(|said| said == "is it our process?");
            if let Insn::JumpIf { src: Operand::Imm(id), .. } = insn
                && is_about_process
            {
                assert_eq!(*id, dumper as i32, "{}, {index}", section.name);
                *id = measurer as i32;
                changed += 1;
            }
        }
        assert_eq!(changed, 1, "{}", section.name);
    }
}

/// What the kernel rewrites when it loads a program: which map a load is of, which becomes the map's
/// address; and the number of a helper, which becomes the distance to its code.
fn without_addresses(insns: &[Insn]) -> Vec<Insn> {
    let plain = |insn: &Insn| match *insn {
        Insn::LoadImm64 { dst, value: Imm64::MapFd(_) } => {
            Insn::LoadImm64 { dst, value: Imm64::MapFd(0) }
        }
        Insn::LoadImm64 { dst, value: Imm64::MapValue { offset, .. } } => {
            Insn::LoadImm64 { dst, value: Imm64::MapValue { fd: 0, offset } }
        }
        Insn::Call { .. } => Insn::Call { helper: 0 },
        insn => insn,
    };
    insns.iter().map(plain).collect()
}

/// The most instructions that the kernel puts in the place of a call.
const INLINED: usize = 16;

/// Beside addresses, the kernel rewrites this:
///
/// - some calls become code of its own: a lookup in an array or a hash, the number of the CPU;
/// - a jump to the next instruction is removed, and so is a jump that it knows to be one;
/// - the distance of a jump over such places.
///
/// All else must be there, one instruction directly behind the other.
fn assert_kernel_has(ours: &[Insn], translated: &[Insn]) {
    let plain = |insns: &[Insn]| -> Vec<Insn> {
        without_addresses(insns)
            .into_iter()
            .filter(|insn| *insn != Insn::Jump { off: 0 })
            .map(|insn| match insn {
                Insn::JumpIf { width, op, dst, src, .. } => {
                    Insn::JumpIf { width, op, dst, src, off: 0 }
                }
                Insn::Jump { .. } => Insn::Jump { off: 1 },
                insn => insn,
            })
            .collect()
    };
    let (ours, translated) = (plain(ours), plain(translated));
    // Where the next instruction may be: only there, or, behind a call, a few places on.
    let (mut next, mut farthest) = (0, 0);
    for (index, insn) in ours.iter().enumerate() {
        if matches!(insn, Insn::Call { .. }) {
            farthest = next + INLINED;
            continue;
        }
        // What follows the call may begin as the code in its place does: then the last one counts.
        let places = next..=farthest.min(translated.len() - 1);
        let follows = ours.get(index + 1).filter(|insn| !matches!(insn, Insn::Call { .. }));
        let is_it = |at: &usize| {
            translated[*at] == *insn
                && follows.is_none_or(|insn| translated.get(at + 1) == Some(insn))
        };
        let Some(at) = places.into_iter().find(is_it) else {
            let near = next.saturating_sub(4)..translated.len().min(farthest + 4);
            panic!(
                "instruction {index}, {insn}, is not at {next} to {farthest}:\n{:?}\n{:?}",
                &ours[index.saturating_sub(4)..ours.len().min(index + 4)],
                &translated[near]
            )
        };
        (next, farthest) = (at + 1, at + 1);
    }
}

/// The programs of a running measurement by their names, as the kernel has them.
fn loaded(rlat: &Rlat) -> BTreeMap<String, Vec<Insn>> {
    let descriptors = fs::read_dir(format!("/proc/{}/fdinfo", rlat.pid())).unwrap();
    let ids: BTreeSet<String> = descriptors
        .filter_map(|file| fs::read_to_string(file.unwrap().path()).ok())
        .filter_map(|info| {
            Some(info.lines().find_map(|line| line.strip_prefix("prog_id:"))?.trim().to_owned())
        })
        .collect();
    let translated = |id: String| {
        let output = Command::new(workload_path()).args(["translated", &id]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let end = output.stdout.iter().position(|byte| *byte == b'\n').unwrap();
        let (name, code) = output.stdout.split_at(end);
        let insns = decode_any(&code[1..], Endianness::NATIVE).unwrap();
        (String::from_utf8(name.to_vec()).unwrap(), insns)
    };
    ids.into_iter().map(translated).collect()
}

/// Measures with these arguments, and compares each program that is dumped for them with the kernel's copy.
fn kernel_has_what_is_dumped(arguments: &[&str]) {
    let (mut module, dumper) = dumped_module_by(arguments);
    let rlat = Rlat::measure_with(arguments);
    if arguments.contains(&"--all") {
        as_if_made_by(&mut module, dumper, rlat.pid());
    }
    assert!(module.sections.len() >= 3, "{arguments:?}");
    let loaded = loaded(&rlat);
    assert_eq!(loaded.len(), module.sections.len(), "{arguments:?}");
    for section in &module.sections {
        assert_kernel_has(&section.insns, &loaded[&section.functions[0].1]);
    }
}

/// The same for some options and this process.
fn kernel_has_what_is_dumped_for_this_process(options: &[&str]) {
    let pid = std::process::id().to_string();
    kernel_has_what_is_dumped(&[options, &[&pid]].concat());
}

#[test]
fn the_kernel_has_what_is_dumped() {
    if can_measure() {
        kernel_has_what_is_dumped_for_this_process(&["--fd", "7"]);
    }
}

#[test]
fn the_kernel_has_what_is_dumped_for_raw_tracepoints() {
    if can_measure() {
        kernel_has_what_is_dumped_for_this_process(&["--attach", "raw", "--fd", "7"]);
    }
}

#[test]
fn the_kernel_has_what_is_dumped_of_several_calls() {
    if can_measure() {
        let linear = ["-e", "read,write", "--linear", "0,100,10", "--ret", "ok"];
        kernel_has_what_is_dumped_for_this_process(&linear);
        let raw = ["--attach", "raw", "-e", "@read", "--unit", "ns"];
        kernel_has_what_is_dumped_for_this_process(&raw);
    }
}

#[test]
fn the_kernel_has_what_is_dumped_for_any_subject() {
    if !can_measure() {
        return;
    }
    let own = std::process::id().to_string();
    let parent = std::os::unix::process::parent_id().to_string();
    let thread = nix::unistd::gettid().to_string();
    let both = format!("{own},{parent}");
    for (attach, calls) in [("tracepoint", "read"), ("raw", "read,write")] {
        for subject in [
            &["-p", &both][..],
            &["--tid", &thread],
            &["--follow", &own],
            &["--comm", "a_long_name_yes"],
            &["--all"],
        ] {
            kernel_has_what_is_dumped(&[subject, &["--attach", attach, "-e", calls]].concat());
        }
    }
}

#[test]
fn the_kernel_has_what_is_dumped_for_a_control_group() {
    if !can_measure() {
        return;
    }
    // Of our own, which only this thread sees and what it starts.
    let folder = Folder::new("cgroup2");
    let none = None::<&str>;
    let mounted = unshare(CloneFlags::CLONE_NEWNS).and_then(|()| {
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        mount(Some("cgroup2"), &folder.0, Some("cgroup2"), MsFlags::empty(), none)
    });
    if let Err(errno) = mounted {
        requirements::skip(format!("no cgroup2 can be mounted here: {errno}"));
        return;
    }
    for attach in ["tracepoint", "raw"] {
        kernel_has_what_is_dumped(&["--cgroup", &folder.text(""), "--attach", attach]);
    }
    umount2(&folder.0, MntFlags::MNT_DETACH).unwrap();
}

#[test]
fn bytes_in_hex_and_in_c_are_those_of_the_object_file() {
    let own = std::process::id().to_string();
    let module = dumped_module(&[&own]);
    let expected: Vec<u8> = module
        .sections
        .iter()
        .flat_map(|section| encode(&section.insns, Endianness::NATIVE))
        .collect();
    let hex = String::from_utf8(dump(&["--as", "hex", &own])).unwrap();
    let bytes: Vec<u8> = hex
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    assert_eq!(bytes, expected);

    if !requirements::tool("cc", "Debian's package gcc") {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("dump.c"), folder.join("dump"));
    let names = ["rlat_read_enter", "rlat_read_exit", "rlat_thread_end"];
    let writes = names.map(|name| format!("fwrite({name}, 1, sizeof({name}), stdout);\n"));
    let c = String::from_utf8(dump(&["--as", "c", &own])).unwrap();
    let main =
        format!("#include <stdio.h>\n{c}int main(void) {{ {} return 0; }}\n", writes.concat());
    fs::write(&source, main).unwrap();
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .args([&program, &source])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{compiled:?}");
    assert_eq!(Command::new(&program).output().unwrap().stdout, expected);
}

#[test]
fn each_instruction_is_shown_with_its_slot_its_bytes_and_its_comment() {
    let own = std::process::id().to_string();
    let text = String::from_utf8(dump(&[&own, "-e", "read,write"])).unwrap();
    for line in [
        "map rlat_control: array, key 4, value 128, entries 1, flags 1024\n",
        "     0: bf 16 00 00 00 00 00 00  r6 = r1                              ; r6 = the context",
        "context: ret at offset ",
        "maps: rlat_control, rlat_slots, rlat_starts, rlat_cpus\n",
        "program rlat_write_exit: tracepoint/syscalls/sys_exit_write, ",
        "  call bpf_ktime_get_ns                ; ",
        "\nout:\n",
    ] {
        assert!(text.contains(line), "{line:?}: {text}");
    }
    assert_eq!(helper_number("bpf_ktime_get_ns"), Some(5));
}

#[test]
fn followed_and_filtered_programs_are_dumped_too() {
    let own = std::process::id().to_string();
    for arguments in [
        vec!["--follow", &own],
        vec!["--all", "-e", "@sync"],
        vec!["--comm", "nobody", "--linear", "0,100,10", "--ret", "error"],
        vec!["--cgroup", "/sys/fs/cgroup", "--unit", "ns"],
    ] {
        let arguments: Vec<&str> = arguments.into_iter().collect();
        let module = if arguments[0] == "--cgroup" && !is_cgroup2() {
            continue;
        } else {
            dumped_module(&arguments)
        };
        assert!(module.sections.len() >= 3, "{arguments:?}");
    }
    let command = Command::new(RLAT).args(["dump", "--", "true"]).output().unwrap();
    assert_eq!(command.status.code(), Some(2), "{command:?}");
}

fn is_cgroup2() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

#[test]
fn no_privilege_is_needed_and_the_usual_offsets_are_said_to_be_those() {
    if !requirements::tool("setpriv", "Debian's package util-linux") {
        return;
    }
    // The file itself may stand where nobody else may look.
    let copy = Path::new("/tmp").join(format!("rlat-dump-{}", std::process::id()));
    fs::copy(RLAT, &copy).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"])
        .arg(&copy)
        .args(["dump", "--all"])
        .output();
    fs::remove_file(&copy).unwrap();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("note: tracefs cannot be read (E"), "{text}");
    assert!(text.contains("context: the first argument at offset 16, 8 bytes"), "{text}");
}
