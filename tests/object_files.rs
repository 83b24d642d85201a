//! Object files that we write, in the hands of those who read them for a living: LLVM, bpftool, libbpf.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod requirements;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rlat::insn::text;

const RLAT: &str = env!("CARGO_BIN_EXE_rlat");

/// Where the files of one test are.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("object_files_{test}"));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

fn stdout(command: &mut Command) -> String {
    String::from_utf8(run(command).stdout).unwrap()
}

/// An object file of everything that is measured of this process itself.
fn dumped(folder: &Path) -> PathBuf {
    let object = folder.join("rlat.o");
    let pid = std::process::id().to_string();
    run(Command::new(RLAT).args(["dump", "--as", "elf", &pid, "-o"]).arg(&object));
    object
}

#[test]
fn llvm_reads_sections_symbols_and_relocations() {
    if !requirements::tool("llvm-objdump", "Debian's package llvm") {
        return;
    }
    let object = dumped(&folder("llvm"));
    let sections = stdout(Command::new("llvm-readelf").args(["-S", "-W"]).arg(&object));
    for name in [
        "tracepoint/syscalls/sys_enter_read PROGBITS",
        "tracepoint/syscalls/sys_exit_read PROGBITS",
        "tracepoint/sched/sched_process_exit PROGBITS",
        ".maps ",
        "license ",
        ".BTF ",
        ".BTF.ext ",
    ] {
        assert!(sections.contains(name), "{name}: {sections}");
    }
    let symbols = stdout(Command::new("llvm-readelf").args(["-s", "-W"]).arg(&object));
    for symbol in ["FUNC    GLOBAL DEFAULT", "OBJECT  GLOBAL DEFAULT", "NOTYPE  LOCAL  DEFAULT"] {
        assert!(symbols.contains(symbol), "{symbol}: {symbols}");
    }
    let code = stdout(Command::new("llvm-objdump").args(["-d", "-r"]).arg(&object));
    assert!(code.contains("<rlat_read_enter>:"), "{code}");
    assert!(code.contains("R_BPF_64_64\trlat_starts"), "{code}");
    assert!(!code.contains("<unknown>"), "{code}");
}

/// Text, object, text; and the text of the one is that of the other.
#[test]
fn what_is_dumped_is_assembled_again_to_the_same_text() {
    let folder = folder("again");
    let object = dumped(&folder);
    let disassembled = stdout(Command::new(RLAT).arg("disasm").arg(&object));
    let (source, again) = (folder.join("again.s"), folder.join("again.o"));
    std::fs::write(&source, &disassembled).unwrap();
    run(Command::new(RLAT).arg("asm").arg(&source).arg("-o").arg(&again));
    assert_eq!(stdout(Command::new(RLAT).arg("disasm").arg(&again)), disassembled);
    let module = text::parse(&disassembled).unwrap().module;
    assert_eq!(text::write(&module), disassembled);
    assert!(disassembled.contains("; is the window open?"), "{disassembled}");
}

#[test]
fn bpftool_loads_it_and_shows_our_comments_as_source_lines() {
    if !requirements::bpf() || !requirements::tool("bpftool", "Debian's package bpftool") {
        return;
    }
    let object = dumped(&folder("bpftool"));
    let script = "mount -t bpf b /sys/fs/bpf && bpftool prog loadall \"$0\" /sys/fs/bpf/rlat && \
                  for name in enter exit; do \
                  bpftool prog dump xlated pinned /sys/fs/bpf/rlat/rlat_read_$name linum; done";
    let lines = stdout(Command::new("unshare").args(["-m", "sh", "-c", script]).arg(&object));
    assert!(lines.contains("int rlat_read_enter(void * ctx):"), "{lines}");
    let is_shown = |comment: &str| lines.contains(&format!("\n; {comment} [file:rlat line_num:"));
    for comment in ["is the window open?", "r8 = now", "r8 = how long it took"] {
        assert!(is_shown(comment), "{comment}: {lines}");
    }
    let types = stdout(Command::new("bpftool").args(["btf", "dump", "file"]).arg(&object));
    assert!(types.contains("FUNC 'rlat_read_exit'"), "{types}");
    assert!(types.contains("DATASEC '.maps'"), "{types}");
}

