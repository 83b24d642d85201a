//! The log of each kernel's verifier leads to the instruction at fault.
//!
//! Programs that are wrong in one way each. The instruction is named by its comment, which the message must
//! show: kernels differ in their words, and in which of them a privileged program may do by now.

use rlat::error::{Cause, Kind};
use rlat::insn::Reg::{R0, R1, R2, R3, R6, R10};
use rlat::insn::{AluOp, Assembler, Helper, Insn, JumpOp, Program, Size};
use rlat::loader::load;
use rlat::loader::sys::ProgramType;
use rlat::maps::Array;

use crate::requirements;

/// The comment of the instruction at fault.
const HERE: &str = "here";

/// What newer kernels make of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum May {
    /// It is wrong on every kernel.
    Never,
    /// Some kernels accept it.
    BeAccepted,
}

struct Wrong {
    program: Program,
    may: May,
}

fn wrong(name: &str, may: May, emit: impl FnOnce(&mut Assembler)) -> Wrong {
    let mut asm = Assembler::new(name);
    emit(&mut asm);
    Wrong { program: asm.finish().unwrap(), may }
}

fn return_0(asm: &mut Assembler) {
    asm.mov(R0, 0);
    asm.exit();
}

/// r0 = the address of the array's first value, or null.
fn look_up(asm: &mut Assembler) {
    asm.store(Size::W, R10, -4, 0).comment("key 0");
    asm.load_map(R1, "array");
    asm.mov(R2, R10);
    asm.alu(AluOp::Add, R2, -4);
    asm.call(Helper::MapLookupElem);
}

/// The same, and it is not null.
fn look_up_surely(asm: &mut Assembler, then: impl FnOnce(&mut Assembler)) {
    let out = asm.label("out");
    look_up(asm);
    asm.jump_if(JumpOp::Eq, R0, 0, out);
    then(asm);
    asm.bind(out);
    return_0(asm);
}

fn registers_and_stack() -> Vec<Wrong> {
    use May::{BeAccepted, Never};
    vec![
        wrong("unset", Never, |asm| {
            asm.mov(R0, R2).comment(HERE);
            asm.exit();
        }),
        wrong("unset_stack", BeAccepted, |asm| {
            asm.load(Size::DW, R0, R10, -8).comment(HERE);
            asm.exit();
        }),
        wrong("below_stack", Never, |asm| {
            asm.mov(R1, 1);
            asm.store(Size::DW, R10, -520, R1).comment(HERE);
            return_0(asm);
        }),
        wrong("misaligned", Never, |asm| {
            asm.mov(R1, 1);
            asm.store(Size::DW, R10, -9, R1).comment(HERE);
            return_0(asm);
        }),
        wrong("context_write", Never, |asm| {
            asm.store(Size::DW, R1, 8, 0).comment(HERE);
            return_0(asm);
        }),
        wrong("frame_pointer", Never, |asm| {
            asm.mov(R10, 0).comment(HERE);
            return_0(asm);
        }),
        wrong("no_result", Never, |asm| {
            asm.exit().comment(HERE);
        }),
        wrong("no_result_there", Never, |asm| {
            let there = asm.label("there");
            asm.load(Size::DW, R1, R1, 8);
            asm.jump_if(JumpOp::Eq, R1, 3, there);
            return_0(asm);
            asm.bind(there);
            asm.mov(R2, 0);
            asm.exit().comment(HERE);
        }),
        wrong("no_address", Never, |asm| {
            asm.mov(R1, 4096);
            asm.load(Size::DW, R0, R1, 0).comment(HERE);
            asm.exit();
        }),
        wrong("times_pointer", Never, |asm| {
            asm.alu(AluOp::Mul, R1, 2).comment(HERE);
            return_0(asm);
        }),
        wrong("by_zero", Never, |asm| {
            asm.mov(R0, 1);
            asm.alu(AluOp::Div, R0, 0).comment(HERE);
            asm.exit();
        }),
        wrong("shift", Never, |asm| {
            asm.mov(R0, 1);
            asm.alu(AluOp::Lsh, R0, 64).comment(HERE);
            asm.exit();
        }),
    ]
}

fn ways_calls_and_maps() -> Vec<Wrong> {
    use May::{BeAccepted, Never};
    vec![
        wrong("unreachable", Never, |asm| {
            return_0(asm);
            asm.mov(R0, 1).comment(HERE);
            asm.exit();
        }),
        wrong("jump_out", Never, |asm| {
            asm.push(Insn::Jump { off: 9 }).comment(HERE);
            return_0(asm);
        }),
        wrong("other_helper", Never, |asm| {
            asm.mov(R1, 0);
            // bpf_csum_diff is for programs that see packets.
            asm.push(Insn::Call { helper: 28 }).comment(HERE);
            return_0(asm);
        }),
        wrong("no_helper", Never, |asm| {
            asm.push(Insn::Call { helper: 9999 }).comment(HERE);
            return_0(asm);
        }),
        wrong("no_map", Never, |asm| {
            asm.mov(R1, 5);
            asm.mov(R2, R10);
            asm.call(Helper::MapLookupElem).comment(HERE);
            return_0(asm);
        }),
        wrong("unset_key", BeAccepted, |asm| {
            asm.load_map(R1, "array");
            asm.mov(R2, R10);
            asm.alu(AluOp::Add, R2, -4);
            asm.call(Helper::MapLookupElem).comment(HERE);
            return_0(asm);
        }),
        wrong("behind_value", Never, |asm| {
            look_up_surely(asm, |asm| {
                asm.load(Size::DW, R1, R0, 8).comment(HERE);
            });
        }),
        wrong("any_index", Never, |asm| {
            asm.load(Size::DW, R6, R1, 8).comment("any number");
            look_up_surely(asm, |asm| {
                asm.alu(AluOp::Add, R0, R6).comment(HERE);
                asm.load(Size::DW, R3, R0, 0).comment("which may be anywhere");
            });
        }),
    ]
}

#[test]
fn its_log_leads_to_the_instruction_at_fault() {
    if !requirements::bpf() {
        return;
    }
    let array = Array::<u64>::create("array", 1).unwrap();
    let maps = [("array", array.number())];
    for Wrong { program, may } in registers_and_stack().into_iter().chain(ways_calls_and_maps()) {
        let name = program.name().to_owned();
        let Err(error) = load(&program, ProgramType::Tracepoint, &maps) else {
            assert!(may == May::BeAccepted, "{name} was accepted");
            continue;
        };
        assert_eq!(error.kind, Kind::Rejected, "{name}: {error}");
        let Cause::Verifier(verifier) = &error.cause else { panic!("{name}: {error}") };
        let fault = verifier.fault.as_ref();
        let shown = fault.is_some_and(|fault| fault.comment.as_deref() == Some(HERE));
        assert!(shown, "{name}: {fault:?} in\n{}", verifier.log);
        assert!(!verifier.reason.starts_with("its log"), "{name}:\n{}", verifier.log);
    }
}

/// A log of each of our own programs, which `rlat -v` shows.
#[test]
fn the_log_of_a_measurement_is_shown_with_comments() {
    if !crate::support::can_measure() {
        return;
    }
    for attach in ["--attach=tracepoint", "--attach=raw"] {
        let own = std::process::id().to_string();
        let output = crate::support::rlat(["-v", "-d", "1ms", attach, &own]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("\nthe verifier on rlat_thread_end:\n"), "{said}");
        let commented = said.lines().filter(|line| line.contains(": (") && line.contains(" ; "));
        assert!(commented.count() > 20, "{said}");
        assert!(said.contains("\nstatistics: "), "{said}");
    }
}
