//! `/proc/PID/status`: lines of a key, a colon, a tab and a value; see `proc_pid_status(5)`.

use std::io;
use std::str::FromStr;

/// The lines of a `status` file that are needed here.
///
/// A line that is missing or cannot be read is `None` (or empty): kernels leave out what they are
/// built without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// `Name`: the name of the thread. The kernel writes a newline and a backslash in it as `\n` and `\\`.
    pub name: String,
    /// `State`: one letter; `Z` (zombie) and `X` (dead) have ended.
    pub state: Option<char>,
    /// `Tgid`: the process, in the PID namespace that `/proc` was mounted for.
    pub tgid: Option<u32>,
    /// `Pid`: the thread, in the same namespace.
    pub tid: Option<u32>,
    /// `NSpid`: the thread in each PID namespace it is in, from that of `/proc` to the innermost
    /// (Linux 4.1; none where the kernel has no PID namespaces).
    pub namespace_tids: Vec<u32>,
    /// `Threads`: how many threads the process has.
    pub threads: Option<usize>,
    /// `CapPrm`: the capabilities that it may take into effect, bit N for capability N.
    pub permitted: Option<u64>,
    /// `CapEff`: the effective capabilities, bit N for capability N.
    pub effective: Option<u64>,
    /// `Seccomp`: 0 off, 1 strict, 2 a filter (Linux 3.8).
    pub seccomp: Option<u32>,
    /// `SigIgn`: the signals that are ignored, bit N - 1 for signal N.
    pub ignored_signals: Option<u64>,
    /// `voluntary_ctxt_switches` and `nonvoluntary_ctxt_switches` together: how often the thread has
    /// left a CPU (Linux 2.6.23).
    pub context_switches: Option<u64>,
    /// `VmHWM`: the most memory that was resident, in KiB.
    pub peak_memory_kib: Option<u64>,
}

impl Status {
    /// Parses a `status` file. Unknown lines are passed over.
    ///
    /// ```
    /// use rlat::process::Status;
    ///
    /// let status = Status::parse(b"Name:\tcat\nState:\tS (sleeping)\nTgid:\t12\nNSpid:\t12\t3\n");
    /// assert_eq!(status.state, Some('S'));
    /// assert_eq!(status.innermost_tid(), Some(3));
    /// ```
    pub fn parse(text: &[u8]) -> Self {
        let mut status = Self::default();
        for line in text.split(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            match key {
                // Only the tab goes: a name may begin or end with a space.
                "Name" => status.name = value.strip_prefix('\t').unwrap_or(value).into(),
                "State" => status.state = value.trim().chars().next(),
                "Tgid" => status.tgid = number(value),
                "Pid" => status.tid = number(value),
                "NSpid" => status.namespace_tids = numbers(value),
                "Threads" => status.threads = number(value),
                "CapPrm" => status.permitted = u64::from_str_radix(value.trim(), 16).ok(),
                "CapEff" => status.effective = u64::from_str_radix(value.trim(), 16).ok(),
                "Seccomp" => status.seccomp = number(value),
                "SigIgn" => status.ignored_signals = u64::from_str_radix(value.trim(), 16).ok(),
                "voluntary_ctxt_switches" | "nonvoluntary_ctxt_switches" => {
                    let others = status.context_switches.unwrap_or(0);
                    status.context_switches =
                        number::<u64>(value).map(|n| n.saturating_add(others));
                }
                "VmHWM" => {
                    status.peak_memory_kib = value.trim().strip_suffix(" kB").and_then(number);
                }
                _ => {}
            }
        }
        status
    }

    /// Reads the status of a process or of one of its threads, by its id.
    ///
    /// # Errors
    ///
    /// `ENOENT` or `ESRCH` where there is no such id, or where `/proc` hides it; `EPERM` where it
    /// is mounted with `hidepid=1`.
    pub fn read(id: u32) -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read(format!("/proc/{id}/status"))?))
    }

    /// Reads the status of this process.
    ///
    /// # Errors
    ///
    /// `ENOENT` where `/proc` is not mounted.
    pub fn read_own() -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read("/proc/self/status")?))
    }

    /// The thread's id in the PID namespace that it lives in.
    pub fn innermost_tid(&self) -> Option<u32> {
        self.namespace_tids.last().copied()
    }
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.trim().parse().ok()
}

/// All numbers of a list, or none of them: the last one is meant, so a gap must not shift it.
fn numbers(text: &str) -> Vec<u32> {
    text.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_needed_lines_are_found() {
        let text = b"Name:\ta: \\n\xff \nUmask:\t0022\nState:\tZ (zombie)\nTgid:\t77\nPid:\t78\n\
            NSpid:\t78\t9\t2\nThreads:\t3\nCapPrm:\t00000000000000ff\nCapEff:\t000001fffeffffff\nSeccomp:\t2\n\
            Seccomp_filters:\t1\nSigIgn:\t0000000000001000\nVmHWM:\t    1234 kB\n\
            voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n";
        let expected = Status {
            name: "a: \\n\u{fffd} ".to_owned(),
            state: Some('Z'),
            tgid: Some(77),
            tid: Some(78),
            namespace_tids: vec![78, 9, 2],
            threads: Some(3),
            permitted: Some(0xff),
            effective: Some(0x0000_01ff_feff_ffff),
            seccomp: Some(2),
            ignored_signals: Some(0x1000),
            context_switches: Some(7),
            peak_memory_kib: Some(1234),
        };
        assert_eq!(Status::parse(text), expected);
    }

    #[test]
    fn what_is_missing_is_none() {
        assert_eq!(Status::parse(b""), Status::default());
        assert_eq!(Status::parse(b"NSpid:\t4\tx\t2\n").innermost_tid(), None);
    }

    #[test]
    fn own_status_names_this_process() {
        let own = Status::read_own().unwrap();
        assert_eq!(own.tgid, Some(std::process::id()));
        assert!(own.threads >= Some(1));
        assert!(own.effective.is_some());
        assert_eq!(Status::read(std::process::id()).unwrap().tgid, own.tgid);
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let _ = Status::parse(&bytes);
        }

        #[test]
        fn no_value_panics(key in "(Name|State|Tgid|NSpid|CapEff)", value in ".*") {
            let _ = Status::parse(format!("{key}:{value}\n").as_bytes());
        }
    }
}
