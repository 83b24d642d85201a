//! A filesystem of one's own, that nobody else sees.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::Result;
use nix::errno::Errno;

use super::own;

/// Mounts a filesystem that needs no device and no option, read-only and attached to no folder: only
/// the holder of the descriptor sees it. Linux 5.2.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, `ENODEV` when the kernel has no such filesystem, `ENOSYS`.
pub fn mount_detached(filesystem: &CStr) -> Result<OwnedFd> {
    const FSOPEN_CLOEXEC: u32 = 1;
    const FSCONFIG_CMD_CREATE: u32 = 6;
    const FSMOUNT_CLOEXEC: u32 = 1;
    /// `RDONLY`, `NOSUID`, `NODEV` and `NOEXEC`.
    const MOUNT_ATTRS: u32 = 1 | 2 | 4 | 8;
    // SAFETY: the name ends with a zero; the other argument is an integer.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, filesystem.as_ptr(), FSOPEN_CLOEXEC) };
    let context = own(Errno::result(context)? as i32)?;
    let null = std::ptr::null::<u8>();
    // SAFETY: this command takes neither key nor value, so both may be null.
    let created = unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, null, null, 0)
    };
    Errno::result(created)?;
    // SAFETY: the call takes three integers.
    let mount = unsafe {
        libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, MOUNT_ATTRS)
    };
    own(Errno::result(mount)? as i32)
}
