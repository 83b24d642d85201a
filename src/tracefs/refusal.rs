//! Why there is no tracefs: the errors of [`Tracefs::open`](super::Tracefs::open).
//!
//! A refusal is explained by looking at what decides over it, and only by what was seen there.

use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::error::{Cause, Error, Kind, MORE_FILES, Step};
use crate::escape::escape_path;
use crate::loader::kernel_version;
use crate::process::{Capability, Lockdown, Privileges, SECCOMP_FILTER};

/// Where tracefs usually is.
const USUAL_PLACE: &str = "/sys/kernel/tracing";

/// What a user can do who lacks a privilege.
const BE_ROOT: &str = "run as root, or give CAP_DAC_READ_SEARCH beside CAP_BPF and CAP_PERFMON, and mount tracefs: \
                       `mount -t tracefs tracefs /sys/kernel/tracing`";

/// What a user can do who is root inside a user namespace only.
const LEAVE_NAMESPACE: &str = "run as root outside of the container or user namespace";

/// What lockdown does to tracefs, and what a user can do then.
const LOCKED_DOWN: (&str, &str) = (
    "lockdown is at confidentiality (/sys/kernel/security/lockdown), which closes tracefs",
    "boot without `lockdown=confidentiality`",
);

/// What stood in the way of a tracefs.
#[derive(Debug)]
pub(super) enum Refusal {
    /// There is one, but its `events` folder could not be read.
    Events {
        /// Where it is mounted.
        root: PathBuf,
        /// What reading the folder gave.
        errno: Errno,
    },
    /// There is none, and mounting it gave this.
    Mount {
        /// What fsopen(2), fsconfig(2) or fsmount(2) gave.
        errno: Errno,
    },
}

impl Refusal {
    /// Looks for the cause, and says it.
    pub(super) fn into_error(self) -> Error {
        let (root, errno) = match &self {
            Self::Events { root, errno } => (root.as_path(), *errno),
            Self::Mount { errno } => (Path::new(USUAL_PLACE), *errno),
        };
        if matches!(errno, Errno::EMFILE | Errno::ENFILE) {
            return error(Kind::Other, root, errno, "it cannot be opened", MORE_FILES);
        }
        let privileges = Privileges::read();
        match self {
            Self::Events { root, errno } => refused_events(&root, errno, &privileges),
            Self::Mount { errno } => refused_mount(errno, &privileges, kernel_version()),
        }
    }
}

/// The error for a folder that the user named and that cannot be used.
pub(super) fn refused_folder(folder: &Path, errno: Errno) -> Error {
    match errno {
        Errno::EACCES | Errno::EPERM => error(
            Kind::Permission,
            folder,
            errno,
            "its `events` folder may not be read by this user",
            "run as root, or give CAP_DAC_READ_SEARCH",
        ),
        Errno::ENOENT | Errno::ENOTDIR => error(
            Kind::Unsupported,
            folder,
            errno,
            if folder.exists() {
                "there is no `events` folder in it"
            } else {
                "there is no such folder"
            },
            "name a tracefs, such as /sys/kernel/tracing, or a copy of one",
        ),
        _ => unforeseen(folder, errno),
    }
}

fn refused_events(root: &Path, errno: Errno, privileges: &Privileges) -> Error {
    match errno {
        Errno::ENOENT | Errno::EPERM if locked_down(privileges) => {
            error(Kind::Permission, root, errno, LOCKED_DOWN.0, LOCKED_DOWN.1)
        }
        Errno::EACCES | Errno::EPERM => error(
            Kind::Permission,
            root,
            errno,
            "tracefs is mounted there, but this user may not read it",
            "run as root, or give CAP_DAC_READ_SEARCH",
        ),
        Errno::ENOENT if !root.exists() => error(
            Kind::Other,
            root,
            errno,
            "a private mount is reached through /proc, which is not mounted",
            "mount it, as root: `mount -t proc proc /proc`",
        ),
        Errno::ENOENT => error(
            Kind::Unsupported,
            root,
            errno,
            "it has no `events` folder: this kernel is built without event tracing",
            "use a kernel with CONFIG_EVENT_TRACING",
        ),
        _ => unforeseen(root, errno),
    }
}

