//! What rlat says when it is refused something: by missing capabilities, by a seccomp filter, by the kernel.
//!
//! The kernel's own refusals are hard to come by, so a seccomp filter returns its error numbers. Each message
//! is a row of docs/errors.md.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod documented;
mod requirements;
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use documented::assert_documented;
use nix::errno::Errno;
use nix::unistd::geteuid;
use support::{Call, Folder, RLAT, TracefsCopy, can_measure, refused, rlat};

/// The options of a user without any privilege.
const NOBODY: [&str; 5] =
    ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--ambient-caps=-all"];

/// Has the command measure this process for a moment, and compares what it says with the row of what is
/// wrong.
fn compare(wrong: &str, command: &mut Command, options: &[&str]) {
    let own = std::process::id().to_string();
    let output = command.args(options).args(["-d", "1ms", &own]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_documented(wrong, output.status.code(), &said);
    // A result, or none at all.
    let result = String::from_utf8(output.stdout).unwrap();
    assert_eq!(result.starts_with("@calls: "), output.status.success(), "{wrong}: {result}");
}

/// A command that runs another one where a script has changed what is mounted, for it alone.
fn with_mounts(script: &str, inner: &Command) -> Command {
    let mut command = Command::new("unshare");
    let script = format!("set -e; {script}; exec \"$@\"");
    command.args(["--mount", "sh", "-c", &script, "sh"]).arg(inner.get_program());
    command.args(inner.get_args());
    command
}

/// Mounts tracefs where it is looked for first.
const MOUNT_TRACEFS: &str = "mount -t tracefs tracefs /sys/kernel/tracing";
/// No tracefs is to be seen.
const NO_TRACEFS: &str = "umount -a -t tracefs; umount /sys/kernel/debug 2>/dev/null || true";

fn is_root() -> bool {
    let tools = ["setpriv", "unshare"].map(|tool| requirements::tool(tool, "util-linux"));
    (geteuid().is_root() || requirements::skip("this takes root")) && tools == [true; 2]
}

/// Copies of rlat with capabilities, which anybody may run.
struct Capable(Folder);

impl Capable {
    /// The copy with these capabilities, run by a user who has none; `None` where files cannot have them.
    fn copy(&self, capabilities: &str) -> Option<Command> {
        let copy = self.0.path(capabilities);
        // Not by this process: a child that is forked meanwhile would have the copy open for writing.
        assert!(Command::new("cp").arg(RLAT).arg(&copy).status().unwrap().success());
        fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let mut setcap = Command::new("setcap");
        setcap.env("PATH", path).arg(format!("{capabilities}+ep")).arg(&copy);
        match setcap.stdout(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            other => {
                requirements::skip(format!("setcap did not work: {other:?}"));
                return None;
            }
        }
        let mut command = Command::new("setpriv");
        command.args(NOBODY).arg(copy);
        Some(command)
    }
}

fn capable() -> Capable {
    let folder = Folder::new("capable");
    fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o755)).unwrap();
    Capable(folder)
}

#[test]
fn who_is_not_root_is_told_what_is_missing() {
    if !can_measure() || !is_root() {
        return;
    }
    for (wrong, options) in [
        ("an unprivileged user", &[] as &[&str]),
        ("an unprivileged user, `--attach tracepoint`", &["--attach", "tracepoint"]),
    ] {
        let nobody = support::with_privileges(&NOBODY);
        // What is standard input here has to be so behind the mounts.
        let mut command = with_mounts(MOUNT_TRACEFS, &nobody);
        compare(wrong, command.stdin(fs::File::open(RLAT).unwrap()), options);
    }
    let mut root = support::with_privileges(&["--bounding-set=-all", "--inh-caps=-all"]);
    compare("root without capabilities", &mut root, &[]);
}

#[test]
fn root_of_a_user_namespace_is_told_that_this_is_not_enough() {
    if !can_measure() || !is_root() {
        return;
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", RLAT]);
        command
    };
    if !Command::new("unshare").args(["-Ur", "true"]).status().unwrap().success() {
        requirements::skip("user namespaces cannot be had");
        return;
    }
    compare("root of a user namespace", &mut unshare(), &[]);
    let mut command = with_mounts(NO_TRACEFS, &unshare());
    let options = ["--attach", "tracepoint"];
    compare("root of a user namespace, tracefs not mounted", &mut command, &options);
}

