//! What rlat gives up once its window is open.
//!
//! To load and attach programs takes great privileges. To wait, to read memory that is mapped and some files
//! of /proc, and to write a result takes few, and that is all there is left to do. So [`confine`] gives up
//! the rest for good: a fault in what parses a hostile name then leads to a process that can do little.
//!
//! | given up | how | what is left |
//! |---|---|---|
//! | to gain privileges by execve(2) | `no_new_privs` (Linux 3.5) | nothing |
//! | capabilities | capset(2), prctl(2) | those that [`Tasks`] need, see [`capabilities`](self) below |
//! | system calls | seccomp(2) (Linux 3.17) with a [filter](Filter) | those of the list in `calls.rs` |
//!
//! Of the capabilities these stay, and only if rlat had them:
//!
//! - `CAP_SYS_PTRACE`: the kernel shows `/proc/PID/syscall` and the targets of `/proc/PID/fd` to whoever may
//!   trace the process, for calls in flight. Whoever has all the capabilities of the process may do so, too
//!   (`cap_ptrace_access_check` in `security/commoncap.c`), so without this one those are kept instead.
//! - `CAP_DAC_READ_SEARCH`, or else `CAP_DAC_OVERRIDE`: these files belong to the process's user.
//! - `CAP_BPF`, or else `CAP_SYS_ADMIN`: where `kernel.unprivileged_bpf_disabled` is not 0, Linux before 5.19
//!   refuses every bpf(2) to others, also to read a map or what is known of a program. The kernel is asked:
//!   it goes where bpf(2) is answered without it. With `-v` it stays, for the sizes of programs.
//! - `CAP_DAC_OVERRIDE` and `CAP_FOWNER`, for a file of `-o` in a folder that belongs to somebody else.
//! - `CAP_KILL`, where signals are to be passed on to a command, which may have become another user.
//!
//! Root stays user 0, and may still do what the owner of a file may. The filter is what is in the way of that:
//! nothing can be opened for writing but a new file, and that only for `-o`; nothing can be executed. So it
//! does no harm that an execve(2) by user 0 gives capabilities (`SECBIT_NOROOT` would have to be set against
//! it), and the bounding set, which limits them, is empty as well if `CAP_SETPCAP` was there to empty it.

mod calls;
mod capabilities;
mod filter;
mod sys;

use std::fmt;
use std::path::Path;

use nix::sys::prctl::set_no_new_privs;

use crate::process::{Capability, Status, exceeds_its_user};
pub use capabilities::Capabilities;
pub use filter::{Call, Filter, When};

/// What is still to be done, as far as it takes a right of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tasks<'a> {
    /// The processes whose calls in flight are to be listed.
    pub targets: &'a [u32],
    /// The folder in which a file is to be made.
    pub folder: Option<&'a Path>,
    /// The process of the command that is to be waited for.
    pub command: Option<u32>,
    /// Whether the sizes of programs are to be asked for.
    pub sizes: bool,
}

/// What has been given up. Its text is a line for `-v`.
#[derive(Debug)]
pub struct Confinement {
    no_new_privs: nix::Result<()>,
    kept: nix::Result<Capabilities>,
    /// The number of instructions of the filter; `None` where there is none for the architecture.
    filter: nix::Result<Option<usize>>,
}

/// Does something as the user could who runs rlat, without the capabilities that its file may have: reading
/// a file that is named on the command line. Afterwards they are in effect again.
pub fn as_its_user<T>(act: impl FnOnce() -> T) -> T {
    if !exceeds_its_user() {
        return act();
    }
    let held = held().0;
    // None of the two can be refused: what is permitted stays.
    let _ = sys::set_capabilities(0, held);
    let result = act();
    let _ = sys::set_capabilities(held, held);
    result
}

/// Gives up what the tasks do not need. `bpf_answers` asks the kernel something about a program by bpf(2),
/// and says whether it was not refused.
///
/// This is for good, and for all that this process may still start: nothing. Where the kernel cannot do a part
/// of it, the rest is done.
pub fn confine(tasks: Tasks<'_>, bpf_answers: impl Fn() -> bool) -> Confinement {
    let no_new_privs = set_no_new_privs();
    let kept = capabilities::give_up(tasks, bpf_answers);
    let filter = match Filter::new(&calls::needed(tasks)) {
        Some(filter) => {
            sys::install(filter.instructions()).map(|()| Some(filter.instructions().len()))
        }
        None => Ok(None),
    };
    Confinement { no_new_privs, kept, filter }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.no_new_privs {
            Ok(()) => f.write_str("confined: no new privileges")?,
            Err(errno) => write!(f, "confined: no_new_privs refused: {errno}")?,
        }
        match &self.kept {
            Ok(kept) => write!(f, "; capabilities: {kept}")?,
            Err(errno) => write!(f, "; capabilities as before: {errno}")?,
        }
        match &self.filter {
            Ok(Some(length)) => write!(f, "; a seccomp filter of {length} instructions"),
            Ok(None) => f.write_str("; no seccomp filter, which is for x86-64 and arm64 only"),
            Err(errno) => write!(f, "; no seccomp filter: {errno}"),
        }
    }
}

/// The capabilities that this process has in effect; none where that cannot be told.
fn held() -> Capabilities {
    Capabilities(Status::read_own().ok().and_then(|status| status.effective).unwrap_or(0))
}

/// Those that a process may take into effect.
fn permitted(pid: u32) -> Capabilities {
    Capabilities(Status::read(pid).ok().and_then(|status| status.permitted).unwrap_or(0))
}

/// All capabilities that are told by name.
const NAMED: [Capability; 9] = [
    Capability::DacOverride,
    Capability::DacReadSearch,
    Capability::Fowner,
    Capability::Kill,
    Capability::SysPtrace,
    Capability::SysAdmin,
    Capability::SysResource,
    Capability::Perfmon,
    Capability::Bpf,
];
