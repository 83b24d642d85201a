//! Why the kernel refused bpf(2) or perf_event_open(2), by looking and not by guessing.

use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

use super::features::kernel_version;
use crate::error::{Cause, Error, Kind, MORE_FILES, Step};
use crate::process::{Privileges, SECCOMP_FILTER};

/// What a user can do whom a seccomp filter stands in the way of.
const LEAVE_FILTER: &str =
    "run it outside of the container, or let its filter allow bpf(2) and perf_event_open(2)";

/// The error for a refused map, program or attachment that the verifier had no part in.
pub(crate) fn of_bpf(errno: Errno, step: Step, object: &str) -> Error {
    let object = object.to_owned();
    if errno == Errno::EPERM
        && let Some(limit) = guilty_memlock(step)
    {
        let why = format!(
            "the limit on locked memory is {} KiB, against which Linux counts BPF before 5.11, and \
             raising it needs CAP_SYS_RESOURCE",
            limit / 1024
        );
        return Error {
            kind: Kind::Permission,
            step,
            object,
            cause: Cause::Explained(errno, why),
            next: "run `ulimit -l unlimited` as root before, or give it CAP_SYS_RESOURCE, too"
                .to_owned(),
        };
    }
    match errno {
        Errno::EPERM | Errno::EACCES => {
            let privileges = Privileges::read();
            Error {
                kind: Kind::Permission,
                step,
                object,
                cause: Cause::Explained(errno, privileges.explain()),
                next: way_to_privilege(&privileges).to_owned(),
            }
        }
        // A seccomp filter may answer so for a call that the kernel has.
        Errno::ENOSYS => {
            let filtered = Privileges::read().seccomp == Some(SECCOMP_FILTER);
            let (kind, why, next) = if filtered {
                (Kind::Permission, "a seccomp filter is in force, as in a container", LEAVE_FILTER)
            } else {
                (
                    Kind::Unsupported,
                    "this kernel was built without the system call",
                    "use a kernel with CONFIG_BPF_SYSCALL and CONFIG_PERF_EVENTS",
                )
            };
            Error {
                kind,
                step,
                object,
                cause: Cause::Explained(errno, why.to_owned()),
                next: next.to_owned(),
            }
        }
        Errno::EINVAL | Errno::EOPNOTSUPP => Error {
            kind: Kind::Unsupported,
            step,
            object,
            cause: Cause::Errno(errno),
            next: "rlat needs Linux 5.5 or newer with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS"
                .to_owned(),
        },
        Errno::E2BIG if step == Step::Map => Error {
            kind: Kind::Other,
            step,
            object,
            cause: Cause::Explained(errno, "it would be larger than the kernel allows".to_owned()),
            next: "measure fewer system calls at once, or give --starts a smaller number"
                .to_owned(),
        },
        Errno::EEXIST => Error {
            kind: Kind::Other,
            step,
            object,
            cause: Cause::Explained(errno, "something is attached there already".to_owned()),
            next: "`bpftool perf` and `bpftool link` list what is attached".to_owned(),
        },
        Errno::ENOMEM => Error {
            kind: Kind::Other,
            step,
            object,
            cause: Cause::Errno(errno),
            next: "free some memory, or raise the memory limit of this control group".to_owned(),
        },
        Errno::EMFILE | Errno::ENFILE => Error {
            kind: Kind::Other,
            step,
            object,
            cause: Cause::Errno(errno),
            next: MORE_FILES.to_owned(),
        },
        _ => Error {
            kind: Kind::Other,
            step,
            object,
            cause: Cause::Errno(errno),
            next: "`rlat -v` shows the steps before this one".to_owned(),
        },
    }
}

/// What a user can do who was refused, by what was seen.
fn way_to_privilege(privileges: &Privileges) -> &'static str {
    if privileges.initial_user_namespace == Some(false) {
        "run it as root outside of the container or user namespace"
    } else if !privileges.can_load() {
        "run it as root, or give it CAP_BPF and CAP_PERFMON (before Linux 5.8: CAP_SYS_ADMIN)"
    } else if privileges.seccomp == Some(SECCOMP_FILTER) {
        LEAVE_FILTER
    } else {
        "`rlat check` shows what was looked at; a security module may have logged more: `dmesg`"
    }
}

/// Runs a bpf(2) command, and once more with a raised limit where the limit can be the cause.
///
/// Before Linux 5.11 maps and programs counted against `RLIMIT_MEMLOCK`, and too small a limit was
/// answered by `EPERM`; since then they count against the control group, and the limit means nothing
/// here. So it is touched only after an `EPERM` on such an old kernel.
///
/// # Errors
/// What the command itself returns.
pub(crate) fn with_memlock<T>(command: impl Fn() -> nix::Result<T>) -> nix::Result<T> {
    match command() {
        Err(Errno::EPERM) if counts_memlock() && raise_memlock().is_ok() => command(),
        result => result,
    }
}

fn raise_memlock() -> nix::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_MEMLOCK)?;
    setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY)
        .or_else(|_| setrlimit(Resource::RLIMIT_MEMLOCK, hard, hard))
}

/// The limit on locked memory, if nothing else is left to explain an `EPERM` from bpf(2).
fn guilty_memlock(step: Step) -> Option<u64> {
    let charges = matches!(step, Step::Map | Step::Load) && counts_memlock();
    if !charges || !Privileges::read().can_load() {
        return None;
    }
    let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK).ok()?;
    (soft != RLIM_INFINITY).then_some(soft)
}

/// Whether this kernel is older than 5.11. Nothing that could be asked of it says how it counts.
fn counts_memlock() -> bool {
    kernel_version().is_some_and(|version| version < (5, 11))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memlock_is_not_touched_by_success_or_other_errors() {
        let before = getrlimit(Resource::RLIMIT_MEMLOCK).unwrap();
        assert_eq!(with_memlock(|| Ok(1)), Ok(1));
        assert_eq!(with_memlock(|| Err::<(), _>(Errno::EINVAL)), Err(Errno::EINVAL));
        assert_eq!(getrlimit(Resource::RLIMIT_MEMLOCK).unwrap(), before);
    }
}
