//! A verdict on anybody's program: loaded as it would be, read, and let go of. Nothing is attached.

use std::ffi::CStr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use nix::errno::Errno;

use super::kind::ProgramKind;
use super::load::{is_not_the_verifiers, quiet, with_log};
use super::refusal;
use super::sys::{self, AnyMapSpec, AnyProgramSpec, DebugTables, LogBuffer, LogLevel};
use crate::btf::{Lines, Linkage, SourceFile, Types};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::insn::{
    Endianness, Imm64, Insn, MapDefinition, Program, Section, encode, map_type_name,
};
use crate::maps::cpus;
use crate::verifier::{self, LineKind, Listing, LogLine, Statistics, VerifierError};

/// What a verdict is asked for on.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The code.
    pub program: &'a Program,
    /// The code as its author knows it, for the log.
    pub listing: &'a Listing,
    /// Its functions: the index of the first instruction of each, and its name.
    pub functions: &'a [(usize, String)],
    /// What it would be attached to.
    pub kind: ProgramKind,
    /// The license of the file, empty where it gives none.
    pub license: &'a CStr,
}

/// What the verifier says.
#[derive(Debug)]
pub enum Verdict {
    /// It would run.
    Accepted {
        /// The whole log, with what its author says.
        log: String,
        /// What the search has cost.
        statistics: Option<Statistics>,
    },
    /// It would not.
    Refused(Box<VerifierError>),
}

/// Creates the maps of a file, for as long as what is returned is kept.
///
/// # Errors
/// [`Kind::Permission`], [`Kind::Unsupported`] or [`Kind::Other`], as the kernel refuses one.
pub fn create_maps(maps: &[MapDefinition]) -> Result<Vec<(&str, OwnedFd)>> {
    maps.iter().map(|map| Ok((map.name.as_str(), create(map)?))).collect()
}

fn create(map: &MapDefinition) -> Result<OwnedFd> {
    const PERF_EVENT_ARRAY: u32 = 4;
    let max_entries = match (map.map_type, map.max_entries) {
        // As libbpf does it: one for each CPU.
        (PERF_EVENT_ARRAY, 0) => cpus::possible_count()?,
        (_, entries) => entries,
    };
    let spec = AnyMapSpec {
        type_number: map.map_type,
        key_size: map.key_size,
        value_size: map.value_size,
        max_entries,
        flags: map.flags,
        name: &map.name,
    };
    refusal::with_memlock(|| sys::map_create_any(spec)).map_err(|errno| {
        let object = match map_type_name(map.map_type) {
            Some(name) => format!("{} of type {name}", map.name),
            None => format!("{} of type {}", map.name, map.map_type),
        };
        match errno {
            Errno::EINVAL | Errno::ENOTSUP | Errno::E2BIG => Error {
                kind: Kind::Unsupported,
                step: Step::Map,
                object,
                cause: Cause::Errno(errno),
                next: "check type, sizes, entries and flags of its definition; maps of maps and those \
                       that need BTF cannot be created here"
                    .to_owned(),
            },
            _ => refusal::of_bpf(errno, Step::Map, &object),
        }
    })
}

