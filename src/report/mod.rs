//! What a measurement found, and how it is told.
//!
//! Each file here turns an [`Outcome`](crate::latency::Outcome), which is plain data, into one output
//! format. Nothing in this room asks the system anything, so every format is tested on any machine.
//!
//! - [`text`]: the result for people, with the histogram as bpftrace draws it ([`rows`]).
//! - [`survey`]: the table of a survey, for people.
//! - [`preflight`]: what `rlat check` found, for people and as JSON.
//! - [`json`]: the result for programs, with all that is known; [`meta`] has what it says beside the numbers.
//! - [`cost`]: what the tracing costs, for people and as JSON.
//! - [`csv`]: the buckets alone.
//! - [`mod@utc`]: moments as RFC 3339 has them.

pub mod cost;
pub mod csv;
pub mod json;
pub mod meta;
pub mod numbers;
pub mod preflight;
pub mod rows;
pub mod survey;
pub mod text;
pub mod utc;
pub mod verdict;

use std::time::{Duration, SystemTime};

use crate::histogram::Unit;
use crate::latency::Snapshot;

/// How histograms are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Logarithmic buckets: 2^k for each power of two, k in 0 to 5.
    pub k: u32,
    /// How their edges are written in text.
    pub labels: Labels,
}

/// How the edges of buckets are written in text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// As bpftrace does: `[1K, 2K)`, where K is 1,024.
    #[default]
    Power,
    /// As times: `[1.02ms, 2.05ms)`.
    Time,
}

/// One interval of a measurement, and what was counted in it.
#[derive(Clone, Debug)]
pub struct Interval {
    /// The first one is 1.
    pub number: u64,
    /// When it began, since the window opened.
    pub start: Duration,
    /// When it ended, since the window opened.
    pub end: Duration,
    /// The same by the clock on the wall.
    pub ended: SystemTime,
    /// What came into the histograms.
    pub counted: Snapshot,
}

/// What bpftrace would call the count of calls: `@calls`, or `@read_calls` beside those of others.
fn counter_name(syscall: &str, several: bool) -> String {
    if several { format!("@{syscall}_calls") } else { "@calls".to_owned() }
}

/// What bpftrace would call the histogram: `@read_us`.
fn histogram_name(syscall: &str, unit: Unit) -> String {
    format!("@{syscall}_{}", unit.name())
}
