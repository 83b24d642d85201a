//! Whether rlat can work here, and what is missing: what `rlat check` tells.
//!
//! Two things are kept apart:
//!
//! - the **questions**, each answered by itself: yes, no, or could not tell. Some are about features
//!   that a measurement can do without;
//! - the **trial**, which walks through the steps of a real measurement up to the last one, where a
//!   program would be attached, and ends with the error that the measurement would end with.
//!
//! Nothing on the host changes: maps and programs are created and dropped at once, tracefs is mounted
//! for this process alone, and no program is attached to anything.

mod features;
mod settings;
mod trial;

use std::path::Path;

use crate::error::Error;
use crate::host::Host;
use crate::process::{Privileges, Target};
use crate::tracefs::Tracefs;

/// What was found.
#[derive(Debug)]
pub struct Preflight {
    /// On what rlat runs.
    pub host: Host,
    /// The questions in the order of a measurement's steps, those about privileges first.
    pub questions: Vec<Question>,
    /// The error that a measurement of read() calls would end with, if any.
    pub refusal: Option<Error>,
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What it is about, in a word or three.
    pub about: &'static str,
    /// Whether a measurement is impossible where the answer is no.
    pub needed: bool,
    /// The answer.
    pub verdict: Verdict,
}

/// An answer. The texts may hold strings from outside, and are not escaped for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is there, or does not stand in the way.
    Yes {
        /// What exactly was found.
        found: String,
    },
    /// It is missing, or stands in the way.
    No {
        /// What was found, and what that costs.
        cost: String,
        /// What a user can do.
        next: String,
    },
    /// It could not be found out.
    CouldNotTell {
        /// Why not.
        why: String,
    },
}

impl Verdict {
    fn yes(found: impl Into<String>) -> Self {
        Self::Yes { found: found.into() }
    }

    fn no(cost: impl Into<String>, next: impl Into<String>) -> Self {
        Self::No { cost: cost.into(), next: next.into() }
    }

    fn could_not_tell(why: impl Into<String>) -> Self {
        Self::CouldNotTell { why: why.into() }
    }
}

impl Preflight {
    /// Looks at everything. `tracefs` is the folder that the user named, if any.
    pub fn look(tracefs: Option<&Path>) -> Self {
        let privileges = Privileges::read();
        let own = Target::open(std::process::id());
        let found = Tracefs::open(tracefs);
        let features =
            features::questions(own.as_ref(), found.as_ref(), tracefs.is_some(), &privileges);
        let refusal = trial::measurement(own, tracefs).err();
        let mut questions = settings::questions(&privileges, refusal.is_none());
        questions.extend(features);
        Self { host: Host::read(), questions, refusal }
    }

    /// The exit code that a measurement would have.
    pub fn exit_code(&self) -> u8 {
        self.refusal.as_ref().map_or(0, |error| error.kind.exit_code())
    }
}
