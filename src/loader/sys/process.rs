//! Processes: a descriptor of one, and what this one passes on.

use std::os::fd::OwnedFd;

use nix::Result;
use nix::errno::Errno;

use super::own;

/// pidfd_open(2), Linux 5.3: a descriptor that becomes readable when the whole process has ended.
///
/// # Errors
/// `ESRCH` when there is no such process, `EINVAL` when it is a thread but no process, `ENOSYS`.
pub fn pidfd_open(pid: u32) -> Result<OwnedFd> {
    // SAFETY: the call takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    own(Errno::result(fd)? as i32)
}

/// Gives up the capabilities that this process would pass on by execve(2) as they are, `ambient` in
/// capabilities(7), Linux 4.3.
///
/// # Errors
/// None that a kernel of today has.
pub fn clear_ambient_capabilities() -> Result<()> {
    // SAFETY: the call takes integers.
    let result =
        unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    Errno::result(result).map(drop)
}
