//! What the protocol of a measurement says beside the numbers: where, when, of whom and how.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::calibration::Calibration;
use crate::histogram::{Linear, Unit};
use crate::host::Host;
use crate::latency::{Returns, Way};

/// The clock that all times are differences of, and that `bpf_ktime_get_ns` reads: it does not jump, and
/// stands still while the machine sleeps.
pub const CLOCK: &str = "CLOCK_MONOTONIC";

/// Everything about a measurement that is known when its window opens.
///
/// Names and arguments are the bytes that their processes chose, and nothing here is escaped.
#[derive(Clone, Debug)]
pub struct Meta {
    /// The version of rlat.
    pub version: &'static str,
    /// How rlat was called, with its own name first.
    pub command_line: Vec<Vec<u8>>,
    /// What it ran on.
    pub host: Host,
    /// The machine's CPUs.
    pub cpus: Cpus,
    /// When the window opened, by the clock on the wall.
    pub started: SystemTime,
    /// Which calls, in the order asked for.
    pub syscalls: Vec<String>,
    /// Whose calls.
    pub subject: Whom,
    /// The processes that were named one by one.
    pub targets: Vec<Measured>,
    /// How it was measured.
    pub options: Options,
    /// What the user adds for later: the state of the cache, the input.
    pub note: Option<String>,
    /// What the tracing costs, if that was measured before.
    pub calibration: Option<Calibration>,
}

/// How many CPUs there are; `None` where /sys does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpus {
    /// Those that ran tasks when the window opened.
    pub online: Option<usize>,
    /// Those that could be online on this kernel, which sizes its memory by them.
    pub possible: Option<usize>,
}

/// Whose calls were measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Those of the targets.
    Processes,
    /// Those of one thread of each target.
    Threads,
    /// Those of the targets and of what they forked.
    Family,
    /// Those of all threads of that name.
    Named(String),
    /// Those of a control group.
    ControlGroup(PathBuf),
    /// Those of everybody but rlat.
    All,
}

/// A process that was measured, as it was before the window opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Its process id, as rlat saw it.
    pub pid: u32,
    /// The thread that was asked for, if it was one.
    pub tid: Option<u32>,
    /// The name of its leader.
    pub name: String,
    /// Its command line; empty where that could not be read.
    pub command_line: Vec<Vec<u8>>,
    /// How many threads it had.
    pub threads: usize,
}

/// How it was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// For how long, at most; `None` means until a signal or the end of the targets.
    pub duration: Option<Duration>,
    /// How long each interval is that is shown by itself; `None` means that there are none.
    pub interval: Option<Duration>,
    /// Only calls on one of these descriptors; none means any.
    pub descriptors: Vec<u32>,
    /// Which calls were put into the histogram, by what they returned.
    pub returns: Returns,
    /// What the buckets count.
    pub unit: Unit,
    /// 2^k buckets for each power of two, unless they are linear.
    pub k: u32,
    /// The edges of linear buckets.
    pub linear: Option<Linear>,
    /// Where the programs were attached.
    pub way: Way,
}