/// Loads the object named first, attaches all of its programs, opens the window, makes 100 calls of
/// read(), and prints how many entered and how many were recorded.
const WITH_LIBBPF: &str = r#"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what) { perror(what); return 1; }

int main(int argc, char **argv)
{
	char command[4096];
	snprintf(command, sizeof(command), "\"%s\" dump --as elf -o \"%s\" %d", argv[2], argv[1], getpid());
	if (argc != 3 || system(command) != 0)
		return fail("dump");
	struct bpf_object *object = bpf_object__open_file(argv[1], NULL);
	if (!object || bpf_object__load(object))
		return fail("load");
	struct bpf_program *program;
	bpf_object__for_each_program(program, object) {
		if (!bpf_program__attach(program))
			return fail(bpf_program__name(program));
	}
	struct bpf_map *control = NULL, *slots = NULL, *map;
	bpf_object__for_each_map(map, object) {
		if (strstr(bpf_map__name(map), "control"))
			control = map;
		if (strstr(bpf_map__name(map), "slots"))
			slots = map;
	}
	struct bpf_map *regions = bpf_object__find_map_by_name(object, "rlat_cpus");
	if (!control || !slots || !regions)
		return fail("maps");
	int zero = open("/dev/zero", O_RDONLY);
	unsigned key = 0;
	unsigned long long window[16] = { 1 };
	if (sizeof(window) != bpf_map__value_size(control))
		return fail("size");
	char byte;
	if (bpf_map_update_elem(bpf_map__fd(control), &key, window, 0))
		return fail("open");
	for (int i = 0; i < 100; i++)
		if (read(zero, &byte, 1) != 1)
			return fail("read");
	/* The words behind it are in use by the programs. */
	if (bpf_map_lookup_elem(bpf_map__fd(control), &key, window))
		return fail("lookup");
	window[0] = 0;
	if (bpf_map_update_elem(bpf_map__fd(control), &key, window, 0))
		return fail("close");
	unsigned long long entered = 0, recorded = 0;
	unsigned long long *words = calloc(1, bpf_map__value_size(regions));
	for (key = 0; key < bpf_map__max_entries(regions); key++) {
		if (bpf_map_lookup_elem(bpf_map__fd(regions), &key, words))
			return fail("lookup");
		entered += words[0];
		/* The buckets. */
		for (int word = 192; word < 192 + 1920; word++)
			recorded += words[word];
	}
	/* The thread that reads has counted its entries itself, in the slot that it owns. */
	size_t bytes = bpf_map__value_size(slots);
	words = calloc(1, bytes);
	key = 0;
	if (bpf_map_lookup_elem(bpf_map__fd(slots), &key, words))
		return fail("lookup");
	for (size_t slot = 0; slot < bytes / 64; slot++)
		entered += words[slot * 8 + 6];
	printf("entered %llu, recorded %llu\n", entered, recorded);
	return 0;
}
"#;

fn compiled_with_libbpf(folder: &Path) -> Option<PathBuf> {
    if !requirements::tool("cc", "Debian's package gcc") {
        return None;
    }
    let (source, program) = (folder.join("count.c"), folder.join("count"));
    std::fs::write(&source, WITH_LIBBPF).unwrap();
    let output =
        Command::new("cc").arg(&source).args(["-lbpf", "-o"]).arg(&program).output().unwrap();
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(why.contains("bpf/bpf.h") || why.contains("-lbpf"), "{why}");
        requirements::skip(
            "there is no libbpf to compile with: install Debian's package libbpf-dev",
        );
        return None;
    }
    Some(program)
}

#[test]
fn libbpf_loads_and_attaches_it_and_it_counts() {
    if !requirements::bpf() {
        return;
    }
    let folder = folder("libbpf");
    let Some(program) = compiled_with_libbpf(&folder) else { return };
    let script = "mount -t tracefs t /sys/kernel/tracing && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(program).arg(folder.join("own.o")).arg(RLAT);
    assert_eq!(stdout(&mut command), "entered 100, recorded 100\n");
}

