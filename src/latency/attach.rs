//! Where to attach: to the tracepoints of each measured call, or to the raw ones that every call passes.

use std::path::Path;

use super::preemption;
use super::programs::{KernelReads, TypedEntry, Way};
use super::syscall::Syscall;
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::loader::{Answer, Feature, probe};
use crate::tracefs::Tracefs;

/// As many calls are measured on their own tracepoints. More of them cost the host more than the one
/// pair of raw tracepoints does.
const MOST_ON_OWN_TRACEPOINTS: usize = 5;

/// What the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachChoice {
    /// Whatever fits.
    #[default]
    Auto,
    /// The tracepoints of each call.
    Tracepoint,
    /// The raw tracepoints.
    Raw,
}

/// What it is to be.
#[derive(Debug)]
pub struct Chosen {
    /// Where the programs are attached.
    pub way: Way,
    /// The calls to measure.
    pub syscalls: Vec<Syscall>,
    /// Where tracepoints are described, if that was needed.
    pub tracefs: Option<Tracefs>,
    /// Why it is so, for people.
    pub reason: String,
    /// Whether it is so for want of something better, so that people should know.
    pub makeshift: bool,
}

/// What decides beside the user's choice.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// The folder that the user named as tracefs.
    pub tracefs: Option<&'a Path>,
    /// The names and groups of the calls to measure.
    pub syscalls: &'a [String],
    /// Whether only calls on some descriptors are measured.
    pub descriptors: bool,
    /// Whether children are followed, which takes tracepoints of the scheduler.
    pub follow: bool,
}

/// Chooses, and finds the calls.
///
/// # Errors
/// As [`Tracefs::open`] and [`Syscall::find_all`]; [`Kind::Unsupported`] when descriptors are asked for
/// and cannot be seen on the raw tracepoints here.
pub fn choose(choice: AttachChoice, needs: Needs<'_>) -> Result<Chosen> {
    match choice {
        AttachChoice::Tracepoint => own_tracepoints(needs, "--attach tracepoint".to_owned()),
        AttachChoice::Raw => raw(needs, "--attach raw".to_owned()),
        AttachChoice::Auto => automatic(needs),
    }
}

fn automatic(needs: Needs<'_>) -> Result<Chosen> {
    // What the user named is to be used, or not at all.
    let needs_tracefs = needs.tracefs.is_some() || needs.follow;
    let without_tracefs = |error: Error| {
        let reason = format!("there is no tracefs to use: {}", error.cause);
        raw(needs, reason).map(Chosen::into_makeshift)
    };
    let tracefs = match Tracefs::open(needs.tracefs) {
        Ok(tracefs) => tracefs,
        Err(error) if needs_tracefs => return Err(error),
        Err(error) => return without_tracefs(error),
    };
    if !tracefs.has_category("syscalls") {
        let reason = "there are no tracepoints of single calls (CONFIG_FTRACE_SYSCALLS)";
        return raw(needs, reason.to_owned()).map(Chosen::into_makeshift);
    }
    let syscalls = match Syscall::find_all(&tracefs, needs.syscalls) {
        Ok(syscalls) => syscalls,
        // Its folders may be open to everybody, and its files to root alone.
        Err(error) if error.kind == Kind::Permission && !needs_tracefs => {
            return without_tracefs(error);
        }
        Err(error) => return Err(error),
    };
    let numbers_known = syscalls.iter().all(|syscall| syscall.number.is_some());
    let why_raw = if syscalls.len() > MOST_ON_OWN_TRACEPOINTS {
        Some(format!("{} calls are measured at once", syscalls.len()))
    } else if preemption::is_full() == Some(true) {
        Some(
            "the kernel runs with full preemption, and may skip programs on other tracepoints"
                .to_owned(),
        )
    } else {
        None
    };
    if let Some(reason) = why_raw.filter(|_| numbers_known)
        && let Ok(way) = raw_way(needs.descriptors)
    {
        return Ok(Chosen { way, syscalls, tracefs: Some(tracefs), reason, makeshift: false });
    }
    let reason = "so that other calls are not disturbed".to_owned();
    Ok(Chosen { way: Way::Tracepoint, syscalls, tracefs: Some(tracefs), reason, makeshift: false })
}

fn own_tracepoints(needs: Needs<'_>, reason: String) -> Result<Chosen> {
    let tracefs = Tracefs::open(needs.tracefs)?;
    let syscalls = Syscall::find_all(&tracefs, needs.syscalls)?;
    Ok(Chosen { way: Way::Tracepoint, syscalls, tracefs: Some(tracefs), reason, makeshift: false })
}

fn raw(needs: Needs<'_>, reason: String) -> Result<Chosen> {
    let syscalls = Syscall::known_all(needs.syscalls)?;
    let way = raw_way(needs.descriptors)?;
    let tracefs = needs.follow.then(|| Tracefs::open(needs.tracefs)).transpose()?;
    Ok(Chosen { way, syscalls, tracefs, reason, makeshift: false })
}

fn raw_way(descriptors: bool) -> Result<Way> {
    let reads = KernelReads::of_this_kernel();
    let reads = reads.filter(|_| probe(Feature::KernelReads) == Answer::Yes);
    let typed = TypedEntry::of_this_kernel();
    if descriptors && reads.is_none() && typed.is_none() {
        return Err(Error {
            kind: Kind::Unsupported,
            step: Step::Arguments,
            object: "a descriptor".to_owned(),
            cause: Cause::Text(
                "on the raw tracepoints it is in the kernel's memory, which programs may not read \
                 here"
                    .to_owned(),
            ),
            next: "leave --fd out; where tracefs can be used, `--attach tracepoint` sees it"
                .to_owned(),
        });
    }
    Ok(Way::Raw { reads, typed })
}

impl Chosen {
    fn into_makeshift(self) -> Self {
        Self { makeshift: true, ..self }
    }

    /// What `-v` says about it.
    pub fn describe(&self) -> String {
        let (where_to, more) = match self.way {
            Way::Tracepoint => ("the tracepoints of each call", ""),
            Way::Raw { reads: Some(_), typed: Some(_) } => {
                ("the raw tracepoints of all calls, the entry by its type", "")
            }
            Way::Raw { reads: Some(_), typed: None } => ("the raw tracepoints of all calls", ""),
            Way::Raw { reads: None, typed: Some(_) } => (
                "the raw tracepoints of all calls, the entry by its type",
                "; the kernel's memory may not be read here otherwise, so that returns of calls that \
                 entered before the window are not counted",
            ),
            Way::Raw { reads: None, typed: None } => (
                "the raw tracepoints of all calls",
                "; the kernel's memory may not be read here, so that calls through the 32-bit gate are \
                 not told from others, and returns of calls that entered before the window are not \
                 counted",
            ),
        };
        format!("attach to {where_to}: {}{more}", self.reason)
    }
}
