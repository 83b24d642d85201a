//! The command line, defined once: parsing and help come from it.

mod cost;
mod duration;
mod programs;
mod survey;
mod values;
mod verify;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::ArgPredicate;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::histogram::Linear;
use crate::process::{StartStopped, User};
pub use cost::{CalibrationCallerArgs, CostArgs, CostFormat};
use duration::{duration, interval};
pub use programs::{AsmArgs, DisasmArgs, DumpArgs, DumpFormat};
pub use survey::SurveyArgs;
pub use values::{AttachArg, Format, LabelsArg, ReturnsArg, UnitArg};
use values::{buckets, descriptor, id, inherited_descriptor, linear, starts};
pub use verify::VerifyArgs;

const EXAMPLES: &str = "\
Examples:
  rlat 1234                     read() calls of process 1234, all its threads, for 30 seconds
  rlat 1234 7                   only those on descriptor 7
  rlat -d 5s 1234               for 5 seconds; also 500ms, 2m, 1h, or a bare number of seconds
  rlat -d 0 1234                until Ctrl-C
  rlat -i 1 1234                a histogram each second, then that of the whole time
  rlat --live 1234              the histogram as it grows
  rlat -- dd if=f of=/dev/null  a command, from its first call to its end
  rlat -v 1234 2>log            with the loading steps and the verifier's log
  rlat survey 1234              which system calls process 1234 makes, and how long each takes
  rlat survey --follow -- make  the same for a command, and for all that it starts
  rlat cost 1234                what measuring process 1234 would cost it, and others
  rlat list 'sys_enter_*read*'  what can be traced
  rlat dump 1234                the programs that `rlat 1234` would load
  rlat asm p.s -o p.o           programs from text to an object file; rlat disasm p.o: back
  rlat verify p.s               what the verifier says about them, and what it means
  rlat check                    whether rlat can work here, and what is missing

Ctrl-C ends the measurement early and prints what there is; a second one quits.

Exit codes: 0 measured, 1 other failure, 2 usage, 3 permission, 4 the kernel lacks something,
5 the verifier refused a program, 6 no such process. With a command: the command's own; 126 and 127
as in a shell when it cannot be started.";

/// Shows how long the read() calls of a process take, or its other system calls, as a histogram.
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
    /// Shows which system calls a process makes, how many, and how long they take
    Survey(SurveyArgs),
    /// Shows the programs that a measurement with these options would load
    ///
    /// Nothing is loaded, and no privilege is needed. Options that change how a result is shown, or how
    /// long it is waited for, change no program.
    Dump(Box<DumpArgs>),
    /// Assembles programs to an object file that libbpf and bpftool load
    Asm(AsmArgs),
    /// Shows the programs in an object file
    Disasm(DisasmArgs),
    /// Asks this kernel's verifier about the programs in a file, and explains what it says
    ///
    /// Maps are created from their definitions, and each program is loaded and let go of: nothing is attached.
    /// Exit code 0 when all are accepted, 5 when one is refused.
    Verify(VerifyArgs),
    /// Tells what the tracing costs here: each call, a process, or a command
    Cost(CostArgs),
    /// Shows the version, the kernel, the architecture and the distribution
    Version,
    /// Waits to become a command that is measured: rlat starts itself so
    #[command(hide = true)]
    StartStopped(StartStoppedArgs),
    /// Makes calls when told to: rlat starts itself so to calibrate
    #[command(hide = true)]
    CalibrationCaller(CalibrationCallerArgs),
}