#[test]
fn each_missing_capability_is_named_and_the_smallest_set_works() {
    if !can_measure() || !is_root() {
        return;
    }
    let capable = capable();
    for (wrong, capabilities, options) in [
        ("CAP_BPF missing", "cap_perfmon,cap_dac_read_search", &[] as &[&str]),
        ("CAP_PERFMON missing", "cap_bpf,cap_dac_read_search", &[]),
        ("CAP_DAC_READ_SEARCH missing", "cap_bpf,cap_perfmon", &[]),
        (
            "CAP_DAC_READ_SEARCH missing, `--attach tracepoint`",
            "cap_bpf,cap_perfmon",
            &["--attach", "tracepoint"],
        ),
        (
            "CAP_DAC_READ_SEARCH missing, `--attach raw`",
            "cap_bpf,cap_perfmon",
            &["--attach", "raw"],
        ),
        (
            "the smallest set: CAP_BPF, CAP_PERFMON, CAP_DAC_READ_SEARCH",
            "cap_bpf,cap_perfmon,cap_dac_read_search",
            &["--attach", "tracepoint"],
        ),
    ] {
        let Some(command) = capable.copy(capabilities) else { return };
        compare(wrong, &mut with_mounts(MOUNT_TRACEFS, &command), options);
    }
    let smallest = "cap_bpf,cap_perfmon,cap_dac_read_search";
    for (wrong, options) in [
        ("tracefs not mounted, and CAP_SYS_ADMIN missing to mount it", &[] as &[&str]),
        (
            "tracefs not mounted, and CAP_SYS_ADMIN missing to mount it, `--attach tracepoint`",
            &["--attach", "tracepoint"],
        ),
    ] {
        let Some(command) = capable.copy(smallest) else { return };
        compare(wrong, &mut with_mounts(NO_TRACEFS, &command), options);
    }
}

/// Mainline takes 3 for 2; the kernels of Debian then refuse perf_event_open(2) with `EACCES`.
#[test]
fn a_paranoid_kernel_is_named() {
    if !can_measure() || !is_root() {
        return;
    }
    let folder = Folder::new("paranoid");
    let level = folder.text("level");
    fs::write(&level, "3\n").unwrap();
    let script =
        format!("{MOUNT_TRACEFS}; mount --bind {level} /proc/sys/kernel/perf_event_paranoid");
    let mut inner = support::behind_filter(&[(Call::PERF_EVENT_OPEN, Errno::EACCES)]);
    // Behind a filter a file's capabilities count for nothing; ambient ones stay.
    let capabilities = "-all,+bpf,+perfmon,+dac_read_search";
    let options = ["--inh-caps", "--ambient-caps"].map(|option| format!("{option}={capabilities}"));
    inner.arg("setpriv").args(&NOBODY[..3]).args(options).arg("/proc/self/fd/0");
    let mut command = with_mounts(&script, &inner);
    command.stdin(fs::File::open(RLAT).unwrap());
    compare("kernel.perf_event_paranoid is 3", &mut command, &["--attach", "tracepoint"]);
}

#[test]
fn a_seccomp_filter_is_named() {
    if !can_measure() {
        return;
    }
    let (bpf, perf) = (Call::BPF, Call::PERF_EVENT_OPEN);
    for (wrong, calls) in [
        ("seccomp refuses bpf(2) with EPERM", &[(bpf, Errno::EPERM)] as &[_]),
        ("seccomp refuses bpf(2) with ENOSYS", &[(bpf, Errno::ENOSYS)]),
        ("seccomp refuses perf_event_open(2) with EPERM", &[(perf, Errno::EPERM)]),
        ("seccomp refuses perf_event_open(2) with ENOSYS", &[(perf, Errno::ENOSYS)]),
        ("seccomp refuses both with EPERM", &[(bpf, Errno::EPERM), (perf, Errno::EPERM)]),
        ("seccomp refuses both with ENOSYS", &[(bpf, Errno::ENOSYS), (perf, Errno::ENOSYS)]),
    ] {
        compare(wrong, &mut refused(calls), &["--attach", "tracepoint"]);
    }
    let without_perf = [(perf, Errno::EPERM)];
    compare(
        "seccomp refuses perf_event_open(2), `--attach raw`",
        &mut refused(&without_perf),
        &["--attach", "raw"],
    );
    let without_pidfd = [(Call::PIDFD_OPEN, Errno::ENOSYS)];
    compare("pidfd_open(2) is refused", &mut refused(&without_pidfd), &[]);
}

#[test]
fn a_map_that_is_not_created_is_named_with_the_reason() {
    if !can_measure() {
        return;
    }
    for (wrong, errno) in [
        ("the kernel calls a map too large", Errno::E2BIG),
        ("the kernel has no memory for a map", Errno::ENOMEM),
        ("maps alone are refused", Errno::EPERM),
    ] {
        compare(wrong, &mut refused(&[(Call::MAP_CREATE, errno)]), &[]);
    }
}

