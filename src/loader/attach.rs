//! Attaching a program to a tracepoint.
//!
//! **Terms.** A *tracepoint* is a place in the kernel that calls whoever has registered there; the
//! ones of system calls are named `syscalls:sys_enter_NAME` and `syscalls:sys_exit_NAME`. A *perf
//! event* is the handle through which perf_event_open(2) gives access to one. A program of type
//! tracepoint is attached to the perf event, and from then on runs whenever the tracepoint is
//! passed, on any CPU and by any process: the event's own CPU and process do not filter it.
//!
//! A *raw* tracepoint is the same place without perf in between: bpf(2) attaches a program to it by
//! name, and the program is given the arguments that the kernel's own code passes, as 8 bytes each.

use std::ffi::CStr;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use super::load::LoadedProgram;
use super::refusal;
use super::sys;
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::process::Privileges;

/// A tracepoint by its name and its number on the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// The folder under `events`, such as `syscalls`.
    pub category: String,
    /// The name, such as `sys_enter_read`.
    pub name: String,
    /// What perf_event_open(2) wants to know, from the file `id`.
    pub id: u64,
}

impl fmt::Display for Tracepoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.category, self.name)
    }
}

/// An attached program. Dropping it detaches, which waits until no CPU can be in the program any
/// more (an RCU grace period, some tens of milliseconds); so print the result first.
#[derive(Debug)]
#[must_use = "dropping it detaches the program"]
pub struct Attachment {
    _held: OwnedFd,
}

/// Attaches a loaded program to a tracepoint, through a perf event on an online CPU.
///
/// # Errors
/// [`Kind::Permission`] when a privilege is missing, [`Kind::Unsupported`] when the kernel has no
/// such tracepoint, or the program reads more of its context than the tracepoint has.
pub fn attach(program: &LoadedProgram, tracepoint: &Tracepoint, cpu: u32) -> Result<Attachment> {
    let object = format!("{} to {tracepoint}", program.name());
    let event = sys::perf_event_open_tracepoint(tracepoint.id, cpu)
        .map_err(|errno| refused_event(errno, &object))?;
    sys::perf_event_set_bpf(event.as_fd(), program.as_fd())
        .map_err(|errno| refused_program(errno, object))?;
    Ok(Attachment { _held: event })
}

/// Attaches a loaded program of one of the types for raw tracepoints to that of that name, such as
/// `sys_enter`, which every system call passes. It needs neither perf nor tracefs. Linux 4.17.
///
/// # Errors
/// [`Kind::Permission`] when a privilege is missing, [`Kind::Unsupported`] when the kernel has no
/// such tracepoint.
pub fn attach_raw(program: &LoadedProgram, tracepoint: &CStr) -> Result<Attachment> {
    let object = format!("{} to raw tracepoint {}", program.name(), tracepoint.to_string_lossy());
    let name = (!program.is_typed()).then_some(tracepoint);
    match sys::raw_tracepoint_open(name, program.as_fd()) {
        Ok(held) => Ok(Attachment { _held: held }),
        Err(errno @ Errno::ENOENT) => Err(Error {
            kind: Kind::Unsupported,
            step: Step::Attach,
            object,
            cause: Cause::Explained(errno, "this kernel has no such tracepoint".to_owned()),
            next: "use a kernel with CONFIG_TRACEPOINTS; `rlat check` shows what this one has"
                .to_owned(),
        }),
        Err(errno) => Err(refusal::of_bpf(errno, Step::Attach, &object)),
    }
}

/// Where perf is what is refused, there is a way without it.
fn refused_event(errno: Errno, object: &str) -> Error {
    let error = refusal::of_bpf(errno, Step::Attach, object);
    if error.kind == Kind::Permission && Privileges::read().can_load() {
        let next = "use `--attach raw`, which needs no perf event, or run it as root outside of a \
                    container";
        return Error { next: next.to_owned(), ..error };
    }
    error
}

fn refused_program(errno: Errno, object: String) -> Error {
    let (kind, why, next) = match errno {
        Errno::E2BIG => (
            Kind::Other,
            "the tracepoint has as many programs as it can take",
            "end another tracer: `bpftool perf` lists them",
        ),
        Errno::EACCES => (
            Kind::Unsupported,
            "the program reads beyond what this tracepoint hands over",
            "please report this with the tracepoint's `format` file",
        ),
        _ => return refusal::of_bpf(errno, Step::Attach, &object),
    };
    Error {
        kind,
        step: Step::Attach,
        object,
        cause: Cause::Explained(errno, why.to_owned()),
        next: next.to_owned(),
    }
}