/// What `rlat start-stopped` takes.
#[derive(Debug, Args)]
pub struct StartStoppedArgs {
    #[arg(long)]
    parent: u32,
    #[arg(long)]
    report: i32,
    #[arg(long, requires_all = ["gid", "groups"])]
    uid: Option<u32>,
    #[arg(long)]
    gid: Option<u32>,
    #[arg(long, value_delimiter = ',')]
    groups: Vec<u32>,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl StartStoppedArgs {
    /// The same for the process that waits.
    pub(crate) fn start(&self) -> StartStopped {
        let user = |(uid, gid)| User { uid, gid, groups: self.groups.clone() };
        StartStopped {
            parent: self.parent,
            report: self.report,
            user: self.uid.zip(self.gid).map(user),
            command: self.command.clone(),
        }
    }
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
#[allow(clippy::struct_excessive_bools)] // Flags that have nothing to do with each other.
pub struct MeasureArgs {
    /// The process to measure, with all its threads
    #[arg(
        value_name = "PID",
        value_parser = id,
        allow_negative_numbers = true,
        required_unless_present_any = ["version", "processes", "threads", "name", "cgroup", "all", "start"]
    )]
    pub process: Option<u32>,

    /// Measure only calls on this descriptor of the process
    #[arg(value_name = "FD", value_parser = descriptor, allow_negative_numbers = true)]
    pub descriptor: Option<u32>,

