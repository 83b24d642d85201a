//! The arguments of `rlat survey`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use clap::builder::ArgPredicate;

use super::duration::duration;
use super::values::id;

/// What `rlat survey` takes.
#[derive(Debug, Args)]
pub struct SurveyArgs {
    /// The processes to survey, with all their threads
    #[arg(
        value_name = "PID",
        required_unless_present = "start",
        value_parser = id,
        allow_negative_numbers = true
    )]
    pub processes: Vec<u32>,

    /// Survey also the processes that the surveyed ones fork from now on
    #[arg(long)]
    pub follow: bool,

    /// Start this command, and survey it from its first call to its end
    ///
    /// The table goes to standard error. For input, output, signals and exit status see `rlat --help`.
    #[arg(last = true, value_name = "CMD", conflicts_with = "processes")]
    pub start: Vec<OsString>,

    /// Run the command as this user, by name or number, with the groups of that user
    #[arg(long, value_name = "NAME", requires = "start", conflicts_with = "processes")]
    pub user: Option<String>,

    /// How long to survey: 500ms, 5s, 2m, 1h, or a number of seconds; 0 means until Ctrl-C
    ///
    /// A command is surveyed to its end if this is not given.
    #[arg(
        short,
        long,
        value_name = "TIME",
        default_value = "10s",
        default_value_if("start", ArgPredicate::IsPresent, "0"),
        value_parser = duration,
        allow_hyphen_values = true
    )]
    pub duration: Duration,

    /// Show the loading steps, the verifier's log and how often the programs ran, on standard error
    ///
    /// The kernel counts the runs of all BPF programs of the host meanwhile, which makes each take some
    /// ns longer.
    #[arg(short, long)]
    pub verbose: bool,
}
