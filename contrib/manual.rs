//! Writes the manual pages and the completions for shells, from the one definition of the command line.
//!
//! ```text
//! manual DIR   writes DIR/man/*.1 and DIR/completions/*
//! ```
//!
//! An example, so that what it needs is no part of rlat. `scripts/package` runs it.

use std::io;
use std::path::PathBuf;

use clap::CommandFactory as _;
use clap_complete::Shell;
use rlat::cli::Cli;

fn main() -> io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("manual DIR"));
    };
    let (manual, completions) = (folder.join("man"), folder.join("completions"));
    std::fs::create_dir_all(&manual)?;
    std::fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(Cli::command().version(env!("CARGO_PKG_VERSION")), manual)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut visible(), "rlat", &completions)?;
    }
    Ok(())
}

/// The command line without what rlat calls itself by.
fn visible() -> clap::Command {
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    clap::Command::new("rlat").args(all.get_arguments().cloned()).subcommands(shown)
}
