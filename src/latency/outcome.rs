//! What one measurement found.

use std::time::Duration;

use super::{InFlight, Ledger, MissedRuns, Unfollowed};
use crate::histogram::{Histogram, LinearHistogram};

/// The whole result of one measurement.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Each measured system call, in the order asked for.
    pub calls: Vec<Call>,
    /// How often the kernel skipped one of the programs, or `None` where it does not count that.
    pub missed_runs: Option<MissedRuns>,
    /// Children that may be missing, where children were to be followed.
    pub unfollowed: Option<Unfollowed>,
    /// How long the window was open.
    pub window: Duration,
    /// What closed it.
    pub closed_by: ClosedBy,
}

/// What was found about one system call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its name.
    pub syscall: String,
    /// The latencies of the recorded calls, or of those that were asked for by what they returned.
    pub histogram: Histogram,
    /// The same in linear buckets, if those were asked for.
    pub linear: Option<LinearHistogram>,
    /// Where every call that entered has gone.
    pub ledger: Ledger,
    /// The calls that had not returned when the window closed.
    pub in_flight: Vec<InFlight>,
}

/// What closed the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedBy {
    /// The time was over.
    Time,
    /// The processes ended.
    TargetEnd,
    /// A signal asked for the result.
    Signal,
    /// The output took no more of the intervals.
    Output,
}
