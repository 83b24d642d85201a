//! The steps of a measurement, without the last one.

use crate::error::{Cause, Error, Kind, Result, Step};
use crate::insn::{Assembler, Helper, Reg};
use crate::latency::{Subject, Syscall, require_namespace_helper};
use crate::loader::sys::{ProgramType, perf_event_open_dummy};
use crate::loader::{load, refusal};
use crate::maps::{HashMap, MmapableArray, cpus};
use crate::process::Target;
use crate::tracefs::Tracefs;

/// The name of what is created on trial.
const TRIAL: &str = "rlat_trial";

/// Goes through what [`Measurement::attach`](crate::latency::Measurement::attach) goes through for a
/// process `own` that lives where this one does, in the same order, so that it fails where that would.
///
/// The perf event is not on a tracepoint: already to open one there makes the kernel do work for every
/// process that passes it.
pub(super) fn measurement(own: Result<Target>, tracefs: Result<Tracefs>) -> Result<()> {
    let (own, tracefs) = (own?, tracefs?);
    require_namespace_helper(&Subject::Processes(vec![own]))?;
    tracepoints(&tracefs)?;
    MmapableArray::create(TRIAL, 1, 1)?;
    HashMap::<u32, u64>::create(TRIAL, 1)?;
    cpus::possible_count()?;
    load_program()?;
    let cpu = cpus::first_online()?;
    perf_event_open_dummy(cpu)
        .map_err(|errno| refusal::of_bpf(errno, Step::Attach, "to a tracepoint"))?;
    Ok(())
}

/// Looks for the tracepoints of a measurement of read() calls, and returns their names.
pub(super) fn tracepoints(tracefs: &Tracefs) -> Result<Vec<String>> {
    let syscalls = Syscall::find_all(tracefs, &["read".to_owned()])?;
    tracefs.tracepoint_id("sched", "sched_process_exit")?;
    let mut names: Vec<String> = syscalls.iter().flat_map(Syscall::tracepoints).collect();
    names.push("sched:sched_process_exit".to_owned());
    Ok(names)
}

/// A program of the type that a measurement loads. The clock is what it may use only if its license
/// and this process's privileges are in order.
fn load_program() -> Result<()> {
    let mut asm = Assembler::new(TRIAL);
    asm.call(Helper::KtimeGetNs);
    asm.mov(Reg::R0, 0);
    asm.exit();
    let program = asm.finish().map_err(|error| Error {
        kind: Kind::Other,
        step: Step::Assemble,
        object: TRIAL.to_owned(),
        cause: Cause::Text(error.to_string()),
        next: "this is a bug in rlat: please report it".to_owned(),
    })?;
    load(&program, ProgramType::Tracepoint, &[]).map(drop)
}
