//! `rlat disasm FILE.o [SECTION]`: anybody's object file as text.

use std::fmt::Write as _;

use super::files;
use super::output::write_listing;
use crate::cli::DisasmArgs;
use crate::elf;
use crate::error::{Cause, Result, Step};
use crate::escape::escape;
use crate::insn::text;

/// Prints what is in the file, or in one section of it, in the syntax that `rlat asm` reads.
pub(super) fn disasm(args: &DisasmArgs) -> Result<()> {
    let refused = |cause: String, next: &str| {
        files::refused(&args.file, Step::Disassemble, Cause::Text(cause), next)
    };
    let bytes = files::read(&args.file, Step::Disassemble)?;
    let mut object = elf::read(&bytes).map_err(|error| {
        refused(
            error.to_string(),
            "give an object file as `clang -target bpf -c` or `rlat asm` makes them",
        )
    })?;
    let mut listing = String::new();
    if let Some(wanted) = &args.section {
        let sections = &mut object.module.sections;
        let names: Vec<String> =
            sections.iter().map(|section| escape(section.name.as_bytes())).collect();
        sections.retain(|section| section.name == *wanted);
        if sections.is_empty() {
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let cause = format!("there is no section {} with code", escape(wanted.as_bytes()));
            return Err(refused(cause, &format!("the sections with code are: {there}")));
        }
    }
    for note in &object.notes {
        // Writing to a String cannot fail.
        let _ = writeln!(listing, "; not shown: {}", escape(note.as_bytes()));
    }
    listing.push_str(&text::write(&object.module));
    write_listing(&listing)
}