    /// System calls or groups to measure, such as read,write or @sync
    ///
    /// The groups are @read (read, pread64, readv, preadv, preadv2), @write (the same for write),
    /// @sync (fsync, fdatasync, sync_file_range, syncfs, sync, msync), @net (socket, bind, listen,
    /// accept, accept4, connect, shutdown, sendto, sendmsg, sendmmsg, recvfrom, recvmsg, recvmmsg),
    /// @poll (poll, ppoll, select, pselect6, epoll_wait, epoll_pwait, epoll_pwait2) and @open (open,
    /// openat, openat2, creat), as far as this kernel has them.
    #[arg(
        short = 'e',
        long = "syscall",
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "read"
    )]
    pub syscalls: Vec<String>,

    /// More processes to measure
    #[arg(
        short,
        long = "pid",
        value_name = "PID,...",
        value_delimiter = ',',
        value_parser = id,
        allow_hyphen_values = true
    )]
    pub processes: Vec<u32>,

    /// Measure these threads alone
    #[arg(
        long = "tid",
        value_name = "TID,...",
        value_delimiter = ',',
        value_parser = id,
        allow_hyphen_values = true,
        conflicts_with_all = ["process", "processes", "name", "cgroup", "all", "follow"]
    )]
    pub threads: Vec<u32>,

    /// Measure every thread of this name
    #[arg(
        long = "comm",
        value_name = "NAME",
        conflicts_with_all = ["process", "processes", "cgroup", "all", "follow"]
    )]
    pub name: Option<String>,

    /// Measure the processes of this control group (v2), and of those below it
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["process", "processes", "all", "follow"]
    )]
    pub cgroup: Option<PathBuf>,

    /// Measure the whole system, but for rlat itself
    #[arg(long, conflicts_with_all = ["process", "processes", "follow"])]
    pub all: bool,

    /// Measure also the processes that the measured ones fork from now on
    #[arg(long)]
    pub follow: bool,

    /// Start this command, and measure it from its first call to its end
    ///
    /// Its standard input, output and error are its own; the result goes to standard error. Its exit
    /// status becomes that of rlat, or 128 plus the signal that killed it, 127 when it was not found and
    /// 126 when it cannot be executed. SIGTERM and SIGHUP are passed on to it.
    #[arg(
        last = true,
        value_name = "CMD",
        conflicts_with_all = ["process", "processes", "threads", "name", "cgroup", "all"]
    )]
    pub start: Vec<OsString>,

    /// Run the command as this user, by name or number, with the groups of that user
    #[arg(
        long,
        value_name = "NAME",
        requires = "start",
        conflicts_with_all = ["process", "processes", "threads", "name", "cgroup", "all"]
    )]
    pub user: Option<String>,

    /// Measure only calls on this descriptor; can be given several times
    #[arg(long = "fd", value_name = "FD", value_parser = descriptor, allow_hyphen_values = true)]
    pub descriptors: Vec<u32>,

    /// Which calls to put into the histogram, by what they returned
    #[arg(long = "ret", value_name = "WHICH", default_value = "any")]
    pub returns: ReturnsArg,

    /// How long to measure: 500ms, 5s, 2m, 1h, or a number of seconds; 0 means until Ctrl-C
    ///
    /// A command is measured to its end if this is not given.
    #[arg(
        short,
        long,
        value_name = "TIME",
        default_value = "30s",
        default_value_if("start", ArgPredicate::IsPresent, "0"),
        value_parser = duration,
        allow_hyphen_values = true
    )]
    pub duration: Duration,

    /// Show also each TIME by itself, at least 100ms: the intervals add up exactly to the whole
    #[arg(short, long, value_name = "TIME", value_parser = interval, allow_hyphen_values = true)]
    pub interval: Option<Duration>,

    /// Redraw the histogram in place each --interval, or each second; where standard output is no
    /// terminal that can do it, with -o, with a command, and as JSON or CSV, print the intervals
    #[arg(long)]
    pub live: bool,

    /// Write "ready" and a line break to this descriptor when the window is open, and close it
    #[arg(long, value_name = "FD", value_parser = inherited_descriptor, allow_hyphen_values = true)]
    pub ready_fd: Option<u32>,

    /// Show 2^K buckets for each power of two, K in 0 to 5
    #[arg(short, long = "buckets", value_name = "K", default_value = "0", value_parser = buckets, allow_hyphen_values = true)]
    pub buckets: u32,

    /// Show buckets of one width instead: from MIN to MAX, each STEP wide
    #[arg(long, value_name = "MIN,MAX,STEP", value_parser = linear, allow_hyphen_values = true, conflicts_with = "buckets")]
    pub linear: Option<Linear>,

    /// What the buckets count
    #[arg(long, value_name = "UNIT", default_value = "us")]
    pub unit: UnitArg,

    /// How to write the buckets' edges: as bpftrace does, where 1K is 1024, or as times
    #[arg(long, value_name = "HOW", default_value = "power")]
    pub labels: LabelsArg,

    /// How to print the result
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub format: Format,

    /// Write the result to FILE, which is replaced when the result is complete
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Text to put into the result, such as the state of the cache, or the input
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,

    /// Which tracepoints to attach to
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    pub attach: AttachArg,

    /// Before, measure for two seconds what the tracing costs here, and put it into the result
    #[arg(long)]
    pub calibrate: bool,

    /// Keep room for exactly N threads in the store of starts
    ///
    /// By default there is room for every thread that can live, or on kernels before Linux 6.1 for four
    /// times the threads that the processes have, but at least 4096. Calls that find no room are counted
    /// as lost.
    #[arg(long, value_name = "N", value_parser = starts)]
    pub starts: Option<u32>,

    /// Show the loading steps, the verifier's log and how often the programs ran, on standard error
    ///
    /// The kernel counts the runs of all BPF programs of the host meanwhile, which makes each take some
    /// ns longer.
    #[arg(short, long)]
    pub verbose: bool,

    /// Where tracefs is mounted; found, or mounted for rlat alone, when not given
    #[arg(long, value_name = "DIR")]
    pub tracefs: Option<PathBuf>,
}

impl MeasureArgs {
    /// How long each interval is, if any are to be shown.
    pub(crate) fn interval_length(&self) -> Option<Duration> {
        const REDRAW_EVERY: Duration = Duration::from_secs(1);
        self.interval.or(self.live.then_some(REDRAW_EVERY))
    }
}

/// Parses the arguments of this process.
///
/// # Errors
/// Also help is such an "error", with exit code 0.
pub fn parse() -> Result<Cli, clap::Error> {
    Cli::try_parse_from(as_subcommand(std::env::args_os().collect()))
}

