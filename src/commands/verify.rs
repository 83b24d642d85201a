//! `rlat verify FILE [SECTION]`: what this kernel's verifier says about the programs in a file.

use std::ffi::CString;

use super::files;
use super::output::write_listing;
use super::say;
use crate::cli::VerifyArgs;
use crate::elf;
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::escape::escape;
use crate::insn::{FunctionAt, Linked, Module, text};
use crate::loader::{
    Candidate, ProgramKind, Recognised, TracepointType, Verdict, create_maps, verify as ask,
};
use crate::report::verdict::{Subject, verdict};
use crate::verifier::{Listed, Listing};

/// What an ELF file begins with; a text does not.
const ELF: &[u8] = b"\x7fELF";

/// Asks for a verdict on each program, prints it, and returns the exit code: 5 if one was refused.
pub(super) fn verify(args: &VerifyArgs) -> Result<u8> {
    let file = File::read(args)?;
    for note in &file.notes {
        say(&format!("rlat: note: not taken into account: {}", escape(note.as_bytes())));
    }
    let programs = file.programs()?;
    let license = CString::new(file.module.license.clone().unwrap_or_default())
        .map_err(|_| file.refused("its license has a zero in it", "change the license"))?;
    let maps = create_maps(&file.module.maps)?;
    let mut exit_code = 0;
    for (index, (at, kind, linked)) in programs.iter().enumerate() {
        let listing = file.listing(linked);
        let candidate = Candidate {
            program: &linked.program,
            listing: &listing,
            functions: &linked.functions,
            kind: *kind,
            license: &license,
        };
        let said = ask(candidate, &maps, args.verbose)?;
        if matches!(said, Verdict::Refused(_)) {
            exit_code = Kind::Rejected.exit_code();
        }
        let section = escape(file.module.sections[at.section].name.as_bytes());
        let name = escape(linked.program.name().as_bytes());
        let subject = Subject { name: &name, section: &section, kind: kind.name };
        let rest = format!("the whole log: rlat verify -v {}", files::shown(&args.file));
        let between = if index == 0 { "" } else { "\n" };
        write_listing(&format!("{between}{}", verdict(subject, &said, args.verbose, &rest)))?;
    }
    Ok(exit_code)
}

/// The file, and what is asked about it.
struct File<'a> {
    args: &'a VerifyArgs,
    module: Module,
    /// The texts of all instructions, by section and index.
    texts: Vec<Vec<String>>,
    /// Their lines, where the file is a text.
    lines: Vec<Vec<u32>>,
    notes: Vec<String>,
}

impl<'a> File<'a> {
    fn read(args: &'a VerifyArgs) -> Result<Self> {
        let bytes = files::read(&args.file, Step::Load)?;
        let (module, lines, notes) = if bytes.starts_with(ELF) {
            let object = elf::read(&bytes).map_err(|error| {
                let next = "give an object file as `clang -target bpf -c` or `rlat asm` makes them";
                files::refused(&args.file, Step::Disassemble, Cause::Text(error.to_string()), next)
            })?;
            (object.module, Vec::new(), object.notes)
        } else {
            let parsed = super::asm::parse(&args.file, &bytes)?;
            (parsed.module, parsed.lines, Vec::new())
        };
        let texts =
            module.sections.iter().map(|section| text::instructions(&module, section)).collect();
        Ok(Self { args, module, texts, lines, notes })
    }

    fn refused(&self, cause: &str, next: &str) -> Error {
        files::refused(&self.args.file, Step::Load, Cause::Text(cause.to_owned()), next)
    }

    /// The programs that are asked about, each with its type and its code.
    fn programs(&self) -> Result<Vec<(FunctionAt, ProgramKind, Linked)>> {
        let mut programs = Vec::new();
        for at in self.module.programs() {
            let section = &self.module.sections[at.section].name;
            if self.args.section.as_ref().is_some_and(|wanted| wanted != section) {
                continue;
            }
            let linked = self.module.link(at).map_err(|error| {
                self.refused(&error.to_string(), "load it with libbpf, which looks for it")
            })?;
            programs.push((at, self.kind(section)?, linked));
        }
        if programs.is_empty() {
            let names: Vec<String> = self
                .module
                .sections
                .iter()
                .map(|section| escape(section.name.as_bytes()))
                .collect();
            let (cause, next) = match &self.args.section {
                Some(wanted) if !names.is_empty() => (
                    format!("no program is in section {}", escape(wanted.as_bytes())),
                    format!("the sections with code are: {}", names.join(", ")),
                ),
                _ => ("it has no programs".to_owned(), "give a file with programs".to_owned()),
            };
            return Err(self.refused(&cause, &next));
        }
        Ok(programs)
    }

    fn kind(&self, section: &str) -> Result<ProgramKind> {
        if let Some(kind) = self.args.kind.as_deref().and_then(ProgramKind::named) {
            // The section may say more about the same type.
            return Ok(match ProgramKind::of_section(section) {
                Recognised::Kind(known) if known.number == kind.number => known,
                _ => kind,
            });
        }
        let shown = escape(section.as_bytes());
        match ProgramKind::of_section(section) {
            Recognised::Kind(kind) => Ok(kind),
            Recognised::TypedRawTracepoint => {
                let tracepoint = section.split_once('/').map_or("", |(_, name)| name);
                let target = TracepointType::of_this_kernel(tracepoint).ok_or_else(|| {
                    self.refused(
                        &format!(
                            "programs of section {shown} are checked against the type of a raw tracepoint, \
                             and this kernel's BTF, /sys/kernel/btf/vmlinux, has none of that name"
                        ),
                        "check the name; --type raw_tracepoint asks about it without types",
                    )
                })?;
                Ok(ProgramKind::typed_raw_tracepoint(target.number))
            }
            Recognised::NeedsTarget => Err(self.refused(
                &format!(
                    "programs of section {shown} are checked against what they will be attached to, \
                     which is not looked up here"
                ),
                "load it with libbpf; give a section to ask about that alone, or --type to ask about it as \
                 another type",
            )),
            Recognised::Unknown => Err(self.refused(
                &format!("the name of section {shown} tells no type of program"),
                "give one: --type tracepoint, raw_tracepoint, socket_filter, kprobe, xdp, ...",
            )),
        }
    }

    /// The code of a program as the file has it.
    fn listing(&self, linked: &Linked) -> Listing {
        Listing::new(linked.origin.iter().zip(linked.program.insns()).map(
            |((section, index), insn)| Listed {
                insn: *insn,
                text: self.texts[*section][*index].clone(),
                comment: self.module.sections[*section].comments.get(index).cloned(),
                line: self.lines.get(*section).and_then(|lines| lines.get(*index)).copied(),
            },
        ))
    }
}
