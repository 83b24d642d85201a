//! What one measurement found.

use std::time::Duration;

use super::{InFlight, Ledger};
use crate::histogram::Histogram;

/// The whole result of one measurement.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The latencies of the recorded calls.
    pub histogram: Histogram,
    /// Where every call that entered has gone.
    pub ledger: Ledger,
    /// The calls that had not returned when the window closed.
    pub in_flight: Vec<InFlight>,
    /// How long the window was open.
    pub window: Duration,
    /// What closed it.
    pub closed_by: ClosedBy,
}

/// What closed the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedBy {
    /// The time was over.
    Time,
    /// The process ended.
    TargetEnd,
    /// A signal asked for the result.
    Signal,
}