/// `rlat -l GLOB`, `rlat -lv GLOB` and `rlat -v -l GLOB`, as people type them in bpftrace, are `rlat list
/// [-v] GLOB`.
fn as_subcommand(mut args: Vec<OsString>) -> Vec<OsString> {
    let is_flag =
        |arg: &&OsString| ["-l", "-v", "-lv", "-vl", "--verbose"].iter().any(|flag| arg == flag);
    let flags: Vec<&OsString> = args.iter().skip(1).take_while(is_flag).collect();
    if flags.iter().any(|flag| flag.as_encoded_bytes().ends_with(b"l") || *flag == "-lv") {
        let verbose = flags.iter().any(|flag| *flag != "-l").then(|| "-v".into());
        let count = flags.len();
        args.splice(1..=count, ["list".into()].into_iter().chain(verbose));
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
        for line in [
            "rlat list -v sys_enter_*",
            "rlat -lv sys_enter_*",
            "rlat -vl sys_enter_*",
            "rlat -v -l sys_enter_*",
            "rlat -l -v sys_enter_*",
            "rlat --verbose -l sys_enter_*",
            "rlat -l sys_enter_* -v",
        ] {
            let Some(Command::List(list)) = parse(line).unwrap().command else { panic!("{line}") };
            assert!(list.verbose);
            assert_eq!(list.glob.as_deref(), Some("sys_enter_*"));
        }
        assert!(parse("rlat -v 12").unwrap().command.is_none());
        assert!(parse("rlat -v -- -l").unwrap().command.is_none());
    }

    #[test]
    fn a_linear_histogram_needs_three_numbers_that_fit_together() {
        assert_eq!(linear("0,100,30"), Ok(Linear::new(0, 100, 30).unwrap()));
        for bad in ["", "1", "1,2", "1,2,3,4", "-1,2,1", "0,10,0", "0,0,1", "a,b,c", "0,1e3,1"] {
            assert!(linear(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_standard_descriptors_and_what_is_no_number_cannot_tell_that_it_is_ready() {
        assert_eq!(parse("rlat --ready-fd 3 12").unwrap().measure.ready_fd, Some(3));
        for bad in ["0", "2", "-1", "2147483648", "x"] {
            assert!(parse(&format!("rlat --ready-fd {bad} 12")).is_err(), "{bad}");
        }
    }

    #[test]
    fn something_to_measure_is_needed_unless_the_version_is_asked_for() {
        assert!(parse("rlat -d 5").is_err());
        assert!(parse("rlat --all").is_ok());
        assert!(parse("rlat --all 1234").is_err());
        assert!(parse("rlat --version -v").unwrap().version);
        assert_eq!(parse("rlat 12 7").unwrap().measure.descriptor, Some(7));
    }

    #[test]
    fn a_command_takes_all_that_follows_and_is_measured_to_its_end() {
        let args = parse("rlat --follow -- list -v 7").unwrap();
        assert!(args.command.is_none() && args.measure.process.is_none());
        assert_eq!(args.measure.start, ["list", "-v", "7"]);
        assert_eq!(args.measure.duration, Duration::ZERO);
        let seconds = |line| parse(line).unwrap().measure.duration.as_secs();
        assert_eq!(seconds("rlat -d 5 -- x"), 5);
        assert_eq!(seconds("rlat 1"), 30);
        for bad in ["rlat 1 -- x", "rlat --all -- x", "rlat --tid 3 -- x", "rlat --user root 1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_waits_to_be_the_command_gets_its_arguments() {
        let line = "rlat start-stopped --parent=1 --report=5 --uid=2 --gid=3 --groups=3,4 -- x -d";
        let Some(Command::StartStopped(args)) = parse(line).unwrap().command else { panic!() };
        let start = args.start();
        assert_eq!((start.parent, start.report), (1, 5));
        assert_eq!(start.user, Some(User { uid: 2, gid: 3, groups: vec![3, 4] }));
        assert_eq!(start.command, ["x", "-d"]);
        assert!(parse("rlat start-stopped --parent=1 --report=5 --uid=2 -- x").is_err());
    }
}
