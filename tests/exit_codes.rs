//! Each kind of failure has its exit code, and a message that says which step failed, on what, why, and
//! what to do; and nothing that could be taken for a result is printed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod documented;
mod requirements;
mod support;

use std::fs;
use std::process::{Command, Output};

use documented::assert_documented;
use nix::errno::Errno;
use rlat::error::{Cause, Kind, Step};
use rlat::insn::{AluOp, Assembler, Helper, Insn, JumpOp, Reg, Size};
use rlat::loader::load;
use rlat::loader::sys::ProgramType;
use rlat::maps::HashMap;
use support::{Call, RLAT, Rlat, Workload, can_measure, refused, rlat, until};

/// Runs it to its end, which must be a failure with that exit code; returns what it says.
fn failure(command: &mut Command, code: i32) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{command:?}: {stderr}");
    assert_eq!(String::from_utf8(stdout).unwrap(), "", "{command:?}: {stderr}");
    stderr
}

/// The message of a failure in one of rlat's steps, which has to have all its parts.
fn message(command: &mut Command, code: i32, parts: &[&str]) -> String {
    let said = failure(command, code);
    for part in ["rlat: cannot ", "\n  next: "].iter().chain(parts) {
        assert!(said.contains(part), "there is no {part:?} in what {command:?} says: {said}");
    }
    said
}

#[test]
fn a_command_line_that_asks_for_what_cannot_be_is_a_matter_of_usage() {
    for (args, named) in [
        (&[] as &[&str], "<PID>"),
        (&["0"], "from 1 to 2147483647"),
        (&["-1"], "-1"),
        (&["2147483648"], "from 1 to 2147483647"),
        (&["99999999999999999999"], "99999999999999999999"),
        (&["abc"], "abc"),
        (&[""], "[PID]"),
        (&["1", "-1"], "-1"),
        (&["1", "--", "-1"], "[-- <CMD>...]"),
        (&["1", "abc"], "abc"),
        (&["1", "2147483648"], "2147483648"),
        (&["1", "2", "3"], "3"),
        (&["-d", "1"], "<PID>"),
        (&["-d", "5d", "1"], "5d"),
        (&["-d", "", "1"], "--duration"),
        (&["-d", "-5s", "1"], "-5"),
        (&["-d=-5s", "1"], "-5s"),
        (&["-d", "9999h", "1"], "at most 365 days"),
        (&["-d", "1", "-d", "2", "1"], "--duration"),
        (&["1", "-d"], "--duration"),
        (&["--tracefs"], "--tracefs"),
        (&["--frobnicate", "1"], "--frobnicate"),
    ] {
        let said = failure(Command::new(RLAT).args(args), 2);
        assert!(said.starts_with("error: "), "{args:?}: {said}");
        assert!(said.contains(named), "{args:?}: {named:?} is not named: {said}");
    }
}

#[test]
fn help_and_version_are_results() {
    for (option, part) in [("--help", "Exit codes:"), ("--version", env!("CARGO_PKG_VERSION"))] {
        let output = rlat([option]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8(output.stdout).unwrap().contains(part));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    }
}

#[test]
fn a_process_that_never_was_is_no_such_process() {
    // The largest number that an id can be written as; the kernel's own limit is far below.
    let said = message(&mut rlat(["2147483647"]), 6, &["measure process 2147483647: ESRCH"]);
    assert_documented("there is no such process", Some(6), &said);
}

#[test]
fn a_process_that_has_ended_is_no_such_process() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    until("it has ended", || {
        ::rlat::process::Stat::read(pid).is_ok_and(|stat| stat.has_ended()).then_some(())
    });
    let process = format!("measure process {pid}: ");
    // First nobody has taken its exit status yet; then it is gone for good.
    let said = message(&mut rlat([&pid.to_string()]), 6, &[&process, "already ended"]);
    assert_documented("the process is a zombie", Some(6), &said);
    child.wait().unwrap();
    let said = message(&mut rlat([&pid.to_string()]), 6, &[&process, "ESRCH"]);
    assert_documented("the process ended before", Some(6), &said);
}

#[test]
fn a_thread_of_the_kernel_makes_no_calls_to_measure() {
    // Process 2 starts all of them; in a container it is somebody else, if anybody.
    if !fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        requirements::skip("process 2 is not the one that starts the kernel's threads");
        return;
    }
    let said = message(&mut rlat(["2"]), 2, &["measure process 2: it is a thread of the kernel"]);
    assert_documented("it is a thread of the kernel", Some(2), &said);
}

/// Containers often have such filters, made before the call was.
#[test]
fn without_pidfd_open_the_end_of_the_process_still_ends_the_measurement() {
    if !can_measure() {
        return;
    }
    for errno in [Errno::EPERM, Errno::ENOSYS] {
        let mut target = Workload::start(["reads", "10", "1"]);
        let mut command = refused(&[(Call::PIDFD_OPEN, errno)]);
        command.args(["-v", "-d", "0", &target.pid.to_string()]);
        let rlat = Rlat::with_open_window(&mut command);
        target.carry_out();
        target.end();
        let report = rlat.result();
        assert_eq!(report.ledger.recorded, 10, "{report}");
    }
}