/// Asks for a verdict, with the log of every path if it is wanted.
///
/// # Errors
/// When the kernel does not come to one: [`Kind::Permission`] without the privilege,
/// [`Kind::Unsupported`] when it has no programs of that type.
pub fn verify(
    candidate: Candidate<'_>,
    maps: &[(&str, OwnedFd)],
    every_path: bool,
) -> Result<Verdict> {
    let Candidate { program, listing, functions, kind, license } = candidate;
    let numbers: Vec<(&str, i32)> = maps.iter().map(|(name, fd)| (*name, fd.as_raw_fd())).collect();
    let linked = program.link(&numbers).map_err(|error| Error {
        kind: Kind::Usage,
        step: Step::Load,
        object: program.name().to_owned(),
        cause: Cause::Text(error.to_string()),
        next: "define the map in the file".to_owned(),
    })?;
    let code = encode(&linked, Endianness::NATIVE);
    let described = describe_callbacks(program, functions);
    let tables = described.as_ref().map(|(types, functions)| DebugTables {
        types: types.as_fd(),
        functions,
        lines: &[],
    });
    let spec = AnyProgramSpec {
        type_number: kind.number,
        attach_type: kind.attach_type,
        flags: kind.flags,
        target: kind.target,
        tables,
        code: &code,
        license,
        name: program.name(),
    };
    let logged =
        |level| with_log(level, |level, bytes| sys::prog_load_any(spec, Some((level, bytes))));
    match quiet(|| sys::prog_load_any(spec, None).0) {
        Ok(_loaded) => {
            let level = if every_path { LogLevel::EveryPath } else { LogLevel::Messages };
            let (_, log) = logged(level);
            let log = String::from_utf8_lossy(&log.bytes).into_owned();
            let statistics = Statistics::read(&log);
            Ok(Verdict::Accepted { log: verifier::annotate(listing, &log), statistics })
        }
        Err(errno) => {
            let (_, mut log) = logged(LogLevel::Fault);
            // Before Linux 5.17 only the other log tells what is known of the registers.
            if !tells_states(&log) {
                let (_, every_path) = logged(LogLevel::EveryPath);
                if tells_states(&every_path) {
                    log = every_path;
                }
            }
            if log.bytes.is_empty() || is_not_the_verifiers(errno) {
                return Err(without_verdict(errno, candidate));
            }
            Ok(Verdict::Refused(Box::new(VerifierError::read(errno, listing, &log.bytes))))
        }
    }
}

/// The types of the functions of a program that hands one of them to a helper, and the table of where each
/// begins (`struct bpf_func_info`): the kernel calls back only what is said to be a static function. `None` for
/// other programs, which need none, and where the kernel takes no types: its verdict says what it misses.
pub fn describe_callbacks(
    program: &Program,
    functions: &[(usize, String)],
) -> Option<(OwnedFd, Vec<u8>)> {
    let hands_over =
        |insn: &Insn| matches!(insn, Insn::LoadImm64 { value: Imm64::Function(_), .. });
    if !program.insns().iter().any(hands_over) {
        return None;
    }
    let mut section = Section::of("", program);
    section.functions = functions.to_vec();
    let mut types = Types::new(Endianness::NATIVE);
    let file = SourceFile { name: program.name(), lines: &[] };
    let lines = Lines::of(&section, Linkage::Static, file, &mut types);
    let table = lines.functions_for_kernel(&types);
    let types = refusal::with_memlock(|| sys::btf_load(&types.encode())).ok()?;
    Some((types, table))
}

/// Whether the log says what is known of the registers. A log without a path has nothing to say.
fn tells_states(log: &LogBuffer) -> bool {
    let text = String::from_utf8_lossy(&log.bytes);
    let lines = || text.lines().map(|line| LogLine::read(line).kind);
    let tells = |kind| match kind {
        LineKind::State(_) => true,
        LineKind::Instruction { changed, .. } => !changed.is_empty(),
        _ => false,
    };
    let has_path = lines().any(|kind| matches!(kind, LineKind::Instruction { .. }));
    !has_path || lines().any(tells)
}

/// The kernel refused before the verifier began.
fn without_verdict(errno: Errno, candidate: Candidate<'_>) -> Error {
    let Candidate { program, kind, .. } = candidate;
    match errno {
        Errno::EINVAL | Errno::ENOTSUP => Error {
            kind: Kind::Unsupported,
            step: Step::Load,
            object: format!("{} of type {}", program.name(), kind.name),
            cause: Cause::Explained(errno, "the kernel did not hand it to the verifier".to_owned()),
            next: "this kernel may lack that type of program; --type tries another one".to_owned(),
        },
        Errno::E2BIG => {
            let slots: usize = program.insns().iter().map(Insn::slots).sum();
            let why = format!(
                "it has {slots} slots; a kernel takes 1 to 1,000,000, without CAP_BPF 4,096"
            );
            Error {
                kind: Kind::Rejected,
                step: Step::Load,
                object: program.name().to_owned(),
                cause: Cause::Explained(errno, why),
                next: "make it shorter".to_owned(),
            }
        }
        _ => refusal::of_bpf(errno, Step::Load, program.name()),
    }
}
