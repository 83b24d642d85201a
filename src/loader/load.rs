//! Handing a program to the verifier.
//!
//! The first attempt asks for no log: writing one takes time, and a log that does not fit its buffer
//! makes a good program fail. Only when the program was refused is it loaded again with a log, and
//! the error number that is reported is the first one.
//!
//! The kernel is also given our comments as source lines, so that bpftool shows them. A kernel that takes
//! none gets the program without. Nor does a load with a log have them: that log is shown with our
//! comments anyway.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

use super::refusal;
use super::sys::{self, DebugTables, LogBuffer, LogLevel, ProgramSpec, ProgramType};
use crate::btf::{Lines, Linkage, SourceFile, Types};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::insn::{Endianness, Program, Section, encode};
use crate::verifier::{self, Listing, VerifierError};

/// The clock helper is only for programs whose license is compatible with the GPL; this string is
/// one of those that `include/linux/license.h` lists.
const LICENSE: &CStr = c"Dual MIT/GPL";

/// A log of our programs takes some tens of kilobytes.
const FIRST_LOG_BYTES: u32 = 1 << 18;
/// The largest log that every kernel takes: before Linux 5.2 the limit was 16 MiB - 1.
const LARGEST_LOG_BYTES: u32 = (1 << 24) - 1;
/// What stands in a log where the kernel left something out.
const LEFT_OUT: &str = "(here lines are missing: the log is larger than any buffer for it)\n";
/// `EAGAIN` says that a signal interrupted the verifier; a few tries are enough for any handler.
const TRIES: usize = 5;

/// A program in the kernel, not attached to anything yet. Dropping it unloads it, unless something
/// it was attached to still holds it.
#[derive(Debug)]
pub struct LoadedProgram {
    fd: OwnedFd,
    name: String,
    program_type: ProgramType,
    /// Why the kernel does not know its source lines, if it does not.
    without_lines: Option<Errno>,
}

impl LoadedProgram {
    /// Its name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why the kernel does not know the program's source lines, which are our comments; `None` where it does.
    /// A program works as well without them.
    pub fn without_lines(&self) -> Option<Errno> {
        self.without_lines
    }

    /// Whether it was loaded for a raw tracepoint's type, which says where to attach it.
    pub(super) const fn is_typed(&self) -> bool {
        matches!(self.program_type, ProgramType::TypedRawTracepoint(_))
    }

    /// What the kernel tells about it: its id, and how often it could not run.
    ///
    /// # Errors
    /// As [`sys::prog_info`].
    pub fn info(&self) -> nix::Result<sys::ProgInfo> {
        sys::prog_info(self.fd.as_fd())
    }
}

impl AsFd for LoadedProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Loads a program, its maps given by name and descriptor.
///
/// # Errors
/// [`Kind::Rejected`] with a [`VerifierError`] when the verifier refused it; [`Kind::Permission`]
/// when a privilege is missing; [`Kind::Unsupported`] when the kernel cannot load such programs.
pub fn load(
    program: &Program,
    program_type: ProgramType,
    maps: &[(&str, i32)],
) -> Result<LoadedProgram> {
    let code = link(program, maps)?;
    let spec = spec(program, program_type, &code);
    let name = program.name().to_owned();
    // With source lines if the kernel takes them. Whatever goes wrong with those must not matter, so that
    // any failure leads to the load without.
    let without_lines = match described(spec, program) {
        Ok(fd) => return Ok(LoadedProgram { fd, name, program_type, without_lines: None }),
        Err(errno) => Some(errno),
    };
    match quiet(|| sys::prog_load(spec)) {
        Ok(fd) => Ok(LoadedProgram { fd, name, program_type, without_lines }),
        Err(errno) => Err(explain(errno, program, &logged(spec, LogLevel::Fault).1)),
    }
}

/// The verifier's log for a program, with our comments: loads it once more, and lets go of it.
///
/// # Errors
/// When the log does not fit into the largest buffer, or the kernel now refuses the program.
pub fn verifier_log(
    program: &Program,
    program_type: ProgramType,
    maps: &[(&str, i32)],
) -> Result<String> {
    let code = link(program, maps)?;
    match logged(spec(program, program_type, &code), LogLevel::EveryPath) {
        (Ok(_), log) => {
            Ok(verifier::annotate(&Listing::of(program), &String::from_utf8_lossy(&log.bytes)))
        }
        (Err(errno), log) => Err(explain(errno, program, &log)),
    }
}

