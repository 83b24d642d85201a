//! The verifier says no, and rlat says why: each program in `tests/data/verifier` is refused for the reason
//! that its first line names, at the instruction whose comment begins with `wrong`.
//!
//! The logs in `tests/data/verifier/logs` are from real kernels. `RLAT_BLESS=1` writes those of the running
//! kernel; for the programs that need CAP_BPF alone, run this test again as
//! `setpriv --bounding-set=-all,+bpf` runs it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::errno::Errno;
use rlat::insn::{Endianness, Linked, Module, encode, text};
use rlat::loader::sys::{AnyProgramSpec, DebugTables, LogLevel, prog_load_any};
use rlat::loader::{ProgramKind, Recognised, create_maps, describe_callbacks, kernel_version};
use rlat::process::{Capability, Privileges};
use rlat::verifier::{Finding, LineKind, Listed, Listing, LogLine, VerifierError};

const RLAT: &str = env!("CARGO_BIN_EXE_rlat");

/// What a program says that is refused only without CAP_PERFMON.
const CAP_BPF_ALONE: &str = "with CAP_BPF alone";

/// What kernels say otherwise of an example: what it needs came later, or changes are not told in their logs.
const OTHERWISE: [(&str, &str, &str); 7] = [
    ("5.10", "callback_return", "unknown kind of load"),
    ("6.1", "callback_return", "callback without its type"),
    ("5.10", "may_sleep", "wrong helper for the type"),
    ("5.10", "unknown_kernel_function", "reserved field"),
    ("5.10", "packet_moved", "number used as a pointer"),
    ("5.10", "use_after_release", "number used as a pointer"),
    ("7.3", "unseen_end", "too many instructions"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/verifier")
}

/// A program that is refused.
struct Example {
    name: String,
    /// The kind of mistake.
    title: String,
    source: String,
    module: Module,
    linked: Linked,
    listing: Listing,
    /// The slot of the instruction that is wrong, where the verifier can tell it.
    wrong: Option<usize>,
}

impl Example {
    fn read(path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let source = fs::read_to_string(path).unwrap();
        let title = source.lines().next().unwrap().strip_prefix("# ").unwrap().to_owned();
        let parsed = text::parse(&source).unwrap_or_else(|error| panic!("{name}: {error}"));
        let module = parsed.module;
        let linked = module.link(module.programs()[0]).unwrap();
        let listing = Listing::new(linked.origin.iter().zip(linked.program.insns()).map(
            |((section, index), insn)| Listed {
                insn: *insn,
                text: insn.to_string(),
                comment: module.sections[*section].comments.get(index).cloned(),
                line: Some(parsed.lines[*section][*index]),
            },
        ));
        let is_wrong = |listed: &Listed| {
            listed.comment.as_deref().is_some_and(|text| text.starts_with("wrong"))
        };
        let wrong = listing.iter().find(|(_, listed)| is_wrong(listed)).map(|(slot, _)| slot);
        Self { name, title, source, module, linked, listing, wrong }
    }

    fn needs_cap_bpf_alone(&self) -> bool {
        self.source.contains(CAP_BPF_ALONE)
    }

    /// What the kernel writes, and its error; `None` when it accepts the program.
    fn raw_log(&self) -> Option<(Errno, Vec<u8>)> {
        const BYTES: u32 = (1 << 24) - 1;
        let maps = create_maps(&self.module.maps).unwrap();
        let numbers: Vec<_> = maps.iter().map(|(name, fd)| (*name, fd.as_raw_fd())).collect();
        let code = encode(&self.linked.program.link(&numbers).unwrap(), Endianness::NATIVE);
        let section = &self.module.sections[0].name;
        let Recognised::Kind(kind) = ProgramKind::of_section(section) else { panic!("{section}") };
        let described = describe_callbacks(&self.linked.program, &self.linked.functions);
        let tables = described.as_ref().map(|(types, functions)| DebugTables {
            types: types.as_fd(),
            functions,
            lines: &[],
        });
        let license = CString::new(self.module.license.clone().unwrap_or_default()).unwrap();
        let spec = AnyProgramSpec {
            type_number: kind.number,
            attach_type: kind.attach_type,
            flags: kind.flags,
            target: kind.target,
            tables,
            code: &code,
            license: &license,
            name: self.linked.program.name(),
        };
        let errno = prog_load_any(spec, None).0.err()?;
        let (_, log) = prog_load_any(spec, Some((LogLevel::Fault, BYTES)));
        Some((errno, log.bytes))
    }

    /// The kind of mistake that it is for that kernel, and where it is, if it says so.
    fn expected(&self, kernel: &str) -> (&str, Option<usize>) {
        let otherwise =
            OTHERWISE.iter().find(|(other, name, _)| (*other, *name) == (kernel, &self.name));
        otherwise.map_or((&self.title, self.wrong), |(_, _, title)| (title, None))
    }

    /// What is not understood about a refusal of that kernel: the kind of mistake, or the instruction.
    fn misunderstood(&self, kernel: &str, refusal: &VerifierError) -> Option<String> {
        let found = refusal.finding.as_ref().map(|finding| finding.name);
        let slot = refusal.fault.as_ref().map(|fault| fault.slot);
        let (title, wrong) = self.expected(kernel);
        // Without a mark, it may or may not name one.
        let right = found == Some(title) && (wrong.is_none() || slot == wrong);
        (!right)
            .then(|| format!("{}: {found:?} at {slot:?}: {refusal}\n{}", self.name, refusal.log))
    }
}

fn examples() -> Vec<Example> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "s"));
    paths.sort();
    paths.iter().map(|path| Example::read(path)).collect()
}

