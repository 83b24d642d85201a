//! `rlat asm FILE.s -o FILE.o`: from text to an object file.

use super::files;
use super::output::Output;
use crate::cli::AsmArgs;
use crate::elf;
use crate::error::{Cause, Result, Step};
use crate::insn::{Endianness, text};

/// Assembles the file. Nothing is written unless all of it is right.
pub(super) fn asm(args: &AsmArgs) -> Result<()> {
    let refused = |cause: String, next: &str| {
        files::refused(&args.file, Step::Assemble, Cause::Text(cause), next)
    };
    let bytes = files::read(&args.file, Step::Assemble)?;
    let source = str::from_utf8(&bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        refused(format!("line {line} is no UTF-8"), "give a text file")
    })?;
    let parsed = text::parse(source).map_err(|error| {
        let next = "`rlat disasm` and `rlat dump` show programs in the syntax that is read here";
        refused(error.to_string(), next)
    })?;
    let name = files::shown(&args.file);
    let object = elf::write(&parsed.module, &name, &parsed.lines, Endianness::NATIVE)
        .map_err(|error| refused(error.to_string(), "change that in the file"))?;
    Output::open(Some(&args.output), false)?.write_repeatable(&object)
}