/// `kernel` is the first two numbers of the kernel's release, where it tells.
fn refused_mount(errno: Errno, privileges: &Privileges, kernel: Option<(u32, u32)>) -> Error {
    let usual_place = Path::new(USUAL_PLACE);
    let (kind, why, next) = match errno {
        Errno::EACCES | Errno::EPERM if locked_down(privileges) => {
            (Kind::Permission, LOCKED_DOWN.0, LOCKED_DOWN.1)
        }
        Errno::EACCES | Errno::EPERM => {
            let inside = privileges.initial_user_namespace == Some(false);
            let next = if inside { LEAVE_NAMESPACE } else { BE_ROOT };
            (Kind::Permission, forbidden_mount(privileges), next)
        }
        Errno::ENODEV => (
            Kind::Unsupported,
            "this kernel has no tracefs",
            "use a kernel with CONFIG_FTRACE and CONFIG_EVENT_TRACING",
        ),
        // As for bpf(2): every kernel since has it, and a filter may deny that it is there.
        Errno::ENOSYS if is_filtered(privileges) && !kernel.is_some_and(lacks_fsopen) => (
            Kind::Permission,
            "tracefs is not mounted, and a seccomp filter is in force, as in a container, which \
             hides the fsopen(2) to mount it privately",
            "run it outside of the container, or mount tracefs before: \
             `mount -t tracefs tracefs /sys/kernel/tracing`",
        ),
        Errno::ENOSYS => (
            Kind::Unsupported,
            "tracefs is not mounted, and there is no fsopen(2) to mount it privately: the kernel is \
             older than Linux 5.2",
            "mount it, as root: `mount -t tracefs tracefs /sys/kernel/tracing`",
        ),
        _ => (
            Kind::Other,
            "tracefs is not mounted, and it could not be mounted privately",
            "mount it, as root: `mount -t tracefs tracefs /sys/kernel/tracing`",
        ),
    };
    error(kind, usual_place, errno, why, next)
}

/// Why a mount was forbidden, the decisive first.
fn forbidden_mount(privileges: &Privileges) -> &'static str {
    if privileges.initial_user_namespace == Some(false) {
        "tracefs is not mounted, and this process lives in a user namespace of its own: to mount \
         it needs CAP_SYS_ADMIN in the initial one"
    } else if privileges.effective.is_some() && !privileges.has(Capability::SysAdmin) {
        "no tracefs is to be seen, and this process lacks CAP_SYS_ADMIN to mount one"
    } else if is_filtered(privileges) {
        "tracefs is not mounted, and a seccomp filter is in force, as in a container: it may \
         refuse to mount one"
    } else {
        "tracefs is not mounted, and to mount it was refused: perhaps by a security module"
    }
}

/// Whether a seccomp filter may be what answers for the kernel.
fn is_filtered(privileges: &Privileges) -> bool {
    privileges.seccomp == Some(SECCOMP_FILTER)
}

fn lacks_fsopen(kernel: (u32, u32)) -> bool {
    kernel < (5, 2)
}

/// Whether lockdown is known to be at the level that closes tracefs (`LOCKDOWN_TRACEFS` in
/// `include/linux/security.h`).
pub(super) fn locked_down(privileges: &Privileges) -> bool {
    privileges.lockdown == Some(Lockdown::Confidentiality)
}

/// A folder that rlat may read by the capabilities of its file, and its user perhaps not.
pub(super) fn refused_copy(folder: &Path) -> Error {
    Error {
        kind: Kind::Permission,
        step: Step::Tracefs,
        object: escape_path(folder),
        cause: Cause::Text(
            "it is no mounted tracefs, and rlat has capabilities that its user does not have"
                .to_owned(),
        ),
        next: "leave --tracefs out, or run rlat as root".to_owned(),
    }
}

fn unforeseen(folder: &Path, errno: Errno) -> Error {
    let why = "its `events` folder cannot be read";
    error(Kind::Other, folder, errno, why, "name another tracefs with --tracefs DIR")
}

