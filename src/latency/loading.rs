//! Handing a program of ours to the kernel, with its maps by name.

use crate::error::{Cause, Error, Kind, Result, Step};
use crate::insn::{AssembleError, Program};
use crate::loader::sys::ProgramType;
use crate::loader::{LoadedProgram, load, verifier_log};

/// Loads a program, if it could be put together, and tells `steps` what the kernel made of it.
pub(crate) fn load_own(
    program: std::result::Result<Program, AssembleError>,
    program_type: ProgramType,
    maps: &[(String, i32)],
    steps: &mut dyn FnMut(String),
) -> Result<(Program, LoadedProgram)> {
    let program = program.map_err(|error| unlikely(&error))?;
    let loaded = load(&program, program_type, &by_name(maps))?;
    steps(describe(&program, &loaded));
    Ok((program, loaded))
}

/// Each program's name, and what the verifier writes about it, with our comments: loads it once more.
///
/// # Errors
/// As [`verifier_log`].
pub(crate) fn own_logs<'a>(
    programs: impl Iterator<Item = (&'a Program, ProgramType)>,
    maps: &[(String, i32)],
) -> Result<Vec<(&'a str, String)>> {
    let maps = by_name(maps);
    programs
        .map(|(program, kind)| Ok((program.name(), verifier_log(program, kind, &maps)?)))
        .collect()
}

fn by_name(maps: &[(String, i32)]) -> Vec<(&str, i32)> {
    maps.iter().map(|(name, number)| (name.as_str(), *number)).collect()
}

/// The error for a program of ours that cannot be put together.
pub(crate) fn unlikely(error: &AssembleError) -> Error {
    Error {
        kind: Kind::Other,
        step: Step::Assemble,
        object: "of the measurement".to_owned(),
        cause: Cause::Text(error.to_string()),
        next: "this is a bug in rlat: please report it".to_owned(),
    }
}

fn describe(program: &Program, loaded: &LoadedProgram) -> String {
    let (name, length) = (program.name(), program.insns().len());
    let lines = loaded
        .without_lines()
        .map_or(String::new(), |errno| format!(", and the kernel takes no source lines: {errno}"));
    match loaded.info() {
        Ok(info) => format!(
            "program {name}: id {}, {length} instructions, {} bytes of native code{lines}",
            info.id, info.jited_bytes
        ),
        Err(errno) => format!("program {name}: {length} instructions (no more known: {errno})"),
    }
}
