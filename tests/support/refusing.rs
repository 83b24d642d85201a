//! Running rlat where it is refused what it asks for.

use std::fs::File;
use std::process::Command;

use nix::errno::Errno;
use nix::unistd::geteuid;

use super::measured::workload;
use super::rlat::RLAT;

/// A system call, or those of its uses that have one argument in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    number: i64,
    /// The index of the argument, and its low 32 bits.
    argument: Option<(usize, u32)>,
}

impl Call {
    pub(crate) const BPF: Self = Self::any(libc::SYS_bpf);
    pub(crate) const PERF_EVENT_OPEN: Self = Self::any(libc::SYS_perf_event_open);
    pub(crate) const PIDFD_OPEN: Self = Self::any(libc::SYS_pidfd_open);
    pub(crate) const FSOPEN: Self = Self::any(libc::SYS_fsopen);

    // Of `enum bpf_cmd` in include/uapi/linux/bpf.h.
    pub(crate) const MAP_CREATE: Self = Self::with(libc::SYS_bpf, 0, 0);
    pub(crate) const RAW_TRACEPOINT_OPEN: Self = Self::with(libc::SYS_bpf, 0, 17);
    /// `PERF_EVENT_IOC_SET_BPF` of include/uapi/linux/perf_event.h.
    pub(crate) const PERF_EVENT_SET_BPF: Self = Self::with(libc::SYS_ioctl, 1, 0x4004_2408);

    const fn any(number: i64) -> Self {
        Self { number, argument: None }
    }

    const fn with(number: i64, index: usize, value: u32) -> Self {
        Self { number, argument: Some((index, value)) }
    }

    /// As the workload takes it.
    fn as_argument(self) -> String {
        let number = self.number;
        self.argument
            .map_or(number.to_string(), |(index, value)| format!("{number}:{index}={value}"))
    }
}

/// A command that becomes rlat, where a seccomp filter answers each of these calls with an error number.
pub(crate) fn refused(calls: &[(Call, Errno)]) -> Command {
    let mut command = behind_filter(calls);
    command.arg(RLAT);
    command
}

/// The same with what it becomes to be added.
pub(crate) fn behind_filter(calls: &[(Call, Errno)]) -> Command {
    let mut command = workload();
    for (index, (call, errno)) in calls.iter().enumerate() {
        if index > 0 {
            command.arg(super::workload_path());
        }
        command.args(["refuse", &call.as_argument(), &(*errno as i32).to_string()]);
    }
    command
}

/// A command that becomes rlat by way of setpriv(1) with these options.
pub(crate) fn with_privileges(options: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    // By way of a descriptor, since another user may not be able to come to where the file is.
    command.args(options).arg("/proc/self/fd/0").stdin(File::open(RLAT).unwrap());
    command
}

/// Two ways to run rlat without a privilege. A test that has none to begin with just runs it.
pub(crate) fn unprivileged() -> Vec<Command> {
    if !geteuid().is_root() {
        return vec![Command::new(RLAT)];
    }
    vec![
        with_privileges(&["--reuid", "65534", "--clear-groups"]),
        with_privileges(&["--bounding-set=-all", "--inh-caps=-all"]),
    ]
}
