//! The error type: which step failed, on what, why, and what to do next.
//!
//! One type for the whole crate, because every failure ends on one screen: a person reads it, and a
//! script reads the exit code. The fields are all required, so that no message can leave one out.

use std::fmt;

use nix::errno::Errno;

use crate::verifier::VerifierError;

/// Short for a result whose failure is an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The next step where there are no more descriptors.
pub(crate) const MORE_FILES: &str = "allow more open files: `ulimit -n 64` is enough for rlat";

/// What a failure means to a script: each kind is one exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything that no other kind covers, among them an output that cannot be written.
    Other = 1,
    /// The command line asks for something that cannot be.
    Usage = 2,
    /// The kernel refused, and what was looked at says that a privilege is missing.
    Permission = 3,
    /// The kernel lacks a tracepoint, tracefs or a feature.
    Unsupported = 4,
    /// The verifier refused a program.
    Rejected = 5,
    /// There is no such process.
    NoProcess = 6,
    /// The command to start cannot be executed; the number is that of shells.
    NotExecutable = 126,
    /// There is no such command; the number is that of shells.
    NotFound = 127,
}

impl Kind {
    /// The exit code: 1 to 6, 126 or 127.
    pub const fn exit_code(self) -> u8 {
        self as u8
    }
}

/// The step that failed. Its text completes the sentence "cannot ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reading the command line.
    Arguments,
    /// Finding the process to measure.
    Target,
    /// Finding or mounting tracefs.
    Tracefs,
    /// Listing tracepoints.
    List,
    /// Reading the id or the format of a tracepoint.
    Tracepoint,
    /// Putting a program together from instructions.
    Assemble,
    /// Reading an object file.
    Disassemble,
    /// Creating or reading a map.
    Map,
    /// Handing a program to the verifier.
    Load,
    /// Attaching a program to a tracepoint.
    Attach,
    /// Starting the command to measure.
    Start,
    /// Having signals end the measurement.
    Signals,
    /// Measuring what the tracing costs.
    Calibrate,
    /// Waiting for the measurement's end and collecting it.
    Measure,
    /// Writing the result.
    Output,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Arguments => "use",
            Self::Target => "measure",
            Self::Tracefs => "use tracefs at",
            Self::List => "list",
            Self::Tracepoint => "use tracepoint",
            Self::Assemble => "assemble program",
            Self::Disassemble => "disassemble",
            Self::Map => "create map",
            Self::Load => "load program",
            Self::Attach => "attach program",
            Self::Start => "start",
            Self::Signals => "catch",
            Self::Calibrate => "calibrate with",
            Self::Measure => "finish the measurement of",
            Self::Output => "write the result to",
        })
    }
}

/// Why a step failed.
#[derive(Debug)]
pub enum Cause {
    /// A system call failed, with nothing more known than its error number.
    Errno(Errno),
    /// A system call failed, and looking around told why.
    Explained(Errno, String),
    /// No system call failed; the text says what is wrong.
    Text(String),
    /// The verifier refused the program, and this is what its log says.
    Verifier(Box<VerifierError>),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errno(errno) => errno.fmt(f),
            Self::Explained(errno, why) => write!(f, "{errno}; {why}"),
            Self::Text(text) => f.write_str(text),
            Self::Verifier(error) => error.fmt(f),
        }
    }
}

/// A failure that ends a command.
///
/// ```
/// use rlat::error::{Cause, Error, Kind, Step};
/// use nix::errno::Errno;
///
/// let error = Error {
///     kind: Kind::NoProcess,
///     step: Step::Target,
///     object: "process 1234".to_owned(),
///     cause: Cause::Errno(Errno::ESRCH),
///     next: "`ps -e` lists the processes".to_owned(),
/// };
/// assert_eq!(
///     error.to_string(),
///     "cannot measure process 1234: ESRCH: No such process\n  next: `ps -e` lists the processes",
/// );
/// assert_eq!(error.kind.exit_code(), 6);
/// ```
#[derive(Debug)]
pub struct Error {
    /// What the failure means to a script.
    pub kind: Kind,
    /// The step that failed.
    pub step: Step,
    /// What it failed on, with its name: a map, a program, a file, a process.
    pub object: String,
    /// Why it failed.
    pub cause: Cause,
    /// What the user can do next, as an instruction.
    pub next: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}\n  next: {}", self.step, self.object, self.cause, self.next)
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The error number of the system call that failed, where one did.
    pub fn errno(&self) -> Option<Errno> {
        match &self.cause {
            Cause::Errno(errno) | Cause::Explained(errno, _) => Some(*errno),
            Cause::Verifier(error) => Some(error.errno),
            Cause::Text(_) => None,
        }
    }
}