/// `rlat asm` has its own comments, license and maps; libbpf and the kernel take them.
#[test]
fn bpftool_loads_what_was_written_by_hand() {
    if !requirements::bpf() || !requirements::tool("bpftool", "Debian's package bpftool") {
        return;
    }
    let folder = folder("by_hand");
    let (source, object) = (folder.join("hand.s"), folder.join("hand.o"));
    let text = "\
.license \"GPL\"
.map counts, type percpu_array, key 4, value 8, entries 2
.map seen, type lru_hash, key 8, value 20, entries 100
.section raw_tp/sys_enter
.func count
    *(u32 *)(r10 - 4) = 0
    r1 = map[counts]
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto out ; never
    call add_one ; a function of our own
    r1 = map[seen]
out:
    r0 = 0
    exit
.section .text
.func add_one
    r1 = *(u64 *)(r0 + 0) ; would be an error: r0 is not an argument
    exit
";
    // The first form is refused by the verifier, with our line in its log.
    std::fs::write(&source, text).unwrap();
    run(Command::new(RLAT).arg("asm").arg(&source).arg("-o").arg(&object));
    let script = "mount -t bpf b /sys/fs/bpf && bpftool prog loadall \"$0\" /sys/fs/bpf/hand && \
                  bpftool prog dump xlated pinned /sys/fs/bpf/hand/count linum";
    let mut load = Command::new("unshare");
    load.args(["-m", "sh", "-c", script]).arg(&object);
    let refused = load.output().unwrap();
    assert!(!refused.status.success());
    let log = String::from_utf8_lossy(&refused.stderr);
    assert!(log.contains("; would be an error: r0 is not an argument"), "{log}");
    assert!(log.contains("R0 !read_ok"), "{log}");

    let mended = text.replace("call add_one", "r1 = r0\n    call add_one").replace(
        "r1 = *(u64 *)(r0 + 0) ; would be an error: r0 is not an argument",
        "r2 = 1\n    lock *(u64 *)(r1 + 0) += r2 ; one more\n    r0 = 0",
    );
    std::fs::write(&source, mended).unwrap();
    run(Command::new(RLAT).arg("asm").arg(&source).arg("-o").arg(&object));
    let lines = stdout(&mut load);
    assert!(lines.contains("; a function of our own"), "{lines}");
    assert!(lines.contains("; one more"), "{lines}");
}

/// libbpf takes the address of a function only as a distance in its section, and a compiler's sections of
/// variables by their own names.
#[test]
fn bpftool_loads_callbacks_and_sections_of_variables() {
    if !requirements::bpf() || !requirements::tool("bpftool", "Debian's package bpftool") {
        return;
    }
    let folder = folder("callback");
    let (source, object) = (folder.join("callback.s"), folder.join("callback.o"));
    let text = "\
.license \"GPL\"
.map .bss, type array, key 4, value 8, entries 1, flags 1024
.map .rodata, type array, key 4, value 4, entries 1, flags 1152
.map .data, type array, key 4, value 16, entries 1, flags 1024

.section tracepoint/syscalls/sys_enter_read
.func main
    r2 = subprog[again]
    r7 = map[.rodata][0]+0
    r7 = *(u32 *)(r7 + 0)
    r1 = 10
    r6 = map[.data][0]+8
    r3 = 0
    r4 = 0
    call bpf_loop
    call other
    r0 = 0
    exit

.section .text
.func other
    r0 = map[.bss][0]+0
    r0 = *(u64 *)(r0 + 0)
    exit
.func again
    r0 = 0
    exit
";
    std::fs::write(&source, text).unwrap();
    run(Command::new(RLAT).arg("asm").arg(&source).arg("-o").arg(&object));
    assert_eq!(stdout(Command::new(RLAT).arg("disasm").arg(&object)), text);
    let script = "mount -t bpf b /sys/fs/bpf && bpftool prog loadall \"$0\" /sys/fs/bpf/callback && \
                  bpftool prog dump xlated pinned /sys/fs/bpf/callback/main";
    let lines = stdout(Command::new("unshare").args(["-m", "sh", "-c", script]).arg(&object));
    assert!(lines.contains("int again(void * ctx):"), "{lines}");
    assert!(lines.contains("int other(void * ctx):"), "{lines}");

    // Programs must not change constants, and the map of them says so.
    std::fs::write(&source, text.replace("flags 1152", "flags 1024")).unwrap();
    let refused = Command::new(RLAT).arg("asm").arg(&source).arg("-o").arg(&object).output();
    let said = String::from_utf8(refused.unwrap().stderr).unwrap();
    assert!(
        said.contains("map .rodata has the name of a section of variables, so it must be"),
        "{said}"
    );
}