fn link(program: &Program, maps: &[(&str, i32)]) -> Result<Vec<u8>> {
    let linked = program.link(maps).map_err(|error| Error {
        kind: Kind::Other,
        step: Step::Assemble,
        object: program.name().to_owned(),
        cause: Cause::Text(error.to_string()),
        next: "give the map's descriptor when loading".to_owned(),
    })?;
    Ok(encode(&linked, Endianness::NATIVE))
}

fn spec<'a>(program: &'a Program, program_type: ProgramType, code: &'a [u8]) -> ProgramSpec<'a> {
    ProgramSpec { program_type, code, license: LICENSE, name: program.name() }
}

pub(super) fn quiet(load: impl Fn() -> nix::Result<OwnedFd>) -> nix::Result<OwnedFd> {
    for _ in 1..TRIES {
        match refusal::with_memlock(&load) {
            Err(Errno::EAGAIN) => {}
            result => return result,
        }
    }
    load()
}

/// Loads a program with its comments as source lines.
fn described(spec: ProgramSpec<'_>, program: &Program) -> nix::Result<OwnedFd> {
    let mut types = Types::new(Endianness::NATIVE);
    let section = Section::of("", program);
    let file = SourceFile { name: program.name(), lines: &[] };
    let lines = Lines::of(&section, Linkage::Global, file, &mut types);
    let functions = lines.functions_for_kernel(&types);
    let lines = lines.lines_for_kernel(&types);
    let types = refusal::with_memlock(|| sys::btf_load(&types.encode()))?;
    let tables = DebugTables { types: types.as_fd(), functions: &functions, lines: &lines };
    quiet(|| sys::prog_load_described(spec, tables))
}

/// Loads with a log, in a larger buffer as long as the log did not fit.
fn logged(spec: ProgramSpec<'_>, level: LogLevel) -> Logged {
    with_log(level, |level, bytes| sys::prog_load_logged(spec, level, bytes))
}

/// What loading with a log of a level, in a buffer of some bytes, gives.
type Logged = (nix::Result<OwnedFd>, LogBuffer);

/// The same for whatever loads.
pub(super) fn with_log(level: LogLevel, load: impl Fn(LogLevel, u32) -> Logged) -> Logged {
    let mut bytes = FIRST_LOG_BYTES;
    loop {
        let (result, log) = load(level, bytes);
        if result.as_ref().err() != Some(&Errno::ENOSPC) {
            return (result, log);
        }
        let wanted = u32::try_from(log.true_size).unwrap_or(u32::MAX);
        if bytes == LARGEST_LOG_BYTES || wanted > LARGEST_LOG_BYTES {
            return (result, with_the_end(load, log));
        }
        bytes = wanted.max(bytes * 2).min(LARGEST_LOG_BYTES);
    }
}

/// A log that is too long for any buffer keeps its end from Linux 6.4 on. Before, it keeps its
/// beginning, and the message at the end has to be asked for without the way there. What is missing is
/// said where it is missing.
fn with_the_end(load: impl Fn(LogLevel, u32) -> Logged, mut log: LogBuffer) -> LogBuffer {
    let newline = |byte: &u8| *byte == b'\n';
    if log.true_size == 0 {
        let (_, end) = load(LogLevel::Messages, FIRST_LOG_BYTES);
        let whole_lines = log.bytes.iter().rposition(newline).map_or(0, |at| at + 1);
        log.bytes.truncate(whole_lines);
        log.bytes.extend(LEFT_OUT.as_bytes());
        log.bytes.extend(end.bytes);
    } else {
        let half_a_line = log.bytes.iter().position(newline).map_or(0, |at| at + 1);
        log.bytes.splice(..half_a_line, LEFT_OUT.bytes());
    }
    log
}

/// Whether the verifier may have been content, and something else was missing: it then has nothing to say.
pub(super) fn is_not_the_verifiers(errno: Errno) -> bool {
    matches!(errno, Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)
}

fn explain(errno: Errno, program: &Program, log: &LogBuffer) -> Error {
    if log.bytes.is_empty() || is_not_the_verifiers(errno) {
        return refusal::of_bpf(errno, Step::Load, program.name());
    }
    Error {
        kind: Kind::Rejected,
        step: Step::Load,
        object: program.name().to_owned(),
        cause: Cause::Verifier(Box::new(VerifierError::new(errno, program, &log.bytes))),
        next:
            "`rlat -v` shows the verifier's whole log; a program of rlat that a kernel refuses is \
               a bug: please report it with that log"
                .to_owned(),
    }
}
