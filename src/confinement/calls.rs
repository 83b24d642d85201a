//! The system calls from the opening of the window to the end of the process.
//!
//! Found by running the tests under strace(1) with a binary for glibc and one for musl: one calls poll(2) where
//! the other calls ppoll(2), and so on. A test runs rlat under strace(1) and looks for a refused call.

use libc::{
    O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_RDWR, O_TRUNC, O_WRONLY, PROT_EXEC, TCGETS, TIOCGWINSZ,
};

use super::{Call, Tasks, When};

/// Allowed on any arguments: they act on this process, or on descriptors that it has.
const ALWAYS: &[i64] = &[
    // To wait, and to know how long.
    libc::SYS_ppoll,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_membarrier,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    // To read /proc: what is opened is restricted below.
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    // To write the result.
    libc::SYS_write,
    libc::SYS_writev,
    // Memory: mapping it is restricted below.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // Signals: a handler writes to a socket, and returns.
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_sendto,
    // What tells this process about itself.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_uname,
    libc::SYS_getrandom,
    // The end.
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The older names of some, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const ALSO: &[i64] = &[libc::SYS_poll, libc::SYS_stat, libc::SYS_lstat, libc::SYS_readlink];
#[cfg(not(target_arch = "x86_64"))]
const ALSO: &[i64] = &[];

/// The flags of open(2) that change something, or allow to.
const WRITING: i32 = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
/// What makes sure that a file is new.
const NEW_FILE: i32 = O_CREAT | O_EXCL | O_NOFOLLOW;

/// What newer C libraries ask instead of TCGETS (`include/uapi/asm-generic/ioctls.h`).
const TCGETS2: u32 = 0x802C_542A;

/// Allowed on some arguments.
const SOMETIMES: &[Call] = &[
    // The commands of bpf(2) that read (`enum bpf_cmd`): BPF_MAP_LOOKUP_ELEM, BPF_MAP_GET_NEXT_KEY and
    // BPF_OBJ_GET_INFO_BY_FD.
    call(libc::SYS_bpf, When::is(0, 1)),
    call(libc::SYS_bpf, When::is(0, 4)),
    call(libc::SYS_bpf, When::is(0, 15)),
    call(libc::SYS_openat, When::without(2, WRITING as u32)),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_open, When::without(1, WRITING as u32)),
    // Whether it is a terminal, and how large.
    call(libc::SYS_ioctl, When::is(1, TCGETS as u32)),
    call(libc::SYS_ioctl, When::is(1, TCGETS2)),
    call(libc::SYS_ioctl, When::is(1, TIOCGWINSZ as u32)),
    call(libc::SYS_mmap, When::without(2, PROT_EXEC as u32)),
    call(libc::SYS_mprotect, When::without(2, PROT_EXEC as u32)),
];

/// To make a file, and to put it in the place of another one.
const FILE: &[Call] = &[
    call(libc::SYS_openat, When::with(2, NEW_FILE as u32)),
    call(libc::SYS_fsync, When::Always),
    call(libc::SYS_renameat, When::Always),
    call(libc::SYS_renameat2, When::Always),
    call(libc::SYS_unlinkat, When::Always),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_open, When::with(1, NEW_FILE as u32)),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_rename, When::Always),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_unlink, When::Always),
];

const fn call(number: i64, when: When) -> Call {
    Call { number, when }
}

/// What the tasks, and all that comes without being asked for, need.
pub(super) fn needed(tasks: Tasks<'_>) -> Vec<Call> {
    let mut calls = Vec::new();
    calls.extend(ALSO.iter().chain(ALWAYS).map(|number| call(*number, When::Always)));
    calls.extend_from_slice(SOMETIMES);
    if tasks.folder.is_some() {
        calls.extend_from_slice(FILE);
    }
    if let Some(command) = tasks.command {
        calls.extend([
            call(libc::SYS_wait4, When::Always),
            call(libc::SYS_waitid, When::Always),
            call(libc::SYS_kill, When::is(0, command)),
        ]);
    }
    calls
}
