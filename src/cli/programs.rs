//! What the commands take that show, read and write programs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::MeasureArgs;

/// What `rlat dump` takes.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// How to show the programs
    #[arg(long = "as", value_name = "FORM", default_value = "text")]
    pub form: DumpFormat,

    /// What would be measured, and how.
    #[command(flatten)]
    pub measure: MeasureArgs,

    /// Here for what names it in the arguments above, and it does what it does without a command.
    #[arg(short = 'V', long, hide = true)]
    pub version: bool,
}

/// How `rlat dump` shows programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DumpFormat {
    /// Each instruction with its bytes, its text and its comment
    Text,
    /// The bytes, 8 a line
    Hex,
    /// An array of struct bpf_insn in C for each program
    C,
    /// An object file for libbpf and bpftool
    Elf,
}

/// What `rlat asm` takes.
#[derive(Debug, Args)]
pub struct AsmArgs {
    /// The programs as text, in the syntax of `rlat disasm`
    #[arg(value_name = "FILE.s")]
    pub file: PathBuf,

    /// The object file to write
    #[arg(short, long, value_name = "FILE.o")]
    pub output: PathBuf,
}

/// What `rlat disasm` takes.
#[derive(Debug, Args)]
pub struct DisasmArgs {
    /// An object file for BPF, of `rlat asm` or of a compiler
    #[arg(value_name = "FILE.o")]
    pub file: PathBuf,

    /// Only this section, such as tracepoint/syscalls/sys_enter_read
    #[arg(value_name = "SECTION")]
    pub section: Option<String>,
}
