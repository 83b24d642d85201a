//! What a measurement costs on this machine, now, measured by rlat itself.
//!
//! Two processes that do nothing but make system calls, see [`Caller`], share one CPU. In turn nothing is
//! attached, and then the very programs of the measurement, with the first of the two as their target. The
//! difference is what the tracing adds: to a call that is measured, to the same call of a process that is
//! not, and to a call that is not measured at all. [`signed_rank`] judges the run times of a command
//! that was run with and without.
//!
//! ```no_run
//! use std::time::Duration;
//! use rlat::calibration::Calibration;
//! # use rlat::latency::{AttachChoice, Chosen, Needs, Request, Returns, Subject, choose};
//! # let subject = Subject::All;
//! # let names = ["read".to_owned()];
//! # let needs = Needs { tracefs: None, syscalls: &names, descriptors: false, follow: false };
//! # let Chosen { way, syscalls, tracefs, .. } = choose(AttachChoice::Auto, needs)?;
//! # let request = Request {
//! #     subject: &subject,
//! #     syscalls,
//! #     descriptors: Vec::new(),
//! #     returns: Returns::Any,
//! #     unit: rlat::histogram::Unit::Us,
//! #     linear: None,
//! #     way,
//! #     tracefs: tracefs.as_ref(),
//! #     starts: None,
//! # };
//! let calibration = Calibration::measure(&request, Duration::from_secs(2))?;
//! println!("{:+.0} ns to each measured call", calibration.measured_call.added().min);
//! # Ok::<(), rlat::error::Error>(())
//! ```

mod caller;
mod sample;
mod signed_rank;

pub use caller::{CALLER, CALLS, Call, Caller, allowed_cpus, be_caller, pin};
pub use sample::{Added, Nanos, Sample};
pub use signed_rank::{SignedRank, signed_rank};

use std::time::{Duration, Instant};

use crate::error::{Cause, Error, Kind, Result, Step};
use crate::latency::{Measurement, Request, Subject, Syscall, Way};
use crate::process::Target;

/// How long a calibration takes, unless the machine is too busy for two turns in that time.
pub const USUAL_LENGTH: Duration = Duration::from_secs(2);

/// How long calls are made before the other state has its turn.
const TURN: Duration = Duration::from_millis(60);
/// Turns at least, whatever time they take.
const FEWEST_TURNS: usize = 2;

/// The call that is made to be measured, whichever calls the measurement itself is about: to the programs
/// they are all the same, and this one takes little time by itself.
const MADE: &str = "read";
/// The descriptor that it is made on.
const MADE_ON: u32 = 0;

/// What tracing adds to a call, here and now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// The CPU on which all calls were made.
    pub cpu: usize,
    /// How often nothing and the programs were attached in turn.
    pub turns: usize,
    /// How many runs of [`CALLS`] calls there were of each kind and state, at the least.
    pub runs: usize,
    /// How long all of it took.
    pub length: Duration,
    /// Added to a call that is measured.
    pub measured_call: Added,
    /// Added to the same call of a process that is not measured. With [`Subject::All`] there is none such,
    /// and it is measured, too.
    pub same_call_of_another: Added,
    /// Added to a call that is not measured, of a process that is not.
    pub other_call_of_another: Added,
}

/// The runs of one state: nothing is attached, or the programs are.
#[derive(Debug, Default)]
struct State {
    measured_call: Sample,
    same_call_of_another: Sample,
    other_call_of_another: Sample,
}

