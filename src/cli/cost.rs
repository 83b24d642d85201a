//! What `rlat cost` takes, and what the processes that it starts take.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::RangedI64ValueParser;
use clap::{Args, ValueEnum};

use super::values::{AttachArg, descriptor, id};

/// What `rlat cost` takes.
#[derive(Debug, Args)]
pub struct CostArgs {
    /// The process whose calls would be measured
    #[arg(value_name = "PID", value_parser = id, required_unless_present = "start")]
    pub process: Option<u32>,

    /// System calls or groups to measure, such as read,write or @sync
    #[arg(
        short = 'e',
        long = "syscall",
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "read"
    )]
    pub syscalls: Vec<String>,

    /// Measure only calls on this descriptor; can be given several times
    #[arg(long = "fd", value_name = "FD", value_parser = descriptor)]
    pub descriptors: Vec<u32>,

    /// Measure also the processes that it forks
    #[arg(long)]
    pub follow: bool,

    /// Which tracepoints to attach to
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    pub attach: AttachArg,

    /// Run the command N times without and N times with tracing, 1 to 500
    #[arg(
        short = 'n',
        long = "runs",
        value_name = "N",
        default_value = "10",
        value_parser = runs(),
        conflicts_with = "process"
    )]
    pub runs: u32,

    /// How to print the result
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub format: CostFormat,

    /// Show the loading steps on standard error
    #[arg(short, long)]
    pub verbose: bool,

    /// Where tracefs is mounted; found, or mounted for rlat alone, when not given
    #[arg(long, value_name = "DIR")]
    pub tracefs: Option<PathBuf>,

    /// Run this command, without and with tracing in turn
    ///
    /// It reads and writes /dev/null in place of standard input, output and error.
    #[arg(last = true, value_name = "CMD", conflicts_with = "process")]
    pub start: Vec<OsString>,
}

/// How `rlat cost` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CostFormat {
    /// A table, and a line for each finding
    Text,
    /// One JSON object a line
    Json,
}

/// What a process that makes calls for a calibration takes.
#[derive(Debug, Args)]
pub struct CalibrationCallerArgs {
    /// The CPU to run on
    pub cpu: usize,
}

/// A sum over all pairs of runs is made for each of them.
fn runs() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=500)
}
