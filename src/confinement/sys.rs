//! The system calls for which no library is here: seccomp(2), capset(2), and two of prctl(2).
#![allow(unsafe_code)]

use libc::{c_ulong, sock_filter, sock_fprog};
use nix::Result;
use nix::errno::Errno;

/// Makes the filter that of this process, with all of its threads, for good. It needs `no_new_privs`.
///
/// # Errors
/// `EINVAL` or `ENOSYS` on a kernel without such filters.
pub(super) fn install(filter: &[sock_filter]) -> Result<()> {
    let length = u16::try_from(filter.len()).map_err(|_| Errno::E2BIG)?;
    let program = sock_fprog { len: length, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel reads `len` instructions, and writes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    match Errno::result(result)? {
        0 => Ok(()),
        // The id of a thread that has a filter of its own.
        _ => Err(Errno::EBUSY),
    }
}

/// `_LINUX_CAPABILITY_VERSION_3`: sets of 64 bits, in two halves. Linux 2.6.26.
const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// One half of the three sets.
#[repr(C)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Sets the capabilities of this thread: those in effect, and those that it may take into effect. None are
/// inheritable.
///
/// # Errors
/// `EPERM` when there is one among them that was not permitted before.
pub(super) fn set_capabilities(effective: u64, permitted: u64) -> Result<()> {
    let this_thread = 0;
    let header = Header { version: VERSION_3, pid: this_thread };
    let half = |shift: u32| Half {
        effective: (effective >> shift) as u32,
        permitted: (permitted >> shift) as u32,
        inheritable: 0,
    };
    let halves = [half(0), half(32)];
    // SAFETY: with this version the kernel reads a header and two halves, and writes nothing.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, halves.as_ptr()) };
    Errno::result(result).map(drop)
}

/// Takes a capability out of those that an execve(2) can give.
///
/// # Errors
/// `EINVAL` for a number that this kernel has no capability for, `EPERM` without `CAP_SETPCAP`.
pub(super) fn drop_from_bounding_set(capability: u32) -> Result<()> {
    let unused: c_ulong = 0;
    // SAFETY: the call takes integers.
    let result = unsafe {
        libc::prctl(libc::PR_CAPBSET_DROP, c_ulong::from(capability), unused, unused, unused)
    };
    Errno::result(result).map(drop)
}
