//! Which programs a measurement with these options would load, with their maps.

use std::collections::BTreeSet;

use crate::cli::MeasureArgs;
use crate::commands::measure;
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::histogram::Linear;
use crate::insn::{AssembleError, MapDefinition, Module, Program, Section};
use crate::latency::layout::{CONTROL_MAP, Slot, region_words};
use crate::latency::part::{room_for_starts, unlikely};
use crate::latency::{
    Plan, Scope, Subject, Syscall, enter_program, exit_program, fork_program, free_program,
    thread_end_program,
};
use crate::maps::{Plain as _, cpus};
use crate::tracefs::{Field, Tracefs};

/// The license that rlat loads its programs with.
const LICENSE: &str = "Dual MIT/GPL";

/// What would be loaded.
pub(super) struct Dump {
    /// Programs and maps.
    pub(super) module: Module,
    /// For each section of the module, what its program reads of its context.
    pub(super) context: Vec<Vec<ContextField>>,
    /// What is not as it would be, for want of a privilege.
    pub(super) notes: Vec<String>,
}

/// A field of the record that a program is given.
pub(super) struct ContextField {
    pub(super) name: String,
    /// Where it is, in bytes.
    pub(super) offset: i16,
    /// How many bytes are read of it.
    pub(super) bytes: u32,
}

/// Where arguments and results are, as far as is known.
struct Layout {
    syscalls: Vec<SyscallLayout>,
    /// The new task's number in `sched_process_fork`, and the task's in `sched_process_free`.
    child: i16,
    task: i16,
}

struct SyscallLayout {
    name: String,
    /// The name and the offset of the first argument.
    argument: Option<(String, i16)>,
    result: i16,
}

/// On kernels without changes, 8 bytes of common fields and the call's number stand before the arguments.
const USUAL_ARGUMENT: i16 = 16;
/// From Linux 5.10 to 6.15, which write the names of tasks into the record.
const USUAL_CHILD: i16 = 44;
const USUAL_TASK: i16 = 24;

/// The programs and maps of a measurement with these options.
pub(super) fn dump_of(args: &MeasureArgs) -> Result<Dump> {
    if !args.start.is_empty() {
        return Err(Error {
            kind: Kind::Usage,
            step: Step::Arguments,
            object: "a command to dump".to_owned(),
            cause: Cause::Text("its process has no number before it is started".to_owned()),
            next: "name a process that runs, or use --all".to_owned(),
        });
    }
    let subject = measure::subject(args)?;
    let descriptors: Vec<u32> = args.descriptors.iter().chain(&args.descriptor).copied().collect();
    let mut notes = Vec::new();
    let layout = layout(args, &subject, &descriptors, &mut notes)?;
    let programs = programs(args, &subject.scope()?, &descriptors, &layout)?;
    let threads = subject.targets().iter().map(|target| target.threads).sum();

    let mut module = Module { license: Some(LICENSE.to_owned()), ..Module::default() };
    let mut context = Vec::new();
    let mut names = BTreeSet::new();
    for (section, program, fields) in programs {
        for relocation in program.relocations() {
            if names.insert(relocation.map.clone()) {
                module.maps.push(map(&relocation.map, threads, args.linear)?);
            }
        }
        module.sections.push(Section::of(section, &program));
        context.push(fields);
    }
    Ok(Dump { module, context, notes })
}

type Named = (String, Program, Vec<ContextField>);

fn programs(
    args: &MeasureArgs,
    scope: &Scope,
    descriptors: &[u32],
    layout: &Layout,
) -> Result<Vec<Named>> {
    let mut programs = Vec::new();
    let mut add = |on: String, program: std::result::Result<Program, AssembleError>, fields| {
        let program = program.map_err(|error| unlikely(&error))?;
        programs.push((format!("tracepoint/{on}"), program, fields));
        Ok(())
    };
    let field = |name: &str, offset, bytes| ContextField { name: name.to_owned(), offset, bytes };
    for syscall in &layout.syscalls {
        let plan = Plan {
            syscall: syscall.name.clone(),
            scope: scope.clone(),
            descriptors: descriptors.to_vec(),
            argument_offset: syscall.argument.as_ref().map(|(_, offset)| *offset),
            result_offset: syscall.result,
            returns: args.returns.into(),
            unit: args.unit.into(),
            linear: args.linear,
        };
        let argument = syscall.argument.iter().map(|(name, offset)| field(name, *offset, 8));
        let name = &syscall.name;
        add(format!("syscalls/sys_enter_{name}"), enter_program(&plan), argument.collect())?;
        let result = vec![field("ret", syscall.result, 8)];
        add(format!("syscalls/sys_exit_{name}"), exit_program(&plan), result)?;
    }
    let names: Vec<String> = layout.syscalls.iter().map(|syscall| syscall.name.clone()).collect();
    add("sched/sched_process_exit".to_owned(), thread_end_program(scope, &names), Vec::new())?;
    if let Scope::Family(_) = scope {
        let child = vec![field("child_pid", layout.child, 4)];
        add("sched/sched_process_fork".to_owned(), fork_program(layout.child), child)?;
        let task = vec![field("pid", layout.task, 4)];
        add("sched/sched_process_free".to_owned(), free_program(layout.task), task)?;
    }
    Ok(programs)
}

