//! What a thread is doing right now, from `/proc/PID/task/TID/syscall`.
//!
//! The file is described in `proc_pid_syscall(5)`, and written by `proc_pid_syscall()` of
//! `fs/proc/base.c`. It shows a call only while the thread is blocked in it. The kernel needs
//! `CONFIG_HAVE_ARCH_TRACEHOOK`, and the reader ptrace access to the process.

use std::io;

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It runs, or waits for a CPU. It may be in a system call all the same.
    Running,
    /// It is blocked, but not in a system call: by a page fault, for one.
    Outside,
    /// It is blocked in a system call.
    InSyscall {
        /// The number of the call, in the thread's own architecture: read is 0 on `x86_64`.
        number: i64,
        /// Its six argument registers; what a call does not take is left over from before.
        args: [u64; 6],
        /// The stack pointer.
        sp: u64,
        /// The address of the next instruction.
        pc: u64,
    },
}

impl Activity {
    /// Parses a `syscall` file; `None` where it is not one.
    ///
    /// ```
    /// use rlat::process::Activity;
    ///
    /// assert_eq!(Activity::parse(b"running\n"), Some(Activity::Running));
    /// let read = Activity::parse(b"0 0x3 0x7f00 0x400 0x0 0x0 0x0 0x7ffd 0x7f11\n");
    /// assert!(matches!(read, Some(Activity::InSyscall { number: 0, args: [3, ..], .. })));
    /// ```
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let first = words.next()?;
        if first == "running" {
            return Some(Self::Running);
        }
        let number: i64 = first.parse().ok()?;
        if number < 0 {
            return Some(Self::Outside);
        }
        let mut next = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let mut args = [0; 6];
        for arg in &mut args {
            *arg = next()?;
        }
        Some(Self::InSyscall { number, args, sp: next()?, pc: next()? })
    }
}

/// What thread `tid` of process `pid` is doing.
///
/// # Errors
///
/// `ENOENT` or `ESRCH` when the thread has ended, `EPERM` or `EACCES` without ptrace access, and
/// `InvalidData` where the line is not understood.
pub fn activity(pid: u32, tid: u32) -> io::Result<Activity> {
    let line = std::fs::read(format!("/proc/{pid}/task/{tid}/syscall"))?;
    Activity::parse(&line).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn the_three_forms_are_told_apart() {
        assert_eq!(Activity::parse(b"running\n"), Some(Activity::Running));
        assert_eq!(Activity::parse(b"-1 0x7ffd 0x7f11\n"), Some(Activity::Outside));
        let expected = Activity::InSyscall {
            number: 232,
            args: [5, u64::MAX, 0, 0x20, 0, 1],
            sp: 0x7ffd,
            pc: 0x7f11,
        };
        let line = b"232 0x5 0xffffffffffffffff 0x0 0x20 0x0 0x1 0x7ffd 0x7f11\n";
        assert_eq!(Activity::parse(line), Some(expected));
    }

    #[test]
    fn anything_else_is_none() {
        for line in ["", "\n", "0", "0 0x1 0x2\n", "x", "0 1 2 3 4 5 6 7 8\n"] {
            assert_eq!(Activity::parse(line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn a_child_that_waits_for_input_is_in_read() {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let since = Instant::now();
        let found = loop {
            match activity(cat.id(), cat.id()) {
                Ok(Activity::InSyscall { number, args: [0, ..], .. }) => break Some(number),
                Err(error) => {
                    eprintln!("skipped: {error}");
                    break None;
                }
                _ => assert!(since.elapsed() < Duration::from_secs(10), "cat never waits"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        drop(cat.stdin.take());
        cat.wait().unwrap();
        if let Some(number) = found {
            assert_eq!(number, libc::SYS_read);
        }
    }

    #[test]
    fn a_thread_that_is_not_there_is_an_error() {
        assert!(activity(u32::MAX, 1).is_err());
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let _ = Activity::parse(&bytes);
        }

        #[test]
        fn what_the_kernel_prints_is_read_back(number: u16, args: [u64; 6], sp: u64, pc: u64) {
            let words: Vec<String> =
                args.iter().chain([&sp, &pc]).map(|word| format!("{word:#x}")).collect();
            let line = format!("{number} {}\n", words.join(" "));
            let number = i64::from(number);
            prop_assert_eq!(
                Activity::parse(line.as_bytes()),
                Some(Activity::InSyscall { number, args, sp, pc })
            );
        }
    }
}
