//! rlat: how long do the read() calls of a process take?

use std::process::ExitCode;
use std::time::Instant;

use rlat::{cli, commands};

fn main() -> ExitCode {
    let started = Instant::now();
    match cli::parse() {
        Ok(cli) => ExitCode::from(commands::run(&cli, started)),
        // Help comes here, too, with exit code 0; but not if it could not be printed.
        Err(error) => match error.print() {
            Ok(()) => ExitCode::from(error.exit_code() as u8),
            Err(_) => ExitCode::FAILURE,
        },
    }
}