impl Calibration {
    /// Attaches the programs of that measurement to a process of our own instead, again and again for about
    /// that time, and compares. Of the measurement's subject only its kind matters here; control groups
    /// and names of threads are taken for processes.
    ///
    /// # Errors
    /// As [`Measurement::attach`]; [`Kind::Other`] when the calling processes cannot be started or end
    /// early.
    pub fn measure(request: &Request<'_>, length: Duration) -> Result<Self> {
        let begun = Instant::now();
        let cpu = allowed_cpus().map_err(|errno| failed(Cause::Errno(errno)))?.pop();
        let cpu = cpu.ok_or_else(|| failed(Cause::Text("no CPU is allowed".to_owned())))?;
        let start = || Caller::start(cpu).map_err(|error| failed(Cause::Text(error.to_string())));
        let (measured, other) = (start()?, start()?);
        let targets = vec![Target::open(measured.pid())?];
        let subject = match request.subject {
            Subject::Family(_) => Subject::Family(targets),
            Subject::All => Subject::All,
            _ => Subject::Processes(targets),
        };
        let own = Request {
            subject: &subject,
            syscalls: with_the_made_one(request)?,
            descriptors: with_ours(&request.descriptors),
            ..request.clone()
        };

        let (mut untraced, mut traced) = (State::default(), State::default());
        let mut turns = 0;
        while turns < FEWEST_TURNS || begun.elapsed() < length {
            untraced.take_turn(&measured, &other)?;
            let mut measurement = Measurement::attach(own.clone(), &mut |_| {})?;
            measurement.open();
            traced.take_turn(&measured, &other)?;
            if measurement.recorded() == 0 {
                return Err(failed(Cause::Text("its calls were not seen".to_owned())));
            }
            turns += 1;
        }
        Self::compare(&untraced, &traced)
            .map(|found| Self { cpu, turns, length: begun.elapsed(), ..found })
            .ok_or_else(|| failed(Cause::Text("there were no runs".to_owned())))
    }

    fn compare(untraced: &State, traced: &State) -> Option<Self> {
        let added = |of: fn(&State) -> &Sample| {
            Some(Added { untraced: of(untraced).nanos()?, traced: of(traced).nanos()? })
        };
        Some(Self {
            cpu: 0,
            turns: 0,
            runs: untraced.measured_call.len().min(traced.measured_call.len()),
            length: Duration::ZERO,
            measured_call: added(|state| &state.measured_call)?,
            same_call_of_another: added(|state| &state.same_call_of_another)?,
            other_call_of_another: added(|state| &state.other_call_of_another)?,
        })
    }
}

impl State {
    fn take_turn(&mut self, measured: &Caller, other: &Caller) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < TURN {
            for (sample, caller, call) in [
                (&mut self.measured_call, measured, Call::Read),
                (&mut self.same_call_of_another, other, Call::Read),
                (&mut self.other_call_of_another, other, Call::Getppid),
            ] {
                let nanos = caller.nanos_per(call);
                sample.add(nanos.map_err(|error| failed(Cause::Text(error.to_string())))?);
            }
        }
        Ok(())
    }
}

/// The calls to measure: those of the request, the last of which gives way to the one that is made here,
/// if that is not among them. So there are as many as the programs have to tell apart.
fn with_the_made_one(request: &Request<'_>) -> Result<Vec<Syscall>> {
    let mut syscalls = request.syscalls.clone();
    if syscalls.iter().any(|syscall| syscall.name == MADE) {
        return Ok(syscalls);
    }
    let names = [MADE.to_owned()];
    let made = match (request.way, request.tracefs) {
        (Way::Tracepoint, Some(tracefs)) => Syscall::find_all(tracefs, &names)?,
        (Way::Tracepoint, None) | (Way::Raw { .. }, _) => Syscall::known_all(&names)?,
    };
    syscalls.pop();
    syscalls.extend(made);
    Ok(syscalls)
}

/// As many descriptors, the last of them ours: that takes as many comparisons.
fn with_ours(descriptors: &[u32]) -> Vec<u32> {
    let mut descriptors = descriptors.to_vec();
    if let Some(last) = descriptors.last_mut() {
        *last = MADE_ON;
    }
    descriptors
}

fn failed(cause: Cause) -> Error {
    Error {
        kind: Kind::Other,
        step: Step::Calibrate,
        object: "processes that rlat starts".to_owned(),
        cause,
        next: "see the limits on processes and files (`ulimit -a`), or leave the calibration out"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_stays_as_long_and_lets_our_descriptor_through() {
        assert_eq!(with_ours(&[]), [0; 0]);
        assert_eq!(with_ours(&[7]), [0]);
        assert_eq!(with_ours(&[7, 9, 11]), [7, 9, 0]);
    }
}
