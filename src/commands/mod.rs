//! What a user can ask for, one file each.

mod asm;
mod check;
mod cost;
mod disasm;
mod dump;
mod files;
mod hints;
mod intervals;
mod list;
mod live;
mod looks;
mod measure;
mod output;
mod progress;
mod protocol;
mod ready;
mod run_statistics;
mod set_id;
mod signals;
mod survey;
mod verify;
mod version;
mod window;

use std::io::{self, Write as _};
use std::time::Instant;

use crate::calibration::be_caller;
use crate::cli::{Cli, Command};
use crate::error::Cause;
use crate::escape::printable;

/// Does what the command line asks for, and returns the exit code. `started` is when the program
/// began.
pub fn run(cli: &Cli, started: Instant) -> u8 {
    let mut exit_code = 0;
    if let Err(error) = set_id::refuse() {
        say(&format!("rlat: {error}"));
        return error.kind.exit_code();
    }
    let result = match &cli.command {
        Some(Command::List(args)) => list::list(args),
        Some(Command::Check(args)) => check::check(args),
        Some(Command::Survey(args)) => survey::survey(args, started).map(|code| exit_code = code),
        Some(Command::Dump(args)) if args.version => version::version(args.measure.verbose),
        Some(Command::Dump(args)) => dump::dump(args),
        Some(Command::Asm(args)) => asm::asm(args),
        Some(Command::Disasm(args)) => disasm::disasm(args),
        Some(Command::Verify(args)) => verify::verify(args).map(|code| exit_code = code),
        Some(Command::Cost(args)) => cost::cost(args).map(|code| exit_code = code),
        Some(Command::CalibrationCaller(args)) => {
            return u8::from(be_caller(args.cpu).is_err());
        }
        Some(Command::Version) => version::version(true),
        None if cli.version => version::version(cli.measure.verbose),
        Some(Command::StartStopped(args)) => return args.start().run(),
        None => measure::measure(&cli.measure, started).map(|code| exit_code = code),
    };
    match result {
        Ok(()) => exit_code,
        Err(error) => {
            let verbose = match &cli.command {
                Some(Command::Survey(args)) => args.verbose,
                Some(Command::Cost(args)) => args.verbose,
                _ => cli.measure.verbose,
            };
            if let (true, Cause::Verifier(refusal)) = (verbose, &error.cause) {
                say(&format!("the verifier's log:\n{}", refusal.log));
            }
            if !output::is_quiet(&error) {
                say(&format!("rlat: {error}"));
            }
            error.kind.exit_code()
        }
    }
}

/// A line on standard error. Where that is closed or full there is nobody left to tell.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(text));
}