/// Where the fields are: as tracefs says, or as usual where it cannot be read.
fn layout(
    args: &MeasureArgs,
    subject: &Subject,
    descriptors: &[u32],
    notes: &mut Vec<String>,
) -> Result<Layout> {
    let from_tracefs = || -> Result<Layout> {
        let tracefs = Tracefs::open(args.tracefs.as_deref())?;
        let syscalls = Syscall::find_all(&tracefs, &args.syscalls)?;
        measure::require_descriptors(&syscalls, descriptors)?;
        let (mut child, mut task) = (USUAL_CHILD, USUAL_TASK);
        if let Subject::Family(_) = subject {
            child = offset_of(&tracefs, "sched_process_fork", "child_pid")?;
            task = offset_of(&tracefs, "sched_process_free", "pid")?;
        }
        let syscalls = syscalls.iter().map(|syscall| found(&tracefs, syscall)).collect();
        Ok(Layout { syscalls, child, task })
    };
    match from_tracefs() {
        Err(error) if error.kind == Kind::Permission && args.tracefs.is_none() => {
            notes.push(format!(
                "tracefs cannot be read ({}), so the offsets of context fields are the usual ones; \
                 as root they are those of this kernel",
                error.cause
            ));
            Ok(usual(args))
        }
        result => result,
    }
}

fn found(tracefs: &Tracefs, syscall: &Syscall) -> SyscallLayout {
    let (argument, result) = syscall.offsets();
    let name = |offset: i16| {
        let format = tracefs.format("syscalls", &format!("sys_enter_{}", syscall.name)).ok();
        let is_it = |field: &&Field| i64::from(field.offset) == i64::from(offset);
        let field = format.as_ref().and_then(|format| format.fields.iter().find(is_it));
        field.map_or_else(|| "the first argument".to_owned(), |field| field.name.clone())
    };
    let argument = argument.map(|offset| (name(offset), offset));
    SyscallLayout { name: syscall.name.clone(), argument, result }
}

fn offset_of(tracefs: &Tracefs, tracepoint: &str, field: &str) -> Result<i16> {
    let format = tracefs.format("sched", tracepoint)?;
    let offset = format.field(field).and_then(|field| i16::try_from(field.offset).ok());
    offset.ok_or_else(|| Error {
        kind: Kind::Unsupported,
        step: Step::Tracepoint,
        object: format!("sched:{tracepoint}"),
        cause: Cause::Text(format!("its format has no field {field}")),
        next: "please report this with the tracepoint's `format` file".to_owned(),
    })
}

fn usual(args: &MeasureArgs) -> Layout {
    let mut names: Vec<&str> = Vec::new();
    for name in &args.syscalls {
        let members = Syscall::group(name);
        let members = if members.is_empty() { &[name.as_str()][..] } else { members };
        for member in members {
            if !names.contains(member) {
                names.push(member);
            }
        }
    }
    let syscalls = names.into_iter().map(|name| SyscallLayout {
        name: name.to_owned(),
        argument: (name != "sync").then(|| ("the first argument".to_owned(), USUAL_ARGUMENT)),
        result: USUAL_ARGUMENT,
    });
    Layout { syscalls: syscalls.collect(), child: USUAL_CHILD, task: USUAL_TASK }
}

const HASH: u32 = 1;
const ARRAY: u32 = 2;
const CGROUP_ARRAY: u32 = 8;
const MMAPABLE: u32 = 1 << 10;

/// What a map of that name is like.
fn map(name: &str, threads: usize, linear: Option<Linear>) -> Result<MapDefinition> {
    let (map_type, value_size, max_entries, flags) = match name {
        CONTROL_MAP | "rlat_unfollowed" => (ARRAY, 8, 1, MMAPABLE),
        "rlat_members" => (HASH, 4, 65_536, 0),
        "rlat_cgroup" => (CGROUP_ARRAY, 4, 1, 0),
        starts if starts.starts_with("rlat_st_") => {
            (HASH, Slot::BYTES, room_for_starts(threads), 0)
        }
        _ => {
            let words = region_words(linear.map_or(0, Linear::bucket_count));
            (ARRAY, words * size_of::<u64>(), cpus::possible_count()?, MMAPABLE)
        }
    };
    Ok(MapDefinition {
        name: name.to_owned(),
        map_type,
        key_size: 4,
        value_size: value_size as u32,
        max_entries,
        flags,
        pinning: 0,
    })
}
