//! The lines as types: each field here is one in the file, in this order.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use crate::histogram;
use crate::report::cost::CalibrationData;
use crate::report::text::error_name;

/// A line: `{"type": "map", "data": {"@calls": 2}}`.
#[derive(serde::Serialize)]
#[serde(tag = "type", content = "data", rename_all = "lowercase")]
pub(super) enum Line<'a> {
    Meta(Box<Protocol<'a>>),
    Interval(IntervalTimes),
    Total(Total),
    Map(Named<Count>),
    Hist(Named<Vec<Row>>),
    Summary(Summary<'a>),
    Ledger(LedgerCounts<'a>),
    InFlight(CallInFlight<'a>),
    End(End),
}

/// An object with this one key.
pub(super) struct Named<T>(pub(super) String, pub(super) T);

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(&self.0, &self.1)])
    }
}

/// A number in a line of bpftrace's shape. One that is no `f64`, as most above 2^53 are not, is a string,
/// so that no reader rounds it: bpftrace 0.27 does the same, and 0.17 had numbers only.
pub(super) struct Count(pub(super) u64);

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_whole_in_f64 = self.0 as f64 as u128 == u128::from(self.0);
        if is_whole_in_f64 {
            serializer.serialize_u64(self.0)
        } else {
            serializer.collect_str(&self.0)
        }
    }
}

/// An object with these keys in this order.
pub(super) struct Entries<T>(pub(super) Vec<(String, T)>);

impl<T: Serialize> Serialize for Entries<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// Counts by the name of an error.
pub(super) struct Errors<'a>(pub(super) &'a [(i32, u64)]);

impl Serialize for Errors<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (errno, count) in self.0 {
            let name = if *errno == 0 { "other".to_owned() } else { error_name(*errno) };
            map.serialize_entry(&name, count)?;
        }
        map.end()
    }
}

#[derive(serde::Serialize)]
pub(super) struct Protocol<'a> {
    pub(super) rlat: &'static str,
    pub(super) command_line: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command_line_hex: Option<Vec<String>>,
    pub(super) kernel: Option<&'a str>,
    pub(super) architecture: Option<&'a str>,
    pub(super) distribution: Option<&'a str>,
    pub(super) cpus: Cpus,
    pub(super) started: String,
    pub(super) clock: &'static str,
    pub(super) unit: &'static str,
    pub(super) syscalls: &'a [String],
    pub(super) subject: Subject<'a>,
    pub(super) targets: Vec<Target<'a>>,
    pub(super) options: Options<'a>,
    pub(super) note: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) calibration: Option<CalibrationData>,
}

#[derive(serde::Serialize)]
pub(super) struct Cpus {
    pub(super) online: Option<usize>,
    pub(super) possible: Option<usize>,
}

#[derive(serde::Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Subject<'a> {
    Processes,
    Threads,
    Family,
    Comm { name: &'a str },
    Cgroup { path: Cow<'a, str> },
    All,
}

#[derive(serde::Serialize)]
pub(super) struct Target<'a> {
    pub(super) pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tid: Option<u32>,
    pub(super) name: &'a str,
    pub(super) command_line: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command_line_hex: Option<Vec<String>>,
    pub(super) threads: usize,
}

#[derive(serde::Serialize)]
pub(super) struct Options<'a> {
    pub(super) duration_ns: Option<u128>,
    pub(super) interval_ns: Option<u128>,
    pub(super) fd: &'a [u32],
    pub(super) ret: &'static str,
    pub(super) buckets: Option<u32>,
    pub(super) linear: Option<Linear>,
    pub(super) attach: &'static str,
}

#[derive(serde::Serialize)]
pub(super) struct Linear {
    pub(super) min: u64,
    pub(super) step: u64,
    pub(super) overflow_from: u64,
}

#[derive(serde::Serialize)]
pub(super) struct IntervalTimes {
    pub(super) number: u64,
    pub(super) start_ns: u128,
    pub(super) end_ns: u128,
    pub(super) ended: String,
}

#[derive(serde::Serialize)]
pub(super) struct Total {
    pub(super) intervals: u64,
}

/// A bucket; a linear histogram's row of too small values has no `min`, that of too large ones no `max`.
#[derive(serde::Serialize)]
pub(super) struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<Count>,
    count: Count,
}

impl From<&histogram::Row> for Row {
    fn from(row: &histogram::Row) -> Self {
        Self { min: Some(Count(row.min)), max: Some(Count(row.max)), count: Count(row.count) }
    }
}

impl From<&histogram::LinearRow> for Row {
    fn from(row: &histogram::LinearRow) -> Self {
        Self { min: row.min.map(Count), max: row.max.map(Count), count: Count(row.count) }
    }
}

#[derive(serde::Serialize)]
pub(super) struct Summary<'a> {
    pub(super) syscall: &'a str,
    pub(super) count: u64,
    pub(super) min_ns: Option<u64>,
    pub(super) mean_ns: Option<u64>,
    pub(super) max_ns: Option<u64>,
    pub(super) sum_ns: u64,
    pub(super) unit: &'static str,
    pub(super) percentiles: Entries<Option<u64>>,
}

#[derive(serde::Serialize)]
pub(super) struct LedgerCounts<'a> {
    pub(super) syscall: &'a str,
    pub(super) entered: u64,
    pub(super) recorded: u64,
    pub(super) in_flight: u64,
    pub(super) ended_without_exit: u64,
    pub(super) lost: LostCounts,
    pub(super) balance: i128,
    pub(super) adds_up: bool,
    pub(super) exits_without_start: u64,
    pub(super) in_flight_since_before: Option<u64>,
    pub(super) restarted: u64,
    pub(super) excluded: u64,
    pub(super) returned_zero: u64,
    pub(super) returned_error: u64,
    pub(super) errors: Errors<'a>,
}

#[derive(serde::Serialize)]
pub(super) struct LostCounts {
    pub(super) store_full: u64,
    pub(super) exit_missed: u64,
    pub(super) entry_missed: u64,
    pub(super) negative: u64,
}

#[derive(serde::Serialize)]
pub(super) struct CallInFlight<'a> {
    pub(super) syscall: &'a str,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) thread: &'a str,
    pub(super) fd: Option<i32>,
    pub(super) target: Option<&'a str>,
    pub(super) elapsed_ns: u128,
    pub(super) since_before_window: bool,
}

#[derive(serde::Serialize)]
pub(super) struct End {
    pub(super) window_ns: u128,
    pub(super) closed_by: &'static str,
    pub(super) missed_runs: Option<Missed>,
    pub(super) unfollowed: Option<UnfollowedChildren>,
}

#[derive(serde::Serialize)]
pub(super) struct UnfollowedChildren {
    pub(super) no_room: u64,
    pub(super) missed_forks: Option<u64>,
}

#[derive(serde::Serialize)]
pub(super) struct Missed {
    pub(super) entry: u64,
    pub(super) exit: u64,
    pub(super) thread_end: u64,
}