#[test]
fn a_program_that_is_not_attached_is_named_with_the_reason() {
    if !can_measure() {
        return;
    }
    for (wrong, call, errno, way) in [
        ("no perf event: EEXIST", Call::PERF_EVENT_OPEN, Errno::EEXIST, "tracepoint"),
        ("no perf event: EINVAL", Call::PERF_EVENT_OPEN, Errno::EINVAL, "tracepoint"),
        ("no perf event: EACCES", Call::PERF_EVENT_OPEN, Errno::EACCES, "tracepoint"),
        (
            "the event takes no program: EEXIST",
            Call::PERF_EVENT_SET_BPF,
            Errno::EEXIST,
            "tracepoint",
        ),
        (
            "the event takes no program: EINVAL",
            Call::PERF_EVENT_SET_BPF,
            Errno::EINVAL,
            "tracepoint",
        ),
        (
            "the event takes no program: EACCES",
            Call::PERF_EVENT_SET_BPF,
            Errno::EACCES,
            "tracepoint",
        ),
        ("the event takes no program: E2BIG", Call::PERF_EVENT_SET_BPF, Errno::E2BIG, "tracepoint"),
        ("no raw tracepoint: EEXIST", Call::RAW_TRACEPOINT_OPEN, Errno::EEXIST, "raw"),
        ("no raw tracepoint: EINVAL", Call::RAW_TRACEPOINT_OPEN, Errno::EINVAL, "raw"),
        ("no raw tracepoint: EACCES", Call::RAW_TRACEPOINT_OPEN, Errno::EACCES, "raw"),
    ] {
        compare(wrong, &mut refused(&[(call, errno)]), &["--attach", way]);
    }
}

#[test]
fn tracefs_is_found_wherever_it_is_or_told_why_not() {
    if !can_measure() || !is_root() {
        return;
    }
    let folder = Folder::new("empty");
    let empty = folder.0.display();
    let elsewhere = format!("{NO_TRACEFS}; mount -t tracefs tracefs {empty}");
    let own = ["--attach", "tracepoint"];
    let without_mounting = |script: &str| {
        let mut inner = Command::new("setpriv");
        with_mounts(script, inner.args(["--bounding-set=-sys_admin", RLAT]))
    };
    compare("tracefs is mounted nowhere", &mut with_mounts(NO_TRACEFS, &rlat([])), &own);
    compare("tracefs is mounted elsewhere", &mut without_mounting(&elsewhere), &own);
    let empty_there = format!("{NO_TRACEFS}; mount -t tmpfs tmpfs /sys/kernel/tracing");
    compare(
        "an empty folder where tracefs should be",
        &mut with_mounts(&empty_there, &rlat([])),
        &own,
    );
    compare(
        "an empty folder where tracefs should be, and CAP_SYS_ADMIN missing to mount it",
        &mut without_mounting(&empty_there),
        &own,
    );
    let option = format!("--tracefs={empty}");
    compare("`--tracefs` names an empty folder", &mut rlat([]), &[&option]);
    let missing = format!("--tracefs={}", folder.path("missing").display());
    compare("`--tracefs` names no folder", &mut rlat([]), &[&missing]);
    let hidden = [(Call::FSOPEN, Errno::ENOSYS)];
    let mut command = with_mounts(NO_TRACEFS, &refused(&hidden));
    compare("tracefs is mounted nowhere, and seccomp hides fsopen(2)", &mut command, &own);
}

#[test]
fn a_tracepoint_that_is_missing_is_named() {
    if !can_measure() {
        return;
    }
    let own = ["--attach", "tracepoint"];
    let copy =
        TracefsCopy::with(&[("syscalls", "sys_enter_read"), ("sched", "sched_process_exit")]);
    compare("a tracepoint is missing", &mut rlat([&copy.option()]), &own);
    // A kernel without FTRACE_SYSCALLS has all the others.
    let copy = TracefsCopy::with(&[("sched", "sched_process_exit")]);
    compare("CONFIG_FTRACE_SYSCALLS is missing", &mut rlat([&copy.option()]), &[]);
    compare(
        "CONFIG_FTRACE_SYSCALLS is missing, `--attach tracepoint`",
        &mut rlat([&copy.option()]),
        &own,
    );
    let copy = TracefsCopy::whole();
    copy.rename_result();
    compare("a tracepoint lacks a field", &mut rlat([&copy.option()]), &own);
}
