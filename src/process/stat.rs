//! `/proc/PID/stat`: one line of numbers, with the name of the thread in it; see `proc_pid_stat(5)`.

use std::io;

/// Set in [`Stat::flags`] of the kernel's own threads; `PF_KTHREAD` in `include/linux/sched.h`.
const PF_KTHREAD: u64 = 0x0020_0000;
/// Set in [`Stat::flags`] of a thread on its way out; `PF_EXITING` there.
const PF_EXITING: u64 = 4;

/// The fields of a `stat` file that are needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Field 3: the state, one letter.
    pub state: char,
    /// Field 9: the kernel's flags of the thread, `PF_...` in `include/linux/sched.h`.
    pub flags: u64,
    /// Field 11: the minor page faults of the children that it has waited for. None gets by without one.
    pub children_faults: u64,
    /// Field 22: when it started, in clock ticks since boot. With the id it names a process for
    /// good: an id is not given away again within one tick.
    pub start_time: u64,
}

impl Stat {
    /// Parses a `stat` file; `None` where it is not one.
    ///
    /// The second field is the name in parentheses, and may itself hold spaces, newlines and
    /// parentheses, so that the last closing one ends it.
    ///
    /// ```
    /// use rlat::process::Stat;
    ///
    /// let line = b"7 (a) R (b) S 1 7 7 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4242 0\n";
    /// let stat = Stat::parse(line).unwrap();
    /// assert_eq!((stat.state, stat.flags, stat.start_time), ('S', 4_194_560, 4242));
    /// ```
    pub fn parse(line: &[u8]) -> Option<Self> {
        let end_of_name = line.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(&line[end_of_name + 1..]).ok()?;
        // What follows the name begins with field 3.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Self {
            state: field(3)?.chars().next()?,
            flags: field(9)?.parse().ok()?,
            children_faults: field(11)?.parse().ok()?,
            start_time: field(22)?.parse().ok()?,
        })
    }

    /// Reads the `stat` of a process or of one of its threads, by its id.
    ///
    /// # Errors
    ///
    /// As [`Status::read`](super::Status::read), and `InvalidData` where the line is not understood.
    pub fn read(id: u32) -> io::Result<Self> {
        let line = std::fs::read(format!("/proc/{id}/stat"))?;
        Self::parse(&line).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whether it has ended, and only waits for somebody to ask for its exit status.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Whether it is on its way out: no code of its program runs in it any more.
    pub fn is_exiting(&self) -> bool {
        self.flags & PF_EXITING != 0
    }

    /// Whether it is a thread of the kernel itself, which makes no system calls.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REST: &str = "S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 12 0 0";

    #[test]
    fn any_name_is_skipped() {
        for name in ["kthreadd", "a b", ") S 1 (", "(((", ")))", "\n", ""] {
            let stat = Stat::parse(format!("2 ({name}) {REST}\n").as_bytes()).unwrap();
            assert_eq!((stat.state, stat.start_time), ('S', 12), "{name:?}");
            assert!(stat.is_kernel_thread());
        }
    }

    #[test]
    fn a_name_of_other_bytes_than_utf8_is_skipped() {
        let line = [b"2 (\xff\xfe) ", REST.as_bytes()].concat();
        assert!(Stat::parse(&line).is_some());
    }

    #[test]
    fn a_cut_line_is_none() {
        assert_eq!(Stat::parse(b""), None);
        assert_eq!(Stat::parse(b"2 (x) S 1 2"), None);
        assert_eq!(Stat::parse(b"2 (x"), None);
    }

    #[test]
    fn this_process_runs_and_is_no_kernel_thread() {
        let stat = Stat::read(std::process::id()).unwrap();
        assert!(!stat.has_ended());
        assert!(!stat.is_kernel_thread());
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let _ = Stat::parse(&bytes);
        }
    }
}
