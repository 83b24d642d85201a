//! Which programs a measurement with these options would load, with their maps.

use std::collections::BTreeSet;

use crate::cli::{AttachArg, MeasureArgs};
use crate::commands::measure;
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::insn::{MapDefinition, Module, Section};
use crate::latency::layout::{CONTROL_MAP, CONTROL_WORDS, CPUS_MAP, Slot, region_words};
use crate::latency::loading::unlikely;
use crate::latency::starts::{SLOT_WORDS, SLOTS_MAP, STARTS_MAP};
use crate::latency::{
    Chosen, Needs, Place, Plan, Request, Subject, Syscall, Way, choose, fork_program, free_program,
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
    let Chosen { way, syscalls, tracefs, .. } = chosen(args, &descriptors, &mut notes)?;
    measure::require_descriptors(&syscalls, &descriptors)?;
    let request = Request {
        subject: &subject,
        syscalls,
        descriptors,
        returns: args.returns.into(),
        unit: args.unit.into(),
        linear: args.linear,
        way,
        tracefs: tracefs.as_ref(),
        starts: args.starts,
    };
    let plan = request.plan()?;

    let mut dump = Dump {
        module: Module { license: Some(LICENSE.to_owned()), ..Module::default() },
        context: Vec::new(),
        notes,
    };
    let mut programs = plan.programs().map_err(|error| unlikely(&error))?;
    // For a reader, what happens first comes first.
    programs.reverse();
    for (place, program) in programs {
        let (on, fields) = attached_to(place, &plan, tracefs.as_ref());
        dump.add(Section::of(on, &program), fields);
    }
    if let Subject::Family(_) = subject {
        dump.add_family(tracefs.as_ref())?;
    }
    dump.define_maps(&plan)?;
    Ok(dump)
}

/// The calls, and where their programs would be attached: as tracefs says, or as usual where it cannot be
/// read.
fn chosen(args: &MeasureArgs, descriptors: &[u32], notes: &mut Vec<String>) -> Result<Chosen> {
    let needs = Needs {
        tracefs: args.tracefs.as_deref(),
        syscalls: &args.syscalls,
        descriptors: !descriptors.is_empty(),
        follow: args.follow,
    };
    let refused = match Tracefs::open(args.tracefs.as_deref()) {
        Err(error) if error.kind == Kind::Permission && args.tracefs.is_none() => error,
        _ => return choose(args.attach.into(), needs),
    };
    if args.attach == AttachArg::Raw {
        return choose(args.attach.into(), needs);
    }
    Syscall::require_names(&args.syscalls)?;
    notes.push(format!(
        "tracefs cannot be read ({}), so the offsets of context fields are the usual ones; as root \
         they are those of this kernel",
        refused.cause
    ));
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
    let syscalls = names.into_iter().map(Syscall::usual).collect();
    let (tracefs, reason) = (None, String::new());
    Ok(Chosen { way: Way::Tracepoint, syscalls, tracefs, reason, makeshift: false })
}

/// The section of a program as libbpf names it, and what the program reads of its context.
fn attached_to(
    place: Place,
    plan: &Plan,
    tracefs: Option<&Tracefs>,
) -> (String, Vec<ContextField>) {
    let field = |name: &str, offset, bytes| ContextField { name: name.to_owned(), offset, bytes };
    let call = |index: usize| plan.calls.get(index);
    match place {
        Place::ThreadEnd if matches!(plan.way, Way::Raw { .. }) => {
            ("raw_tp/sched_process_exit".to_owned(), Vec::new())
        }
        Place::ThreadEnd => ("tracepoint/sched/sched_process_exit".to_owned(), Vec::new()),
        Place::EveryEnter => {
            let typed = matches!(plan.way, Way::Raw { typed: Some(_), .. });
            let kind = if typed { "tp_btf" } else { "raw_tp" };
            (format!("{kind}/sys_enter"), vec![field("regs", 0, 8), field("id", 8, 8)])
        }
        Place::EveryExit => {
            ("raw_tp/sys_exit".to_owned(), vec![field("regs", 0, 8), field("ret", 8, 8)])
        }
        Place::Enter(index) => {
            let name = call(index).map_or("", |call| &call.name);
            let argument = call(index).and_then(|call| call.argument_offset);
            let argument =
                argument.map(|offset| field(&argument_name(tracefs, name, offset), offset, 8));
            (format!("tracepoint/syscalls/sys_enter_{name}"), argument.into_iter().collect())
        }
        Place::Exit(index) => {
            let name = call(index).map_or("", |call| &call.name);
            let result = call(index).map(|call| field("ret", call.result_offset, 8));
            (format!("tracepoint/syscalls/sys_exit_{name}"), result.into_iter().collect())
        }
    }
}