/// The comment on the instruction that is wrong: that is where a reader has to be led.
const HERE: &str = "here it goes wrong";

/// Has the verifier refuse a wrong program, and looks whether what is shown of that leads to the
/// instruction with the comment, and says why with that word of the verifier.
fn is_refused(why: &str, write: impl FnOnce(&mut Assembler)) {
    if !can_measure() {
        return;
    }
    let mut asm = Assembler::new("wrong");
    write(&mut asm);
    let program = asm.finish().unwrap();
    let at = (0..program.insns().len()).find(|at| program.comment(*at) == Some(HERE)).unwrap();
    let slot = program.slots().nth(at).unwrap();

    let map = HashMap::<u32, u64>::create("wrong_map", 1).unwrap();
    let maps = [("wrong_map", map.number())];
    let error = load(&program, ProgramType::Tracepoint, &maps).unwrap_err();
    let Cause::Verifier(refusal) = &error.cause else { panic!("{error}") };
    let all = format!("{error}\nthe whole log:\n{}", refusal.log);
    assert_eq!((error.kind, error.kind.exit_code(), error.step), (Kind::Rejected, 5, Step::Load));
    assert!(refusal.reason.contains(why), "{why:?} is not the reason of {all}");
    assert_eq!(refusal.fault.as_ref().map(|fault| fault.slot), Some(slot), "{all}");

    let shown = error.to_string();
    let begins = format!("cannot load program wrong: {}; the verifier says: ", refusal.errno);
    assert!(shown.starts_with(&begins), "{all}");
    assert!(shown.contains("\n  next: "), "{all}");
    let marked = shown.lines().find(|line| line.starts_with("  > ")).unwrap_or_default();
    assert!(marked.ends_with(HERE), "{marked:?} is marked in {all}");
}

#[test]
fn a_register_that_was_never_written() {
    is_refused("R3 !read_ok", |asm| {
        asm.load_imm64(Reg::R1, 1).comment("two slots, so that counting them matters");
        asm.mov(Reg::R0, Reg::R3).comment(HERE);
        asm.exit();
    });
}

#[test]
fn a_result_that_was_never_set() {
    is_refused("R0 !read_ok", |asm| asm.exit().comment(HERE));
}

#[test]
fn a_store_outside_of_the_stack() {
    is_refused("invalid write to stack", |asm| {
        asm.mov(Reg::R0, 0);
        asm.store(Size::DW, Reg::R10, -8, Reg::R0).comment("the first place that there is");
        asm.store(Size::DW, Reg::R10, 0, Reg::R0).comment(HERE);
        asm.exit();
    });
}

#[test]
fn a_map_value_that_may_be_missing() {
    is_refused("map_value_or_null", |asm| {
        asm.store(Size::W, Reg::R10, -4, 0);
        asm.load_map(Reg::R1, "wrong_map");
        asm.mov(Reg::R2, Reg::R10);
        asm.alu(AluOp::Add, Reg::R2, -4);
        asm.call(Helper::MapLookupElem);
        asm.load(Size::DW, Reg::R0, Reg::R0, 0).comment(HERE);
        asm.exit();
    });
}

#[test]
fn a_place_behind_the_context() {
    is_refused("invalid bpf_context access", |asm| {
        asm.load(Size::DW, Reg::R0, Reg::R1, 8192).comment(HERE);
        asm.exit();
    });
}

#[test]
fn a_path_that_only_one_branch_takes() {
    is_refused("R2 !read_ok", |asm| {
        let skip = asm.label("skip");
        asm.mov(Reg::R0, 0);
        asm.load(Size::DW, Reg::R1, Reg::R1, 8);
        asm.jump_if(JumpOp::Eq, Reg::R1, 0, skip);
        asm.mov(Reg::R2, 1);
        asm.bind(skip);
        asm.mov(Reg::R0, Reg::R2).comment(HERE);
        asm.exit();
    });
}

#[test]
fn an_instruction_that_no_path_leads_to() {
    is_refused("unreachable insn", |asm| {
        asm.load_imm64(Reg::R0, 0);
        asm.exit();
        asm.mov(Reg::R0, 0).comment(HERE);
        asm.exit();
    });
}

#[test]
fn a_loop_without_an_end() {
    is_refused("infinite loop detected", |asm| {
        let again = asm.label("again");
        asm.mov(Reg::R0, 0);
        asm.bind(again);
        asm.jump_if(JumpOp::Eq, Reg::R0, 0, again).comment(HERE);
        asm.exit();
    });
}

#[test]
fn a_helper_that_does_not_exist() {
    is_refused("invalid func", |asm| {
        asm.push(Insn::Call { helper: 9999 }).comment(HERE);
        asm.exit();
    });
}
