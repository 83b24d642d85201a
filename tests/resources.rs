//! Too little of something: descriptors, memory, room for a log.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod documented;
mod requirements;
mod support;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use documented::assert_documented;
use support::{Folder, RLAT, can_measure, rlat};

fn own_pid() -> String {
    std::process::id().to_string()
}

/// Runs it where no descriptor may have that number or a higher one.
fn with_descriptors(limit: u32, args: &[&str]) -> Output {
    let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
    Command::new("sh").args(["-c", &script, RLAT]).args(args).output().unwrap()
}

#[test]
fn too_few_descriptors_are_named_wherever_they_run_out() {
    /// The dynamic loader takes one, beside the three that are open.
    const FEWEST: u32 = 5;
    /// As the messages say.
    const ENOUGH: u32 = 64;
    if !can_measure() {
        return;
    }
    let own = own_pid();
    let commands: [&[&str]; 4] = [
        &["-d", "1ms", &own],
        &["--attach", "raw", "-d", "1ms", &own],
        &["survey", "-d", "1ms", &own],
        &["--follow", "--", "true"],
    ];
    for args in commands {
        let mut failures = 0;
        for limit in FEWEST..=ENOUGH {
            let Output { status, stderr, .. } = with_descriptors(limit, args);
            let said = String::from_utf8(stderr).unwrap();
            if status.success() {
                assert!(limit > 8, "{args:?}: {limit}");
                break;
            }
            assert_documented("too few descriptors (`ulimit -n 8`)", status.code(), &said);
            failures += 1;
        }
        assert!((4..ENOUGH - FEWEST).contains(&failures), "{args:?}: {failures}");
    }
}

/// A control group whose memory is limited, as a container's is.
struct LimitedMemory(PathBuf);

impl LimitedMemory {
    /// `None` where there is no such control group to be had, for a reason that is printed.
    fn new(bytes: u64) -> Option<Self> {
        let name = format!("rlat-test-{}", std::process::id());
        let (group, file) = [("memory", "memory.limit_in_bytes"), ("", "memory.max")]
            .map(|(hierarchy, file)| (Path::new("/sys/fs/cgroup").join(hierarchy), file))
            .into_iter()
            .find(|(hierarchy, _)| hierarchy.join("cgroup.procs").exists())
            .map(|(hierarchy, file)| (hierarchy.join(&name), file))?;
        if let Err(error) = fs::create_dir(&group) {
            requirements::skip(format!("no control group can be made: {error}"));
            return None;
        }
        let group = Self(group);
        if let Err(error) = fs::write(group.0.join(file), bytes.to_string()) {
            requirements::skip(format!("the memory of a control group cannot be limited: {error}"));
            return None;
        }
        Some(group)
    }
}

impl Drop for LimitedMemory {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn too_little_memory_for_maps_is_named() {
    /// Enough for rlat itself, and far too little for the starts of 131,072 threads.
    const LIMIT: u64 = 3 << 20;
    if !can_measure() {
        return;
    }
    let Some(group) = LimitedMemory::new(LIMIT) else { return };
    let script = "echo $$ >\"$1/cgroup.procs\" && shift && exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, RLAT]).arg(&group.0);
    let args = ["--starts", "131072", "-d", "1ms", &own_pid()];
    let Output { status, stderr, .. } = command.args(args).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_documented("a memory limit too small for the maps", status.code(), &said);
}

#[test]
fn a_log_that_is_too_long_keeps_what_matters() {
    /// Each makes two lines, which are more than 16 MiB together.
    const ROUNDS: u32 = 180_000;
    if !can_measure() {
        return;
    }
    let folder = Folder::new("long-log");
    let file = folder.text("long.s");
    let mut text = ".license \"GPL\"\n.section tracepoint/syscalls/sys_enter_read\n".to_owned();
    write!(
        text,
        ".func main\nr1 = 0\nagain:\nr1 += 1\nif r1 < {ROUNDS} goto again\nr0 = r5\nexit\n"
    )
    .unwrap();
    fs::write(&file, text).unwrap();
    let output = rlat(["verify", "-v", &file]).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    for line in [
        "(here lines are missing: the log is larger than any buffer for it)",
        "  the verifier says: R5 !read_ok",
        "  >    8     3  r0 = r5",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} in {} bytes", shown.len());
    }
    // It is a result, and not a failure of rlat.
    assert_documented("the verifier's log is too large", output.status.code(), &shown);
}
