//! `rlat list`: what the running kernel has, and what a folder has that looks like a tracefs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

const RLAT: &str = env!("CARGO_BIN_EXE_rlat");

/// A run that has ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(command: &mut Command) -> Ended {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

fn rlat<const N: usize>(args: [&str; N]) -> Ended {
    run(Command::new(RLAT).args(args))
}

/// What a list has in it, which has to be one.
fn listed<const N: usize>(args: [&str; N]) -> Vec<String> {
    let ended = rlat(args);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
    ended.stdout.lines().map(str::to_owned).collect()
}

/// Whether rlat can read a tracefs here. If not, the reason is printed.
fn can_list() -> bool {
    let tried = rlat(["list", "sched_process_exit"]);
    match tried.code {
        Some(3 | 4) => requirements::skip(tried.stderr.trim_end()),
        _ => true,
    }
}

/// What bpftrace lists, which needs a tracefs at the usual place: here only bpftrace sees it.
fn bpftrace(option: &str, probe: &str) -> Option<Vec<String>> {
    const SCRIPT: &str = "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; \
                          exec bpftrace \"$0\" \"$1\"";
    if !can_list() || !requirements::tool("bpftrace", "Debian's package bpftrace") {
        return None;
    }
    let ended = run(Command::new("unshare").args(["--mount", "sh", "-c", SCRIPT, option, probe]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    Some(ended.stdout.lines().map(str::to_owned).collect())
}

#[test]
fn it_lists_what_bpftrace_lists_in_the_order_of_their_names() {
    let Some(mut theirs) = bpftrace("-l", "tracepoint:*") else { return };
    theirs.sort();
    assert_eq!(listed(["list"]), theirs);
    assert_eq!(listed(["-l", "tracepoint:*:*"]), theirs);
}

#[test]
fn arguments_are_those_of_bpftrace_with_their_places() {
    for name in ["syscalls:sys_enter_read", "sched:sched_switch", "sched:sched_process_exec"] {
        let probe = format!("tracepoint:{name}");
        let Some(theirs) = bpftrace("-lv", &probe) else { return };
        let ours = listed(["-lv", &probe]);
        let declared: Vec<&str> = ours
            .iter()
            .map(|line| line.split_once(" offset ").map_or(line.as_str(), |(front, _)| front))
            .map(str::trim_end)
            .collect();
        assert_eq!(declared, theirs);
    }
}

#[test]
fn where_each_argument_is_follows_it() {
    if !can_list() {
        return;
    }
    let lines = listed(["list", "-v", "syscalls:sys_exit_read"]);
    assert_eq!(lines[0], "tracepoint:syscalls:sys_exit_read");
    let ret = lines.iter().find(|line| line.starts_with("    long ret ")).unwrap();
    assert!(ret.ends_with(", size 8"), "{ret}");
    let offset = ret.split("offset ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    assert!(offset.parse::<u32>().unwrap() >= 16, "{ret}");
    assert!(lines.iter().all(|line| !line.contains("common_")), "{lines:?}");
}

#[test]
fn a_glob_picks_from_the_list() {
    if !can_list() {
        return;
    }
    let both = ["tracepoint:syscalls:sys_enter_read", "tracepoint:syscalls:sys_exit_read"];
    for glob in ["tracepoint:syscalls:sys_*_read", "syscalls:sys_e[nx]*_read", "sys_e??*_read"] {
        assert_eq!(listed(["list", glob]), both, "{glob}");
    }
    for glob in ["t:syscalls:sys_enter_read", "sys_enter_rea[d]", "sys_enter_rea[!a-ce-z]"] {
        assert_eq!(listed(["-l", glob]), both[..1], "{glob}");
    }
}

#[test]
fn what_is_not_there_has_exit_code_4_and_near_names() {
    if !can_list() {
        return;
    }
    for (glob, near) in [
        ("tracepoint:syscalls:sys_enter_reed", "syscalls:sys_enter_read,"),
        ("sys_enter_openn", "sys_enter_openat"),
        ("sched_process_exitt*", "sched_process_exit"),
        ("sched", "sched:*"),
    ] {
        let ended = rlat(["list", glob]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""), "{ended:?}");
        let (cause, next) = ended.stderr.split_once("\n  next: ").unwrap();
        let begin = format!("rlat: cannot list tracepoint {glob}: there is none here; near: ");
        assert!(cause.starts_with(&begin), "{cause}");
        assert!(format!("{cause},").contains(near), "{cause}");
        assert!(next.contains("rlat list"), "{next}");
    }
}

#[test]
fn any_glob_is_taken_and_none_fills_the_screen() {
    if !can_list() {
        return;
    }
    let huge = |piece: &str| piece.repeat(100_000 / piece.len());
    for glob in [
        "[",
        "[]",
        "[!",
        "[^]",
        "[a-",
        "[[[",
        "]",
        "sys_enter_[read",
        ":",
        "::",
        "tracepoint:",
        "kprobe:vfs_read",
        "a b",
        "\u{1b}[31m",
        "\n",
        "%s",
        "..",
        "../../etc",
        "日本",
        &huge("["),
        &huge("*a"),
        &huge("?"),
        &huge("[]a"),
        &huge("x"),
        &huge("[z-a]"),
        &huge("é"),
    ] {
        let ended = rlat(["list", "--", glob]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""), "{glob:.20}: {ended:?}");
        assert!(ended.stderr.len() < 1000, "{}", ended.stderr);
        assert!(!ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
    }
    let everything = listed(["list"]);
    assert_eq!(listed(["list", &huge("*")]), everything);
}

#[test]
fn what_is_no_glob_is_a_matter_of_usage() {
    let ended = rlat(["list", ""]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.stderr.contains("it is empty"), "{ended:?}");
    let ended = run(Command::new(RLAT).arg("list").arg(OsStr::from_bytes(b"sys_\xff*")));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    assert_eq!(rlat(["list", "a", "b"]).code, Some(2));
}

#[test]
fn a_reader_that_leaves_ends_it_without_a_word() {
    if !can_list() {
        return;
    }
    let ended = run(Command::new("sh").args(["-c", "\"$0\" list | head -n 1", RLAT]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(ended.stdout.lines().count(), 1);
    // Also if it never read anything.
    let ended = run(Command::new("sh").args(["-c", "(sleep 0.3; \"$0\" list) | exec true", RLAT]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
}

#[test]
fn an_output_that_takes_nothing_is_told() {
    if !can_list() {
        return;
    }
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(RLAT).arg("list").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("rlat: cannot write the result to standard output: ENOSPC"), "{said}");
    assert!(said.lines().count() == 2, "{said}");
}

#[test]
fn without_privilege_permission_is_what_is_missing() {
    if !nix::unistd::geteuid().is_root() {
        assert!(matches!(rlat(["list"]).code, Some(0 | 3)));
        return;
    }
    if !requirements::tool("setpriv", "util-linux") {
        return;
    }
    // By way of a descriptor, since another user may not be able to come to where the file is.
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups", "/proc/self/fd/0", "list"]);
    let ended = run(command.stdin(File::open(RLAT).unwrap()));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(3), ""), "{ended:?}");
    assert!(ended.stderr.contains("\n  next: run as root"), "{ended:?}");
}

/// A folder that looks like a tracefs, with these files in `events`. It goes away when dropped.
struct Copy(PathBuf);

impl Copy {
    fn new(name: &str, files: &[(&str, &[u8])]) -> Self {
        let root = std::env::temp_dir().join(format!("rlat-test-{name}-{}", std::process::id()));
        for (file, content) in files {
            let path = root.join("events").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Self(root)
    }

    fn list(&self, options: &[&str]) -> Ended {
        run(Command::new(RLAT).arg("list").args(options).arg("--tracefs").arg(&self.0))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn where_arguments_cannot_be_told_it_says_why() {
    let without =
        b"name: b\nID: 2\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
    let copy = Copy::new(
        "malformed",
        &[
            ("c/a/id", b"1\n"),
            ("c/b/id", b"2\n"),
            ("c/b/format", without),
            ("c/d/id", b"3\n"),
            ("c/d/format", b"name: d\nID: 3\n\tfield:int \x1b[31mx;\toffset:y;\tsize:4;\n"),
            ("c/e/id", b"4\n"),
            ("c/e/format", b"name: e\nID: 4\n\tfield:char \x1b[31mx[LEN];\toffset:8;\tsize:4;\n"),
        ],
    );
    let ended = copy.list(&["-v"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 8, "{lines:#?}");
    assert_eq!(lines[0], "tracepoint:c:a");
    assert!(lines[1].starts_with("    (not known: ENOENT"), "{}", lines[1]);
    assert_eq!(lines[2..4], ["tracepoint:c:b", "    (no arguments)"]);
    assert_eq!(lines[4], "tracepoint:c:d");
    assert!(lines[5].starts_with("    (not known: the offset cannot be read"), "{}", lines[5]);
    assert_eq!(lines[6], "tracepoint:c:e");
    assert!(lines[7].starts_with(r"    char \u{1b}[31mx[LEN] "), "{}", lines[7]);
    assert!(lines[7].ends_with(" offset 8, size 4"), "{}", lines[7]);
    assert!(!ended.stdout.contains('\u{1b}'));
}

#[test]
fn names_that_a_terminal_could_obey_are_escaped() {
    let copy = Copy::new("escape", &[("c/\x1b[31mred/id", b"1\n"), ("c/two\nlines/id", b"2\n")]);
    let ended = copy.list(&[]);
    assert_eq!(ended.stdout, "tracepoint:c:\\u{1b}[31mred\ntracepoint:c:two\\nlines\n");
    let ended = copy.list(&["two"]);
    assert_eq!(ended.code, Some(4));
    assert!(ended.stderr.contains(r"near: two\nlines"), "{ended:?}");
}

#[test]
fn a_folder_without_tracepoints_lacks_something() {
    let copy = Copy::new("none", &[("ftrace/print/id", b"5\n")]);
    let ended = copy.list(&[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""), "{ended:?}");
    fs::remove_dir_all(copy.0.join("events")).unwrap();
    assert_eq!(copy.list(&[]).code, Some(4));
}
