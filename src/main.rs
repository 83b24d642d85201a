//! rlat: how long do the read() calls of a process take?

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser as _;
use rlat::cli::Cli;
use rlat::commands;

fn main() -> ExitCode {
    let started = Instant::now();
    match Cli::try_parse() {
        Ok(cli) => ExitCode::from(commands::measure(&cli, started)),
        // Help and version come here, too, with exit code 0; but not if they could not be printed.
        Err(error) => match error.print() {
            Ok(()) => ExitCode::from(error.exit_code() as u8),
            Err(_) => ExitCode::FAILURE,
        },
    }
}
