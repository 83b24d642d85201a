//! What `rlat verify` takes.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::loader::KINDS;

/// What `rlat verify` takes.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Programs as text, as `rlat asm` reads them, or an object file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Only this section, such as tracepoint/syscalls/sys_enter_read
    #[arg(value_name = "SECTION")]
    pub section: Option<String>,

    /// The type of the programs; told by the name of their section when not given
    #[arg(
        long = "type",
        value_name = "TYPE",
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(KINDS.map(|kind| kind.name))
    )]
    pub kind: Option<String>,

    /// Show the whole log, of accepted programs too
    #[arg(short, long)]
    pub verbose: bool,
}
