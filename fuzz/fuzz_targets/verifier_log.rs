//! The verifier's log of a refused program: no line is lost, and the instruction at fault is one.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nix::errno::Errno;
use rlat::insn::{Assembler, Helper, Program, Reg};
use rlat::verifier::{LineKind, LogLine, VerifierError};

/// A program with 64-bit loads, so that slots and instructions differ, and with comments.
static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
    let mut asm = Assembler::new("example");
    let out = asm.label("out");
    asm.load_map(Reg::R1, "map").comment("a load of two slots");
    asm.call(Helper::KtimeGetNs).comment("a call");
    asm.load_imm64(Reg::R2, u64::MAX);
    asm.jump(out);
    asm.bind(out);
    asm.mov(Reg::R0, 0).comment("the last but one");
    asm.exit();
    asm.finish().expect("its only label is bound")
});

fuzz_target!(|log: &[u8]| {
    let error = VerifierError::new(Errno::EACCES, &PROGRAM, log);
    // All lines but the statistics, which become one.
    let text = String::from_utf8_lossy(log);
    let statistics = |line: &&str| LogLine::read(line).kind == LineKind::Statistics;
    let numbers = text.lines().filter(statistics).count();
    let summary = usize::from(error.statistics.is_some());
    assert_eq!(error.log.lines().count() + numbers, text.lines().count() + summary);
    assert!(!error.reason.is_empty());
    assert!(error.before.len() <= PROGRAM.insns().len());
    if let Some(fault) = &error.fault {
        assert!(PROGRAM.index_of_slot(fault.slot).is_some());
    }
    assert!(error.to_string().contains(&error.reason));
});
