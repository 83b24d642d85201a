//! `rlat verify` as a user runs it: what it takes, and what its exit code says.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod requirements;

use std::path::{Path, PathBuf};
use std::process::Command;

const RLAT: &str = env!("CARGO_BIN_EXE_rlat");

/// Two programs, of which the second is refused, and a function that the first calls.
const TWO: &str = "\
.license \"GPL\"
.section socket
.func good
    call seven
    exit
.section xdp
.func bad
    exit ; no result
.section .text
.func seven
    r0 = 7
    exit
";

fn write(name: &str, content: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("verify");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    Said {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn verify(file: &Path, arguments: &[&str]) -> Said {
    said(Command::new(RLAT).arg("verify").arg(file).args(arguments))
}

#[test]
fn one_refused_program_makes_it_5_and_all_are_told_of() {
    if !requirements::bpf() {
        return;
    }
    let text = write("two.s", TWO);
    let object = text.with_extension("o");
    assert!(
        Command::new(RLAT).arg("asm").arg(&text).arg("-o").arg(&object).status().unwrap().success()
    );
    for file in [&text, &object] {
        let Said { code, stdout, stderr } = verify(file, &[]);
        assert_eq!(code, Some(5), "{stdout}{stderr}");
        assert!(
            stdout.starts_with("good (socket, type socket_filter): accepted\n  4 instr"),
            "{stdout}"
        );
        assert!(stdout.contains("\nbad (xdp, type xdp): refused, EACCES"), "{stdout}");
        assert!(!stdout.contains("seven ("), "{stdout}");
        // Lines are those of a text; comments go into the object file.
        let marked = stdout.lines().find(|line| line.starts_with("  > ")).unwrap();
        assert!(marked.ends_with("; no result"), "{stdout}");
        assert_eq!(marked.contains(" 8 "), file == &text, "{stdout}");
        assert!(stderr.is_empty(), "{stderr}");
        assert_eq!(verify(file, &["socket"]).code, Some(0));
        assert_eq!(verify(file, &["xdp"]).code, Some(5));
    }
}

#[test]
fn the_whole_log_has_our_comments_and_ends_with_its_numbers() {
    if !requirements::bpf() {
        return;
    }
    let file = write("whole.s", ".section socket\nr0 = 0 ; nothing at all\nexit\n");
    let Said { code, stdout, .. } = verify(&file, &["-v"]);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("; line 2: nothing at all\n"), "{stdout}");
    let last = stdout.lines().last().unwrap();
    assert!(last.starts_with("statistics: 2 instructions processed"), "{stdout}");
    assert!(!stdout.contains("\nprocessed "), "{stdout}");
}

#[test]
fn a_type_can_be_given_and_decides() {
    if !requirements::bpf() {
        return;
    }
    let file = write("typed.s", ".func f\nr0 = *(u64 *)(r1 + 64)\nr0 = 0\nexit\n");
    assert_eq!(verify(&file, &["--type", "tracepoint"]).code, Some(0));
    let refused = verify(&file, &["--type", "cgroup_device"]);
    assert_eq!(refused.code, Some(5), "{}", refused.stdout);
    assert!(refused.stdout.contains("bad context offset"), "{}", refused.stdout);
}

/// The kernel calls back only what is said to be a function, which is said here without anybody's help.
#[test]
fn callbacks_are_described_to_the_kernel() {
    if !requirements::bpf() {
        return;
    }
    let text = ".license \"GPL\"\n.section tp/a/b\n.func main\nr1 = 10\nr2 = subprog[again]\nr3 = 0\n\
                r4 = 0\ncall bpf_loop\nr0 = 0\nexit\n.section .text\n.func again\nr0 = 0\nexit\n";
    let Said { code, stdout, .. } = verify(&write("callback.s", text), &[]);
    if !stdout.contains("unknown func bpf_loop") {
        assert_eq!(code, Some(0), "{stdout}");
    }
}

#[test]
fn a_typed_raw_tracepoint_is_found_by_its_name() {
    if !requirements::bpf() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return;
    }
    let program = |name: &str, load: &str| {
        format!(
            ".license \"GPL\"\n.section tp_btf/{name}\nr2 = *(u64 *)(r1 + 0)\n{load}\nr0 = 0\nexit\n"
        )
    };
    let good = write("typed_raw.s", &program("sys_enter", "r2 = *(u64 *)(r2 + 8)"));
    let Said { code, stdout, stderr } = verify(&good, &[]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("(tp_btf/sys_enter, type tracing): accepted"), "{stdout}");
    let bad = write("typed_raw_write.s", &program("sys_enter", "*(u64 *)(r2 + 8) = 1"));
    let Said { code, stdout, .. } = verify(&bad, &[]);
    assert_eq!(code, Some(5), "{stdout}");
    assert!(stdout.contains("\n  what usually mends it: "), "{stdout}");
    let unknown = write("typed_raw_unknown.s", &program("no_such_tracepoint", "r2 = 0"));
    let Said { code, stderr, .. } = verify(&unknown, &[]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("has none of that name"), "{stderr}");
}

#[test]
fn what_is_no_program_to_ask_about_is_2() {
    let untyped = write("untyped.s", ".func f\nr0 = 0\nexit\n");
    let traced = write("traced.s", ".section fentry/do_unlinkat\nr0 = 0\nexit\n");
    let wrong = write("wrong.s", ".section socket\nr11 = 0\nexit\n");
    let foreign = write(
        "foreign.s",
        ".extern bpf_task_release\n.section tp/a/b\ncall bpf_task_release\nexit\n",
    );
    let empty = write("empty.s", "");
    let no_elf = write("cut.o", "\x7fELF");
    let missing = Path::new("/nowhere/p.s").to_owned();
    let cases: [(&Path, &[&str], &str); 9] = [
        (&untyped, &[], "section .text tells no type"),
        (&untyped, &["--type", "tracing"], "invalid value 'tracing'"),
        (&untyped, &["socket"], "no program is in section socket"),
        (&traced, &[], "what they will be attached to"),
        (&wrong, &[], "line 2, column 1"),
        (&foreign, &[], "bpf_task_release is extern"),
        (&empty, &[], "it has no programs"),
        (&no_elf, &[], "ELF file"),
        (&missing, &[], "ENOENT"),
    ];
    for (file, arguments, why) in cases {
        let Said { code, stdout, stderr } = verify(file, arguments);
        assert_eq!(code, Some(2), "{}: {stdout}{stderr}", file.display());
        assert!(stderr.contains(why), "{why}: {stderr}");
        assert!(stdout.is_empty(), "{stdout}");
    }
}

#[test]
fn without_the_privilege_it_is_3() {
    if !requirements::bpf() || !requirements::tool("setpriv", "util-linux") {
        return;
    }
    let file = write("plain.s", ".section tp/a/b\nr0 = 0\nexit\n");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", RLAT, "verify"]).arg(&file);
    let Said { code, stderr, .. } = said(&mut command);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("CAP_BPF"), "{stderr}");
}

#[test]
fn a_map_that_cannot_be_created_is_named() {
    if !requirements::bpf() {
        return;
    }
    let text = ".map m, type hash, key 0, value 8, entries 1\n.section socket\nr1 = map[m]\nr0 = 0\nexit\n";
    let Said { code, stderr, .. } = verify(&write("map.s", text), &[]);
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains("cannot create map m of type hash: EINVAL"), "{stderr}");
}
