//! `rlat dump`: the programs that a measurement would load, to be read.
//!
//! Nothing is loaded, so that it takes no privilege.

mod plan;
mod show;

use super::output::Output;
use crate::cli::{DumpArgs, DumpFormat};
use crate::elf;
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::insn::Endianness;
use plan::{Dump, dump_of};

/// Prints the programs, or writes them to the file.
pub(super) fn dump(args: &DumpArgs) -> Result<()> {
    let mut output = Output::open(args.measure.output.as_deref(), false)?;
    let dump = dump_of(&args.measure)?;
    let bytes = match args.form {
        DumpFormat::Text => show::text(&dump).into_bytes(),
        DumpFormat::Hex => show::hex(&dump).into_bytes(),
        DumpFormat::C => show::c(&dump).into_bytes(),
        DumpFormat::Elf => object(&dump)?,
    };
    output.write_repeatable(&bytes)
}

fn object(dump: &Dump) -> Result<Vec<u8>> {
    elf::write(&dump.module, "rlat", &[], Endianness::NATIVE).map_err(|error| Error {
        kind: Kind::Other,
        step: Step::Assemble,
        object: "of the measurement".to_owned(),
        cause: Cause::Text(error.to_string()),
        next: "this is a bug in rlat: please report it".to_owned(),
    })
}