fn argument_name(tracefs: Option<&Tracefs>, call: &str, offset: i16) -> String {
    let format =
        tracefs.and_then(|tracefs| tracefs.format("syscalls", &format!("sys_enter_{call}")).ok());
    let is_it = |field: &&Field| i64::from(field.offset) == i64::from(offset);
    let field = format.as_ref().and_then(|format| format.fields.iter().find(is_it));
    field.map_or_else(|| "the first argument".to_owned(), |field| field.name.clone())
}

impl Dump {
    fn add(&mut self, section: Section, fields: Vec<ContextField>) {
        self.module.sections.push(section);
        self.context.push(fields);
    }

    fn add_family(&mut self, tracefs: Option<&Tracefs>) -> Result<()> {
        let (child, task) = match tracefs {
            Some(tracefs) => (
                offset_of(tracefs, "sched_process_fork", "child_pid")?,
                offset_of(tracefs, "sched_process_free", "pid")?,
            ),
            None => (USUAL_CHILD, USUAL_TASK),
        };
        let programs = [
            ("sched_process_fork", "child_pid", child, fork_program(child)),
            ("sched_process_free", "pid", task, free_program(task)),
        ];
        for (on, name, offset, program) in programs {
            let program = program.map_err(|error| unlikely(&error))?;
            let field = ContextField { name: name.to_owned(), offset, bytes: 4 };
            self.add(Section::of(format!("tracepoint/sched/{on}"), &program), vec![field]);
        }
        Ok(())
    }

    /// Defines every map that a program refers to, in the order of the programs.
    fn define_maps(&mut self, plan: &Plan) -> Result<()> {
        let mut names = BTreeSet::new();
        for reference in self.module.sections.iter().flat_map(|section| &section.references) {
            let name = reference.to.name();
            if names.insert(name.to_owned()) {
                self.module.maps.push(map(name, plan)?);
            }
        }
        Ok(())
    }
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

const HASH: u32 = 1;
const ARRAY: u32 = 2;
const CGROUP_ARRAY: u32 = 8;
const NO_PREALLOC: u32 = 1 << 0;
const MMAPABLE: u32 = 1 << 10;

/// What a map of that name is like.
fn map(name: &str, plan: &Plan) -> Result<MapDefinition> {
    let room = plan.room;
    let words = |words: usize| words * size_of::<u64>();
    let (map_type, value_size, max_entries, flags) = match name {
        CONTROL_MAP => (ARRAY, words(CONTROL_WORDS), 1, MMAPABLE),
        SLOTS_MAP => (ARRAY, words(SLOT_WORDS * room.direct_slots as usize), 1, MMAPABLE),
        STARTS_MAP => {
            (HASH, Slot::BYTES, room.threads, if room.on_demand { NO_PREALLOC } else { 0 })
        }
        CPUS_MAP => {
            let region =
                region_words(plan.linear.map_or(0, crate::histogram::Linear::bucket_count));
            (ARRAY, words(region), cpus::possible_count()? * plan.calls.len() as u32, MMAPABLE)
        }
        "rlat_members" => (HASH, 4, 65_536, 0),
        "rlat_cgroup" => (CGROUP_ARRAY, 4, 1, 0),
        _ => (ARRAY, words(1), 1, MMAPABLE),
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
