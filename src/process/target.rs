//! The process to measure.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};
use nix::unistd::Pid;

use super::namespace::proc_is_ours;
use super::{PidNamespace, Stat, Status, live_tid, thread_name};
use crate::error::{Cause, Error, Kind, MORE_FILES, Result, Step};
use crate::loader::sys::pidfd_open;

/// A process that was there when it was opened.
///
/// ```
/// let own = rlat::process::Target::open(std::process::id())?;
/// assert_eq!(own.pid, std::process::id());
/// # Ok::<(), rlat::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Target {
    /// The process id, as this program sees it.
    pub pid: u32,
    /// The id that was asked for: that of the process or of any of its threads.
    pub requested: u32,
    /// The name of its leader, as [`thread_name`] gives it.
    pub name: String,
    /// How many threads it had.
    pub threads: usize,
    /// The PID namespace that it lives in.
    pub namespace: PidNamespace,
    /// Its process id there, which is what it sees itself.
    pub pid_inside: u32,
    /// The id there of the thread that was asked for.
    pub requested_inside: u32,
    pidfd: Option<OwnedFd>,
}

impl Target {
    /// Finds the process with the id `requested`, or the one that has a thread with that id.
    ///
    /// # Errors
    ///
    /// - [`Kind::NoProcess`] when there is none, or it has ended. A process whose leader has ended
    ///   is still one while any other of its threads lives.
    /// - [`Kind::Usage`] for a thread of the kernel, which makes no system calls.
    /// - [`Kind::Permission`] when it is there, but hidden from this user.
    /// - [`Kind::Other`] when `/proc` is not mounted, or for another PID namespace.
    pub fn open(requested: u32) -> Result<Self> {
        check_proc()?;
        let any_thread = Status::read(requested).map_err(|error| unreadable(requested, error))?;
        let pid = any_thread.tgid.unwrap_or(requested);
        let unreadable = |error| unreadable(pid, error);
        let before = Stat::read(pid).map_err(unreadable)?;
        if before.is_kernel_thread() {
            return Err(failure(
                pid,
                Kind::Usage,
                Cause::Text("it is a thread of the kernel, and makes no system calls".to_owned()),
                "name a process of a program: `ps -ef` lists them, those of the kernel in brackets",
            ));
        }
        if live_tid(pid).is_none() {
            return Err(if before.has_ended() { zombie(pid) } else { no_process(pid) });
        }
        let pidfd = open_pidfd(pid)?;
        let status = Status::read(pid).map_err(unreadable)?;
        let target = Self {
            pid,
            requested,
            name: thread_name(pid, pid).unwrap_or_default(),
            threads: status.threads.unwrap_or(1),
            namespace: PidNamespace::of(pid, &status)?,
            pid_inside: status.innermost_tid().unwrap_or(pid),
            requested_inside: any_thread.innermost_tid().unwrap_or(requested),
            pidfd,
        };
        // The id may have been given to another process in between: then all of this is about two.
        let after = Stat::read(pid).map_err(unreadable)?;
        if after.start_time == before.start_time { Ok(target) } else { Err(no_process(pid)) }
    }

    /// A descriptor that poll(2) calls readable when the whole process has ended.
    ///
    /// `None` where the kernel has no pidfd (before Linux 5.3) or a seccomp filter refuses it.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }
}

/// Opens a pidfd, where that can be had.
fn open_pidfd(pid: u32) -> Result<Option<OwnedFd>> {
    match pidfd_open(pid) {
        Ok(pidfd) => Ok(Some(pidfd)),
        // EPERM is not the kernel's: container runtimes' filters answer so to calls they do not know.
        Err(Errno::ENOSYS | Errno::EPERM) => Ok(None),
        Err(Errno::ESRCH) => Err(no_process(pid)),
        Err(errno @ (Errno::EMFILE | Errno::ENFILE)) => {
            Err(failure(pid, Kind::Other, Cause::Errno(errno), MORE_FILES))
        }
        Err(errno) => Err(failure(
            pid,
            Kind::Other,
            Cause::Explained(errno, "pidfd_open(2) failed".to_owned()),
            "see pidfd_open(2) for this error",
        )),
    }
}

/// Makes sure that `/proc` is there and speaks of the same ids as system calls do.
fn check_proc() -> Result<()> {
    let error = |cause, next: &str| Error {
        kind: Kind::Other,
        step: Step::Target,
        object: "any process".to_owned(),
        cause,
        next: next.to_owned(),
    };
    let not_mounted = |cause| error(cause, "mount it, as root: `mount -t proc proc /proc`");
    match statfs("/proc") {
        Ok(filesystem) if filesystem.filesystem_type() == PROC_SUPER_MAGIC => {}
        Ok(_) => return Err(not_mounted(Cause::Text("no procfs is mounted at /proc".to_owned()))),
        Err(errno) => {
            let why = "no procfs is mounted at /proc".to_owned();
            return Err(not_mounted(Cause::Explained(errno, why)));
        }
    }
    match proc_is_ours() {
        Ok(true) => Ok(()),
        // ENOENT: this process has no id at all in that namespace.
        Ok(false) | Err(_) => Err(error(
            Cause::Text(
                "/proc was mounted for another PID namespace than this process is in".to_owned(),
            ),
            "mount its own over it, as root: `mount -t proc proc /proc`, or run in that namespace: \
             `nsenter --pid`",
        )),
    }
}

/// The error for a process whose files in `/proc` could not be read.
fn unreadable(id: u32, error: io::Error) -> Error {
    let errno = Errno::try_from(error).unwrap_or(Errno::EIO);
    match errno {
        Errno::ENOENT | Errno::ESRCH if exists(id) => hidden(id, errno),
        Errno::ENOENT | Errno::ESRCH => no_process(id),
        Errno::EPERM | Errno::EACCES => hidden(id, errno),
        Errno::EMFILE | Errno::ENFILE => failure(id, Kind::Other, Cause::Errno(errno), MORE_FILES),
        _ => failure(
            id,
            Kind::Other,
            Cause::Explained(errno, format!("/proc/{id} cannot be read")),
            "see whether /proc is mounted as usual: `mount -t proc`",
        ),
    }
}

/// Whether there is a process or thread with that id, which `/proc` may hide and kill(2) does not.
fn exists(id: u32) -> bool {
    // 0 and negative ids mean groups of processes to kill(2).
    match i32::try_from(id) {
        Ok(id @ 1..) => matches!(kill(Pid::from_raw(id), None), Ok(()) | Err(Errno::EPERM)),
        _ => false,
    }
}

fn hidden(id: u32, errno: Errno) -> Error {
    failure(
        id,
        Kind::Permission,
        Cause::Explained(
            errno,
            "it exists, but /proc hides it from this user (hidepid)".to_owned(),
        ),
        "run as root, or as a member of the group that /proc is mounted with (gid=)",
    )
}

fn no_process(id: u32) -> Error {
    failure(id, Kind::NoProcess, Cause::Errno(Errno::ESRCH), "`ps -e` lists the processes")
}

fn zombie(id: u32) -> Error {
    failure(
        id,
        Kind::NoProcess,
        Cause::Text(
            "it has already ended, and waits for its parent to take the exit status".to_owned(),
        ),
        "name a process that runs: `ps -e` lists them",
    )
}

fn failure(id: u32, kind: Kind, cause: Cause, next: &str) -> Error {
    Error {
        kind,
        step: Step::Target,
        object: format!("process {id}"),
        cause,
        next: next.to_owned(),
    }
}

#[cfg(test)]
mod tests;
