//! The verifier's log of a refused program: no line is lost, and the instruction at fault is one.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nix::errno::Errno;
use rlat::insn::Program;
use rlat::latency::{Plan, Programs};
use rlat::loader::VerifierError;
use rlat::process::PidNamespace;

/// A program with 64-bit loads, so that slots and instructions differ, and with comments.
static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
    let plan = Plan {
        pid: 1234,
        namespace: PidNamespace::Initial,
        descriptor: Some(7),
        argument_offset: 16,
        result_offset: 16,
    };
    Programs::new(&plan).expect("any plan has programs").enter
});

fuzz_target!(|log: &[u8]| {
    let error = VerifierError::new(Errno::EACCES, &PROGRAM, log);
    assert_eq!(error.log.lines().count(), String::from_utf8_lossy(log).lines().count());
    assert!(!error.reason.is_empty());
    assert!(error.before.len() <= PROGRAM.insns().len());
    if let Some(fault) = &error.fault {
        assert!(PROGRAM.index_of_slot(fault.slot).is_some());
    }
    assert!(error.to_string().contains(&error.reason));
});
