//! How often a thread has called something that reads or writes, from `/proc/PID/task/TID/io`; see
//! `proc_pid_io(5)`.

use std::io;

/// The kernel's own count of the calls that read and write: read(), pread64(), readv() and the like
/// together, on files, pipes, terminals, and sockets too; but not recvfrom() and its relatives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounters {
    /// `syscr`: calls that read.
    pub reads: u64,
    /// `syscw`: calls that write.
    pub writes: u64,
}

impl IoCounters {
    /// Parses an `io` file; `None` where a line is missing.
    ///
    /// ```
    /// use rlat::process::IoCounters;
    ///
    /// let counters = IoCounters::parse(b"rchar: 99\nwchar: 0\nsyscr: 7\nsyscw: 2\n");
    /// assert_eq!(counters, Some(IoCounters { reads: 7, writes: 2 }));
    /// ```
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let value = |key: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            line.trim().parse().ok()
        };
        Some(Self { reads: value("syscr")?, writes: value("syscw")? })
    }

    /// Those of thread `tid` of process `pid`. (`/proc/PID/io` also counts the children that the
    /// process has waited for.)
    ///
    /// # Errors
    ///
    /// `ENOENT` or `ESRCH` when it has ended, and where the kernel has no `CONFIG_TASK_IO_ACCOUNTING`;
    /// `EACCES` without ptrace access; `InvalidData` where the file is not understood.
    pub fn read(pid: u32, tid: u32) -> io::Result<Self> {
        let text = std::fs::read(format!("/proc/{pid}/task/{tid}/io"))?;
        Self::parse(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads.saturating_add(other.reads),
            writes: self.writes.saturating_add(other.writes),
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn own_calls_are_counted() {
        let tid = nix::unistd::gettid().as_raw() as u32;
        let Ok(before) = IoCounters::read(std::process::id(), tid) else {
            eprintln!("skipped: no CONFIG_TASK_IO_ACCOUNTING");
            return;
        };
        let zero = std::fs::File::open("/dev/zero").unwrap();
        for _ in 0..100 {
            zero.read_exact_at(&mut [0], 0).unwrap(); // pread64()
        }
        let after = IoCounters::read(std::process::id(), tid).unwrap();
        assert!(after.since(before).reads >= 100);
        assert!(IoCounters::read(u32::MAX, 1).is_err());
    }

    #[test]
    fn what_is_missing_is_none() {
        for text in ["", "syscr: 1\n", "syscr: x\nsyscw: 1\n"] {
            assert_eq!(IoCounters::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let _ = IoCounters::parse(&bytes);
        }
    }
}