fn error(kind: Kind, folder: &Path, errno: Errno, why: &str, next: &str) -> Error {
    Error {
        kind,
        step: Step::Tracefs,
        object: escape_path(folder),
        cause: Cause::Explained(errno, why.to_owned()),
        next: next.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "/sys/kernel/tracing";
    const NEW: Option<(u32, u32)> = Some((6, 12));

    fn all() -> Privileges {
        Privileges { effective: Some(u64::MAX), seccomp: Some(0), ..Privileges::default() }
    }

    fn events(errno: Errno, privileges: &Privileges) -> Error {
        refused_events(Path::new("/"), errno, privileges)
    }

    #[test]
    fn a_tracefs_that_is_there_and_closed_is_a_matter_of_permission() {
        let error = events(Errno::EACCES, &all());
        assert_eq!((error.kind, error.errno()), (Kind::Permission, Some(Errno::EACCES)));
        assert!(error.to_string().contains("is mounted there"));
    }

    #[test]
    fn lockdown_is_blamed_only_when_it_was_seen() {
        let locked = Privileges { lockdown: Some(Lockdown::Confidentiality), ..all() };
        for errno in [Errno::EPERM, Errno::ENOENT] {
            assert!(events(errno, &locked).to_string().contains("lockdown"));
            assert!(!events(errno, &all()).to_string().contains("lockdown"));
        }
        let integrity = Privileges { lockdown: Some(Lockdown::Integrity), ..all() };
        assert!(!events(Errno::EPERM, &integrity).to_string().contains("lockdown"));
    }

    #[test]
    fn a_kernel_without_events_is_unsupported() {
        assert_eq!(events(Errno::ENOENT, &all()).kind, Kind::Unsupported);
        assert_eq!(refused_mount(Errno::ENODEV, &all(), NEW).kind, Kind::Unsupported);
        assert_eq!(refused_mount(Errno::ENOSYS, &all(), NEW).kind, Kind::Unsupported);
    }

    #[test]
    fn a_call_that_is_not_there_is_the_filters_doing_unless_the_kernel_is_too_old_for_it() {
        let filtered = Privileges { seccomp: Some(SECCOMP_FILTER), ..all() };
        let kind = |privileges, kernel| refused_mount(Errno::ENOSYS, privileges, kernel).kind;
        assert_eq!(kind(&filtered, NEW), Kind::Permission);
        assert_eq!(kind(&filtered, None), Kind::Permission);
        assert_eq!(kind(&filtered, Some((4, 19))), Kind::Unsupported);
        assert_eq!(kind(&all(), NEW), Kind::Unsupported);
    }

    #[test]
    fn a_forbidden_mount_names_what_is_missing() {
        let reason = |privileges| refused_mount(Errno::EPERM, &privileges, NEW).to_string();
        assert!(reason(Privileges { effective: Some(0), ..all() }).contains("lacks CAP_SYS_ADMIN"));
        assert!(reason(Privileges { seccomp: Some(2), ..all() }).contains("seccomp"));
        let locked = Privileges { lockdown: Some(Lockdown::Confidentiality), ..all() };
        assert!(reason(locked).contains("lockdown is at confidentiality"));
        let inside = Privileges { initial_user_namespace: Some(false), ..all() };
        assert!(reason(inside).contains("user namespace"));
        assert!(reason(all()).contains("security module"));
        assert_eq!(refused_mount(Errno::EPERM, &all(), NEW).kind, Kind::Permission);
    }

    #[test]
    fn a_private_mount_without_proc_is_told_apart() {
        let gone = Path::new("/proc/self/fd/no-such-descriptor");
        assert!(refused_events(gone, Errno::ENOENT, &all()).to_string().contains("through /proc"));
    }

    #[test]
    fn a_given_folder_that_is_closed_is_a_matter_of_permission() {
        assert_eq!(refused_folder(Path::new(ROOT), Errno::EACCES).kind, Kind::Permission);
        assert_eq!(refused_folder(Path::new(ROOT), Errno::ENOENT).kind, Kind::Unsupported);
        assert_eq!(refused_folder(Path::new(ROOT), Errno::EIO).kind, Kind::Other);
    }
}
