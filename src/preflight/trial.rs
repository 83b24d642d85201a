//! The steps of a measurement, without the last one.

use std::path::Path;

use crate::error::{Cause, Error, Kind, Result, Step};
use crate::insn::{Assembler, Helper, Reg};
use crate::latency::{
    AttachChoice, Needs, Subject, Syscall, Way, choose, require_namespace_helper,
};
use crate::loader::sys::{ProgramType, perf_event_open_dummy};
use crate::loader::{Answer, Feature, load, probe, refusal};
use crate::maps::{HashMap, MmapableArray, cpus};
use crate::process::Target;
use crate::tracefs::Tracefs;

/// The name of what is created on trial.
const TRIAL: &str = "rlat_trial";

/// Goes through what a measurement of read() calls goes through for a process `own` that lives where this
/// one does, in the same order, so that it fails where that would.
///
/// The perf event is not on a tracepoint: already to open one there makes the kernel do work for every
/// process that passes it.
pub(super) fn measurement(own: Result<Target>, tracefs: Option<&Path>) -> Result<()> {
    require_namespace_helper(&Subject::Processes(vec![own?]))?;
    let syscalls = ["read".to_owned()];
    let needs = Needs { tracefs, syscalls: &syscalls, descriptors: false, follow: false };
    let chosen = choose(AttachChoice::Auto, needs)?;
    if let (Way::Tracepoint, Some(tracefs)) = (chosen.way, &chosen.tracefs) {
        tracepoints(tracefs)?;
    }
    MmapableArray::create(TRIAL, 1, 1)?;
    HashMap::<u32, u64>::create(TRIAL, 1)?;
    cpus::possible_count()?;
    let cpu = cpus::first_online()?;
    match chosen.way {
        Way::Tracepoint => {
            load_program(ProgramType::Tracepoint)?;
            perf_event_open_dummy(cpu)
                .map(drop)
                .map_err(|errno| refusal::of_bpf(errno, Step::Attach, "to a tracepoint"))
        }
        Way::Raw { .. } => {
            load_program(ProgramType::RawTracepoint)?;
            match probe(Feature::RawSyscallTracepoints) {
                Answer::Yes => Ok(()),
                Answer::No => Err(Error {
                    kind: Kind::Unsupported,
                    step: Step::Attach,
                    object: "to raw tracepoint sys_enter".to_owned(),
                    cause: Cause::Text("this kernel has no such tracepoint".to_owned()),
                    next: "use Linux 4.17 or newer with CONFIG_BPF_EVENTS".to_owned(),
                }),
                Answer::CouldNotTell(errno) => {
                    Err(refusal::of_bpf(errno, Step::Attach, "to raw tracepoint sys_enter"))
                }
            }
        }
    }
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
fn load_program(program_type: ProgramType) -> Result<()> {
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
    load(&program, program_type, &[]).map(drop)
}
