//! Attaching a loaded program: to a tracepoint's perf event, or to a raw tracepoint.

use std::ffi::CStr;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::Result;
use nix::errno::Errno;

use super::{bpf, own};

const BPF_RAW_TRACEPOINT_OPEN: i32 = 17;

#[repr(C)]
struct RawTracepointOpenAttr {
    name: u64,
    prog_fd: u32,
    _padding: u32,
}

/// Attaches a program to the raw tracepoint of that name, without perf and without tracefs; closing
/// the descriptor detaches it. Linux 4.17. One of type
/// [`TypedRawTracepoint`](super::ProgramType::TypedRawTracepoint) was loaded for a tracepoint already, and takes
/// no name.
///
/// # Errors
/// `ENOENT` when there is no such tracepoint; `EINVAL` when the program's type does not fit, when it
/// reads more arguments than the tracepoint has, and when the kernel does not know the command.
pub fn raw_tracepoint_open(name: Option<&CStr>, program: BorrowedFd<'_>) -> Result<OwnedFd> {
    let mut attr = RawTracepointOpenAttr {
        name: name.map_or(0, |name| name.as_ptr() as u64),
        prog_fd: program.as_raw_fd() as u32,
        _padding: 0,
    };
    // SAFETY: the kernel reads the name, if there is one, up to its ending zero, and it is borrowed for
    // the call.
    own(unsafe { bpf(BPF_RAW_TRACEPOINT_OPEN, &mut attr) }?)
}

/// The first 64 bytes of `struct perf_event_attr`, a size that every kernel takes
/// (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    event_type: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_TYPE_TRACEPOINT: u32 = 2;
/// A software event that never happens. Linux 3.12.
const PERF_COUNT_SW_DUMMY: u64 = 9;
const PERF_FLAG_FD_CLOEXEC: u64 = 8;
/// `attr.disabled`, the lowest of the flags.
const PERF_ATTR_DISABLED: u64 = 1;

/// Opens a perf event on a tracepoint, to attach a program to it.
///
/// The event itself is never enabled, so that perf keeps no records: the program runs all the same,
/// on every CPU, because it belongs to the tracepoint (`perf_syscall_enter` in
/// `kernel/trace/trace_syscalls.c` looks for programs before it looks for enabled events).
///
/// # Errors
/// As perf_event_open(2): `EACCES` or `EPERM` without the privilege, `ENODEV` when the CPU is
/// offline, `EINVAL` or `ENOENT` when there is no tracepoint with that id.
pub fn perf_event_open_tracepoint(id: u64, cpu: u32) -> Result<OwnedFd> {
    perf_event_open(PERF_TYPE_TRACEPOINT, id, cpu)
}

/// Opens a perf event that never happens, for all processes as those on tracepoints are: the
/// privilege is the same, but nothing in the kernel begins to work for it.
///
/// # Errors
/// As [`perf_event_open_tracepoint`], but for those about the tracepoint.
pub fn perf_event_open_dummy(cpu: u32) -> Result<OwnedFd> {
    perf_event_open(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, cpu)
}

fn perf_event_open(event_type: u32, config: u64, cpu: u32) -> Result<OwnedFd> {
    let attr = PerfEventAttr {
        event_type,
        size: size_of::<PerfEventAttr>() as u32,
        config,
        flags: PERF_ATTR_DISABLED,
        ..PerfEventAttr::default()
    };
    let (any_process, no_group) = (-1_i32, -1_i32);
    // SAFETY: the kernel reads `size` bytes of the attribute, which holds no pointer.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            any_process,
            cpu as i32,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    own(Errno::result(fd)? as i32)
}

/// Attaches a program to the tracepoint of a perf event; closing the event detaches it.
///
/// # Errors
/// `EEXIST` when this event has a program, `EINVAL` when the program's type does not fit, `EACCES`
/// when it reads more of its context than the tracepoint has, `E2BIG` when the tracepoint has 64
/// programs already.
pub fn perf_event_set_bpf(event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> Result<()> {
    const PERF_EVENT_IOC_SET_BPF: libc::Ioctl = libc::_IOW::<u32>(b'$' as u32, 8);
    // SAFETY: this request takes a descriptor by value and touches no memory of ours.
    let result =
        unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_SET_BPF, program.as_raw_fd()) };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::PerfEventAttr;

    #[test]
    fn the_attribute_has_the_size_that_every_kernel_takes() {
        assert_eq!(size_of::<PerfEventAttr>(), 64);
    }
}
