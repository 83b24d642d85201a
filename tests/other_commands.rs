//! What the commands beside the measurement say when they cannot do their work.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod documented;
mod requirements;
mod support;

use std::fs;
use std::process::{Command, Stdio};

use documented::assert_documented;
use support::{Folder, can_measure, rlat, unprivileged};

/// No process has such an id.
const NOBODY: &str = "2147483647";

fn compare(wrong: &str, command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_documented(wrong, output.status.code(), &String::from_utf8(output.stderr).unwrap());
}

#[test]
fn a_process_that_is_not_there_is_told_by_each_command() {
    compare("survey: no such process", &mut rlat(["survey", NOBODY]));
    compare("cost: no such process", &mut rlat(["cost", NOBODY]));
    compare("dump: no such process", &mut rlat(["dump", NOBODY]));
}

#[test]
fn a_missing_privilege_is_told_by_each_command() {
    if !can_measure() || !requirements::tool("setpriv", "util-linux") {
        return;
    }
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/verifier/missing_null_check.s");
    let own = std::process::id().to_string();
    for (wrong, args) in [
        ("survey: an unprivileged user", &["survey", "-d", "1ms", &own] as &[&str]),
        ("cost: an unprivileged user", &["cost", &own]),
        ("check: an unprivileged user", &["check"]),
        ("dump: an unprivileged user", &["dump", &own]),
    ] {
        // setpriv(1) keeps standard input, by which rlat is found.
        let output = unprivileged().remove(0).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_documented(wrong, output.status.code(), &said);
    }
    for (wrong, args) in [
        ("verify: an unprivileged user", &["verify", program] as &[&str]),
        ("list: an unprivileged user", &["list"]),
    ] {
        let mut command = unprivileged().remove(1);
        let output = command.args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_documented(wrong, output.status.code(), &said);
    }
}

#[test]
fn a_file_that_is_none_is_told_with_its_place() {
    let folder = Folder::new("files");
    let (missing, text, object) =
        (folder.text("missing"), folder.text("wrong.s"), folder.text("wrong.o"));
    fs::write(&text, ".section tracepoint/a/b\n.func main\n    r11 = 0\n").unwrap();
    fs::write(&object, "\u{7f}ELF, and no more").unwrap();
    compare("asm: the file is not there", &mut rlat(["asm", &missing, "-o", &object]));
    compare("asm: a mistake in the text", &mut rlat(["asm", &text, "-o", &object]));
    compare("disasm: no object file", &mut rlat(["disasm", &object]));
    compare("verify: the file is not there", &mut rlat(["verify", &missing]));
}

#[test]
fn what_is_not_there_to_be_traced_is_told() {
    if !can_measure() {
        return;
    }
    compare("list: nothing matches", &mut rlat(["list", "no_such_tracepoint"]));
    let own = std::process::id().to_string();
    compare("no such system call", &mut rlat(["-e", "raed", &own]));
    compare("a command that is not there", &mut rlat(["--", "/no/such/command"]));
    let output = rlat(["--cgroup", "/tmp/a\nb"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_documented("no such control group", output.status.code(), &said);
}
