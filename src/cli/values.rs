//! The values that options take, and what they mean inside.

use clap::ValueEnum;

use crate::histogram::log2::RECORDED_K;
use crate::histogram::{Linear, Unit};
use crate::latency::{AttachChoice, Returns, Room};
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
pub(super) fn id(text: &str) -> Result<u32, String> {
    whole_number(text, 1, LARGEST_ID)
}

pub(super) fn descriptor(text: &str) -> Result<u32, String> {
    whole_number(text, 0, LARGEST_ID)
}

/// A descriptor that was opened for rlat: 0 to 2 are in use.
pub(super) fn inherited_descriptor(text: &str) -> Result<u32, String> {
    whole_number(text, 3, LARGEST_ID)
}

pub(super) fn buckets(text: &str) -> Result<u32, String> {
    whole_number(text, 0, RECORDED_K)
}

/// The kernel's ids and descriptors are of type int.
const LARGEST_ID: u32 = i32::MAX as u32;

/// Digits and nothing else: who writes a sign or an exponent may mean something else than is read.
fn whole_number(text: &str, min: u32, max: u32) -> Result<u32, String> {
    let number = digits(text).and_then(|digits| digits.parse::<u32>().ok());
    number
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| format!("give a whole number from {min} to {max}"))
}

fn digits(text: &str) -> Option<&str> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)
}

/// Threads to keep room for.
pub(super) fn starts(text: &str) -> Result<u32, String> {
    whole_number(text, 1, Room::MOST)
}

/// Reads `MIN,MAX,STEP`.
pub(super) fn linear(text: &str) -> Result<Linear, String> {
    let numbers: Vec<u64> = text
        .split(',')
        .map(|number| digits(number)?.parse().ok())
        .collect::<Option<_>>()
        .ok_or_else(|| {
            format!("give three whole numbers from 0 to {}, such as 0,10000,500", u64::MAX)
        })?;
    match numbers[..] {
        [min, max, step] => Linear::new(min, max, step).map_err(str::to_owned),
        _ => Err("give three numbers: the minimum, the maximum and the step".to_owned()),
    }
}
