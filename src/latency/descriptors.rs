//! Which system calls take a descriptor as their first argument, for kernels that do not tell: where there
//! is tracefs, the `format` of the call's own tracepoint says so.

/// Sorted. They are those of Linux 6.18 on x86-64, where all architectures' calls with descriptors are.
const WITH_DESCRIPTOR: [&str; 119] = [
    "accept",
    "accept4",
    "bind",
    "cachestat",
    "close",
    "close_range",
    "connect",
    "copy_file_range",
    "dup",
    "dup2",
    "dup3",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "execveat",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fallocate",
    "fanotify_mark",
    "fchdir",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchown",
    "fchownat",
    "fcntl",
    "fdatasync",
    "fgetxattr",
    "file_getattr",
    "file_setattr",
    "flistxattr",
    "flock",
    "fremovexattr",
    "fsconfig",
    "fsetxattr",
    "fsmount",
    "fspick",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "futimesat",
    "getdents",
    "getdents64",
    "getpeername",
    "getsockname",
    "getsockopt",
    "getxattrat",
    "inotify_add_watch",
    "inotify_rm_watch",
    "io_uring_enter",
    "io_uring_register",
    "ioctl",
    "linkat",
    "listen",
    "listxattrat",
    "lseek",
    "mkdirat",
    "mknodat",
    "mount_setattr",
    "move_mount",
    "mq_getsetattr",
    "mq_notify",
    "mq_timedreceive",
    "mq_timedsend",
    "name_to_handle_at",
    "newfstat",
    "newfstatat",
    "open_by_handle_at",
    "open_tree",
    "open_tree_attr",
    "openat",
    "openat2",
    "pidfd_getfd",
    "pidfd_send_signal",
    "pread64",
    "preadv",
    "preadv2",
    "process_madvise",
    "process_mrelease",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "quotactl_fd",
    "read",
    "readahead",
    "readlinkat",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "removexattrat",
    "renameat",
    "renameat2",
    "sendfile",
    "sendfile64",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setns",
    "setsockopt",
    "setxattrat",
    "shutdown",
    "signalfd",
    "signalfd4",
    "splice",
    "statx",
    "sync_file_range",
    "syncfs",
    "tee",
    "timerfd_gettime",
    "timerfd_settime",
    "unlinkat",
    "utimensat",
    "vmsplice",
    "write",
    "writev",
];

/// Whether the first argument of the call is a descriptor.
pub(super) fn takes_descriptor(call: &str) -> bool {
    WITH_DESCRIPTOR.binary_search(&call).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Syscall;
    use crate::tracefs::Tracefs;

    #[test]
    fn the_list_is_sorted() {
        assert!(WITH_DESCRIPTOR.is_sorted());
        assert!(takes_descriptor("read") && !takes_descriptor("open"));
    }

    /// The list says what the kernel's own tracepoints say, of every call that the kernel has.
    #[test]
    fn the_kernel_agrees() {
        let tracefs = match Tracefs::open(None) {
            Ok(tracefs) => tracefs,
            Err(error) => {
                assert!(std::env::var_os("RLAT_REQUIRE_BPF").is_none(), "{error}");
                eprintln!("skipped: {error}");
                return;
            }
        };
        for call in WITH_DESCRIPTOR {
            if let Ok(found) = Syscall::find_all(&tracefs, &[call.to_owned()]) {
                assert!(found[0].takes_descriptor, "{call}");
            }
        }
        for (call, listed) in [("read", true), ("open", false), ("pipe", false), ("mmap", false)] {
            let Ok(found) = Syscall::find_all(&tracefs, &[call.to_owned()]) else { continue };
            assert_eq!(found[0].takes_descriptor, listed, "{call}");
        }
    }
}
