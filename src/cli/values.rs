//! The values that options take, and what they mean inside.

use clap::ValueEnum;
use clap::builder::RangedI64ValueParser;

use crate::histogram::log2::RECORDED_K;
use crate::histogram::{Linear, Unit};
use crate::latency::{AttachChoice, Returns};
use crate::report::Labels;

/// How a measurement is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Histograms as bpftrace draws them, a summary and the ledger
    Text,
    /// One JSON object a line, with all that is known
    Json,
    /// The buckets alone, one a line
    Csv,
}

/// Calls by what they returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReturnsArg {
    /// All
    Any,
    /// 0 or more
    Ok,
    /// An error
    Error,
    /// 0
    Zero,
}

impl From<ReturnsArg> for Returns {
    fn from(arg: ReturnsArg) -> Self {
        match arg {
            ReturnsArg::Any => Self::Any,
            ReturnsArg::Ok => Self::Ok,
            ReturnsArg::Error => Self::Error,
            ReturnsArg::Zero => Self::Zero,
        }
    }
}

/// Units of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UnitArg {
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
    /// Milliseconds
    Ms,
    /// Seconds
    S,
}

impl From<UnitArg> for Unit {
    fn from(arg: UnitArg) -> Self {
        match arg {
            UnitArg::Ns => Self::Ns,
            UnitArg::Us => Self::Us,
            UnitArg::Ms => Self::Ms,
            UnitArg::S => Self::S,
        }
    }
}

/// How the edges of buckets are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LabelsArg {
    /// `[1K, 2K)`
    Power,
    /// `[1.02ms, 2.04ms)`
    Time,
}

impl From<LabelsArg> for Labels {
    fn from(arg: LabelsArg) -> Self {
        match arg {
            LabelsArg::Power => Self::Power,
            LabelsArg::Time => Self::Time,
        }
    }
}

/// Where to attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttachArg {
    /// What fits: the calls' own tracepoints, or raw where they are missing or the worse choice
    Auto,
    /// The calls' own tracepoints: other calls pay nothing
    Tracepoint,
    /// The raw tracepoints that every call passes: measured calls pay less, others more
    Raw,
}

impl From<AttachArg> for AttachChoice {
    fn from(arg: AttachArg) -> Self {
        match arg {
            AttachArg::Auto => Self::Auto,
            AttachArg::Tracepoint => Self::Tracepoint,
            AttachArg::Raw => Self::Raw,
        }
    }
}

/// A process or thread id.
pub(super) fn id() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(i32::MAX))
}

pub(super) fn descriptor() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=i64::from(i32::MAX))
}

/// A descriptor that was opened for rlat: 0 to 2 are in use.
pub(super) fn inherited_descriptor() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(3..=i64::from(i32::MAX))
}

pub(super) fn buckets() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=i64::from(RECORDED_K))
}

/// Threads to keep room for.
pub(super) fn starts() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=131_072)
}

/// Reads `MIN,MAX,STEP`.
pub(super) fn linear(text: &str) -> Result<Linear, String> {
    let numbers: Vec<u64> = text
        .split(',')
        .map(|number| number.parse().ok())
        .collect::<Option<_>>()
        .ok_or_else(|| "give three whole numbers, such as 0,10000,500".to_owned())?;
    match numbers[..] {
        [min, max, step] => Linear::new(min, max, step).map_err(str::to_owned),
        _ => Err("give three numbers: the minimum, the maximum and the step".to_owned()),
    }
}
