//! `rlat asm FILE.s -o FILE.o`: from text to an object file.

use std::path::Path;

use super::files;
use super::output::Output;
use crate::cli::AsmArgs;
use crate::elf;
use crate::error::{Cause, Result, Step};
use crate::insn::{Endianness, text};

/// Assembles the file. Nothing is written unless all of it is right.
pub(super) fn asm(args: &AsmArgs) -> Result<()> {
    let bytes = files::read(&args.file, Step::Assemble)?;
    let parsed = parse(&args.file, &bytes)?;
    let name = files::shown(&args.file);
    let object = elf::write(&parsed.module, &name, &parsed.lines, Endianness::NATIVE)
        .map_err(|error| refused(&args.file, error.to_string(), "change that in the file"))?;
    Output::open(Some(&args.output), false)?.write_repeatable(&object)
}

/// Reads the bytes of a text file.
pub(super) fn parse(file: &Path, bytes: &[u8]) -> Result<text::Parsed> {
    let source = str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        refused(file, format!("line {line} is no UTF-8"), "give a text file")
    })?;
    text::parse(source).map_err(|error| {
        let next = "`rlat disasm` and `rlat dump` show programs in the syntax that is read here";
        refused(file, error.to_string(), next)
    })
}

fn refused(file: &Path, cause: String, next: &str) -> crate::error::Error {
    files::refused(file, Step::Assemble, Cause::Text(cause), next)
}
