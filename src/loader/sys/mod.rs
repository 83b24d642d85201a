//! The system calls that no library wraps: bpf(2), perf_event_open(2) and a few more.
//!
//! This is the one place where rlat talks to the kernel in raw structures, and apart from the file
//! that maps memory, and the one that gives up privileges, the only one with `unsafe`. Everything it gives out is safe to use: descriptors
//! are owned, and a map remembers the sizes of its key and value, because the kernel reads and
//! writes as many bytes as it was told when the map was created.
//!
//! One file for each thing that is asked of the kernel: `maps`, `programs` (loading them), `btf`,
//! `tracepoints` (attaching), `running` (what became of a loaded program), `mount`, `process`. What all
//! commands of bpf(2) share is in this one.
//!
//! Sources: `union bpf_attr` and `struct bpf_prog_info` in `include/uapi/linux/bpf.h`,
//! `struct perf_event_attr` in `include/uapi/linux/perf_event.h`. Each command reads only its own
//! part of the union, and a kernel takes a longer union than it knows if the rest is zero; so each
//! command has a struct of its own, beside the function that fills it in.
#![allow(unsafe_code)]

mod btf;
mod maps;
mod mount;
mod process;
mod programs;
mod running;
mod tracepoints;

use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::Result;
use nix::errno::Errno;

pub use btf::{DebugTables, btf_load};
pub use maps::{
    AnyMapSpec, MMAPABLE, MapFd, MapSpec, MapType, NO_PREALLOC, map_create, map_create_any,
};
pub use mount::mount_detached;
pub use process::{clear_ambient_capabilities, pidfd_open};
pub use programs::{
    AnyProgramSpec, LogBuffer, LogLevel, ProgramSpec, ProgramType, prog_load, prog_load_any,
    prog_load_described, prog_load_logged,
};
pub use running::{ProgInfo, enable_stats, prog_info, prog_test_run, wait_for_running_programs};
pub use tracepoints::{
    perf_event_open_dummy, perf_event_open_tracepoint, perf_event_set_bpf, raw_tracepoint_open,
};

/// The length of a map's or program's name with the ending zero (`BPF_OBJ_NAME_LEN`).
pub const NAME_BYTES: usize = 16;

/// bpf(2).
///
/// # Safety
/// `A` must be laid out as the part of `union bpf_attr` that the command reads, and every pointer
/// in it must be valid for as many bytes as the command reads or writes there.
unsafe fn bpf<A>(command: i32, attr: &mut A) -> Result<i32> {
    let pointer: *mut A = attr;
    // SAFETY: by this function's own contract; the size passed is the attribute's.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<A>()) };
    Errno::result(result).map(|value| value as i32)
}

/// Takes ownership of a new descriptor, and never of 0 to 2: in some fields of bpf(2) descriptor 0
/// means "none", and whoever closed standard output does not expect a map to be there.
fn own(fd: i32) -> Result<OwnedFd> {
    // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    let above = nix::fcntl::fcntl(&fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(3))?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(above) })
}

/// A name as the kernel takes it: letters, digits, `_` and `.`, at most 15, and zeros.
fn object_name(name: &str) -> [u8; NAME_BYTES] {
    let mut field = [0; NAME_BYTES];
    for (place, byte) in field[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
        let allowed = byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
        *place = if allowed { byte } else { b'_' };
    }
    field
}

#[cfg(test)]
mod tests {
    use super::object_name;

    #[test]
    fn names_are_cut_and_cleaned() {
        assert_eq!(&object_name("rlat_read_enter_and_more"), b"rlat_read_enter\0");
        assert_eq!(&object_name("a b\n"), b"a_b_\0\0\0\0\0\0\0\0\0\0\0\0");
    }
}