#[test]
fn the_example_in_the_readme_comes_back_as_it_is() {
    let readme = include_str!("../README.md");
    let (_, example) = readme.split_once("$ cat count.s\n").unwrap();
    let (example, _) = example.split_once("$ rlat asm").unwrap();
    assert_eq!(text::write(&text::parse(example).unwrap().module), example);
}

#[test]
fn what_is_wrong_with_a_file_is_said_and_exit_code_2() {
    let folder = folder("wrong");
    let file = folder.join("wrong");
    let refused = |command: &str, content: &[u8]| {
        std::fs::write(&file, content).unwrap();
        let mut rlat = Command::new(RLAT);
        rlat.arg(command).arg(&file);
        if command == "asm" {
            rlat.arg("-o").arg(folder.join("wrong.o"));
        }
        let output = rlat.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused("asm", b".section a\n  r0 = r11 ; no\n");
    assert!(said.contains("line 2, column 8: expected a register"), "{said}");
    assert!(said.contains("\n  2 |   r0 = r11 ; no\n    |        ^^^\n"), "{said}");
    assert!(refused("asm", b"r0 = 0\n\xff\n").contains("line 2 is no UTF-8"));
    assert!(!folder.join("wrong.o").exists());
    assert!(refused("disasm", b"").contains("it is empty"));
    assert!(refused("disasm", b"x").contains("it is no ELF file"));
    let own = std::fs::read("/proc/self/exe").unwrap();
    assert!(refused("disasm", &own).contains("and that of BPF is 247"));
    let object = std::fs::read(dumped(&folder)).unwrap();
    for length in [1, 63, 64, 200, object.len() / 2, object.len() - 1] {
        assert!(refused("disasm", &object[..length]).starts_with("rlat: cannot disassemble"));
    }
    let missing = Command::new(RLAT).args(["disasm", "/no/such/file"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    std::fs::write(&file, &object).unwrap();
    let unknown = Command::new(RLAT).arg("disasm").arg(&file).arg("xdp").output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("tracepoint/syscalls/sys_enter_read, ")
    );
    let one = stdout(
        Command::new(RLAT).arg("disasm").arg(&file).arg("tracepoint/sched/sched_process_exit"),
    );
    assert!(one.contains(".func rlat_thread_end") && !one.contains("rlat_read_enter"), "{one}");
}

#[test]
fn a_program_of_a_hundred_thousand_instructions_comes_through() {
    let folder = folder("large");
    let (source, object) = (folder.join("large.s"), folder.join("large.o"));
    let mut text = ".section socket\n.func large\n".to_owned();
    for index in 0..33_333 {
        let lines = format!(
            "label_{index}:\n    r0 = {index} ll\n    gotol label_{index}\n    r1 = {index} ; comment {index}\n"
        );
        text += &lines;
    }
    text.push_str("    exit\n");
    std::fs::write(&source, &text).unwrap();
    run(Command::new(RLAT).arg("asm").arg(&source).arg("-o").arg(&object));
    let back = stdout(Command::new(RLAT).arg("disasm").arg(&object));
    let module = |text: &str| text::parse(text).unwrap().module;
    assert!(module(&back) == module(&text));
}