fn version() -> String {
    let (major, minor) = kernel_version().unwrap();
    format!("{major}.{minor}")
}

/// In how many kernels' folders there is a log of the program.
fn kernels_with_log(example: &Example) -> usize {
    let kernels = fs::read_dir(folder().join("logs")).unwrap();
    let log = format!("{}.log", example.name);
    kernels.filter(|kernel| kernel.as_ref().unwrap().path().join(&log).is_file()).count()
}

/// What is known of the program on this kernel.
#[derive(PartialEq, Eq)]
enum Here {
    Refused,
    /// Other kernels refuse it, and this one was asked, too.
    Accepted,
    /// It was asked for on one kernel only, and that is another one.
    NotKnown,
}

fn here(example: &Example) -> Here {
    let logs = folder().join("logs").join(version());
    // What takes long has a log of few kernels.
    let is_long = example.name.starts_with("too_many") || example.name == "unseen_end";
    let always = is_long || example.needs_cap_bpf_alone();
    if always || !logs.is_dir() || logs.join(format!("{}.log", example.name)).is_file() {
        Here::Refused
    } else if kernels_with_log(example) == 1 {
        Here::NotKnown
    } else {
        Here::Accepted
    }
}

#[test]
fn at_least_thirty_kinds_of_mistakes_have_an_example_each_with_a_rule() {
    let titles: BTreeSet<String> = examples().into_iter().map(|example| example.title).collect();
    assert!(titles.len() >= 30, "{}", titles.len());
    let known = Finding::names();
    for title in &titles {
        assert!(known.contains(&title.as_str()), "no rule is named {title}");
    }
}

#[test]
fn this_kernel_refuses_each_and_rlat_says_why_and_where() {
    if !requirements::bpf() {
        return;
    }
    let has_setpriv = requirements::tool("setpriv", "util-linux");
    for example in examples() {
        if here(&example) == Here::NotKnown {
            continue;
        }
        let file = folder().join(format!("{}.s", example.name));
        let mut command = if example.needs_cap_bpf_alone() {
            if !has_setpriv {
                continue;
            }
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set=-all,+bpf", RLAT]);
            command
        } else {
            Command::new(RLAT)
        };
        let output = command.arg("verify").arg(&file).output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let said = format!("{}:\n{stdout}{stderr}", example.name);
        if here(&example) == Here::Accepted {
            assert_eq!(output.status.code(), Some(0), "{said}");
            continue;
        }
        assert_eq!(output.status.code(), Some(5), "{said}");
        assert!(stderr.is_empty(), "{said}");
        let (title, wrong) = example.expected(&version());
        assert!(stdout.contains(&format!("\n  {title}: ")), "{said}");
        assert!(stdout.contains("\n  what usually mends it: "), "{said}");
        if let Some(slot) = wrong {
            let line = example.listing.get(slot).unwrap().line.unwrap();
            let marked = stdout.lines().find(|line| line.starts_with("  > ")).unwrap_or_default();
            assert!(marked.starts_with(&format!("  > {line:>4}  {slot:>4}  ")), "{said}");
            assert!(marked.contains("; wrong"), "{said}");
        }
    }
}

/// How much of a log of a million lines is kept.
const LAST_BYTES: usize = 4096;

#[test]
fn logs_of_all_kernels_are_understood() {
    let examples = examples();
    if std::env::var_os("RLAT_BLESS").is_some() {
        bless(&examples);
    }
    let (mut kernels, mut wrong) = (0, Vec::new());
    for kernel in fs::read_dir(folder().join("logs")).unwrap() {
        let kernel = kernel.unwrap().path();
        kernels += 1;
        for example in &examples {
            let Ok(log) = fs::read(kernel.join(format!("{}.log", example.name))) else { continue };
            let refusal = VerifierError::read(Errno::EACCES, &example.listing, &log);
            let kernel = kernel.file_name().unwrap().to_str().unwrap();
            let what = example.misunderstood(kernel, &refusal);
            wrong.extend(what.map(|what| format!("{kernel}, {what}")));
            if refusal.statistics.is_none() && example.title != "bad map descriptor" {
                wrong.push(format!("{kernel}, {}: no statistics\n{}", example.name, refusal.log));
            }
            // Nothing is dropped.
            let log = String::from_utf8_lossy(&log).into_owned();
            let kept = log.lines().filter(|line| LogLine::read(line).kind != LineKind::Statistics);
            for line in kept {
                assert!(
                    refusal.log.lines().any(|shown| shown.starts_with(line.trim_end())),
                    "{line}"
                );
            }
        }
    }
    assert!(kernels > 0);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Writes the logs of the running kernel.
fn bless(examples: &[Example]) {
    let logs = folder().join("logs").join(version());
    fs::create_dir_all(&logs).unwrap();
    let may_leak = Privileges::read().has(Capability::Perfmon);
    for example in examples {
        if example.needs_cap_bpf_alone() == may_leak {
            continue;
        }
        let Some((_, log)) = example.raw_log() else { continue };
        let begin = log.len().saturating_sub(LAST_BYTES);
        let whole_line =
            log[begin..].iter().position(|byte| *byte == b'\n').map_or(begin, |at| begin + at + 1);
        let kept = if begin == 0 { &log[..] } else { &log[whole_line..] };
        fs::write(logs.join(format!("{}.log", example.name)), kept).unwrap();
    }
}
