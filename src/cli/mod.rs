//! The command line, defined once: parsing and help come from it.

mod duration;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use duration::duration;

const EXAMPLES: &str = "\
Examples:
  rlat 1234                     read() calls of process 1234, all its threads, for 30 seconds
  rlat 1234 7                   only those on descriptor 7
  rlat -d 5s 1234               for 5 seconds; also 500ms, 2m, 1h, or a bare number of seconds
  rlat -d 0 1234                until Ctrl-C
  rlat -v 1234 2>log            with the loading steps and the verifier's log
  rlat list 'sys_enter_*read*'  what can be traced
  rlat check                    whether rlat can work here, and what is missing

Ctrl-C ends the measurement early and prints what there is; a second one quits.

Exit codes: 0 measured, 1 other failure, 2 usage, 3 permission, 4 the kernel lacks something,
5 the verifier refused a program, 6 no such process.";

/// Shows how long the read() calls of a process take, as a histogram.
#[derive(Debug, Parser)]
#[command(
    name = "rlat",
    disable_version_flag = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = EXAMPLES,
    max_term_width = 100
)]
pub struct Cli {
    /// Another command than to measure.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// What to measure, and how.
    #[command(flatten)]
    pub measure: MeasureArgs,

    /// Show the version; with -v also the kernel, the architecture and the distribution
    #[arg(short = 'V', long)]
    pub version: bool,
}

/// The commands that have a name.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the tracepoints of this kernel
    List(ListArgs),
    /// Tells whether rlat can work here, and what is missing
    Check(CheckArgs),
    /// Shows the version, the kernel, the architecture and the distribution
    Version,
}

/// What `rlat list` takes.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only tracepoints that match, such as 'tracepoint:syscalls:sys_*_read' or 'sys_enter_p*'
    #[arg(value_name = "GLOB")]
    pub glob: Option<String>,

    /// Add each argument with its type, offset and size
    #[arg(short, long)]
    pub verbose: bool,

    /// Where tracefs is mounted; found, or mounted for rlat alone, when not given
    #[arg(long, value_name = "DIR")]
    pub tracefs: Option<PathBuf>,
}

/// What `rlat check` takes.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// How to print the answers
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub format: CheckFormat,

    /// Where tracefs is mounted; found, or mounted for rlat alone, when not given
    #[arg(long, value_name = "DIR")]
    pub tracefs: Option<PathBuf>,
}

/// How `rlat check` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// A line for each question
    Text,
    /// One JSON object
    Json,
}

/// What a measurement takes.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// The process to measure, with all its threads
    #[arg(
        value_name = "PID",
        required_unless_present = "version",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX))
    )]
    pub pid: Option<u32>,

    /// Measure only read() calls on this descriptor of the process
    #[arg(value_name = "FD", value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX)))]
    pub descriptor: Option<u32>,

    /// How long to measure: 500ms, 5s, 2m, 1h, or a number of seconds; 0 means until Ctrl-C
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub duration: Duration,

    /// Show the loading steps and the verifier's log on standard error
    #[arg(short, long)]
    pub verbose: bool,

    /// Where tracefs is mounted; found, or mounted for rlat alone, when not given
    #[arg(long, value_name = "DIR")]
    pub tracefs: Option<PathBuf>,
}

/// Parses the arguments of this process.
///
/// # Errors
/// Also help is such an "error", with exit code 0.
pub fn parse() -> Result<Cli, clap::Error> {
    Cli::try_parse_from(as_subcommand(std::env::args_os().collect()))
}

/// `rlat -l GLOB` and `rlat -lv GLOB`, as people type them in bpftrace, are `rlat list [-v] GLOB`.
fn as_subcommand(mut args: Vec<OsString>) -> Vec<OsString> {
    let Some(flags) = args.get(1) else { return args };
    if flags == "-l" || flags == "-lv" || flags == "-vl" {
        let verbose = (flags != "-l").then(|| "-v".into());
        args.splice(1..2, ["list".into()].into_iter().chain(verbose));
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        let words = line.split(' ').map(OsString::from).collect();
        Cli::try_parse_from(as_subcommand(words))
    }

    #[test]
    fn the_definition_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn a_list_is_asked_for_in_two_ways() {
        for line in ["rlat list -v sys_enter_*", "rlat -lv sys_enter_*"] {
            let Some(Command::List(list)) = parse(line).unwrap().command else { panic!("{line}") };
            assert!(list.verbose);
            assert_eq!(list.glob.as_deref(), Some("sys_enter_*"));
        }
    }

    #[test]
    fn a_process_is_needed_unless_something_else_is_asked() {
        assert!(parse("rlat -d 5").is_err());
        assert!(parse("rlat --version -v").unwrap().version);
        assert_eq!(parse("rlat 12 7").unwrap().measure.descriptor, Some(7));
    }
}
