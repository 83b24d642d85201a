//! What decides whether this process may load and attach BPF programs.
//!
//! A refusal arrives as `EPERM` or `EACCES` and says no more. So the places that decide are looked
//! at, and only what was seen there is told: an absent file means "could not tell".
//!
//! | what | where | since |
//! |---|---|---|
//! | capabilities | `CapEff` in `/proc/self/status` | `CAP_BPF` and `CAP_PERFMON`: Linux 5.8 |
//! | user namespace | inode of `/proc/self/ns/user` | Linux 3.8 |
//! | seccomp | `Seccomp` in `/proc/self/status` | Linux 3.8 |
//! | sysctls | `/proc/sys/kernel/...` | Linux 4.4 |
//! | lockdown | `/sys/kernel/security/lockdown` | Linux 5.4 |
//!
//! The limit on locked memory is not among them: since Linux 5.11 BPF memory does not count to it,
//! and before, it was the most often suspected and least often guilty cause.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::geteuid;

use super::Status;
use crate::loader::sys::mount_detached;

/// Inode of the initial user namespace: `PROC_USER_INIT_INO` in `include/linux/proc_ns.h`.
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// The mode of seccomp in which a filter decides on each system call; see seccomp(2).
pub const SECCOMP_FILTER: u32 = 2;

/// A capability that matters here; the value is its bit, as in `include/uapi/linux/capability.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Do as if any user's file could be read, searched and written.
    DacOverride = 1,
    /// Read any file and search any folder.
    DacReadSearch = 2,
    /// Do with any user's file what only its owner may.
    Fowner = 3,
    /// Send signals to any user's processes.
    Kill = 5,
    /// Trace any process, and see what only its tracer may.
    SysPtrace = 19,
    /// Mount filesystems, and much else; it includes `CAP_BPF` and `CAP_PERFMON`.
    SysAdmin = 21,
    /// Exceed resource limits.
    SysResource = 24,
    /// Observe the whole system, and load programs that read kernel memory (Linux 5.8).
    Perfmon = 38,
    /// Create maps and load programs (Linux 5.8).
    Bpf = 39,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DacOverride => "CAP_DAC_OVERRIDE",
            Self::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::Fowner => "CAP_FOWNER",
            Self::Kill => "CAP_KILL",
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::SysResource => "CAP_SYS_RESOURCE",
            Self::Perfmon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
        })
    }
}

/// How far the kernel is locked down, even against root; see `kernel_lockdown(7)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockdown {
    /// Not at all.
    None,
    /// Against changes of the running kernel.
    Integrity,
    /// Also against reading its memory: tracefs cannot be opened.
    Confidentiality,
}

impl Lockdown {
    /// Parses `/sys/kernel/security/lockdown`, which lists all modes, the one in force in brackets.
    ///
    /// ```
    /// use rlat::process::Lockdown;
    ///
    /// let text = "none [integrity] confidentiality\n";
    /// assert_eq!(Lockdown::parse(text), Some(Lockdown::Integrity));
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (_, after) = text.split_once('[')?;
        match after.split_once(']')?.0 {
            "none" => Some(Self::None),
            "integrity" => Some(Self::Integrity),
            "confidentiality" => Some(Self::Confidentiality),
            _ => None,
        }
    }

    /// Reads the mode in force; `None` where the kernel has no lockdown, and where securityfs is not
    /// mounted and may not be mounted for this process alone.
    pub fn read() -> Option<Self> {
        let text = std::fs::read_to_string("/sys/kernel/security/lockdown");
        Self::parse(&text.or_else(|_| lockdown_in_private_securityfs()).ok()?)
    }
}

/// Reads the file where nobody else sees it. Not by a path in `/proc`, which may not be mounted either.
fn lockdown_in_private_securityfs() -> io::Result<String> {
    let securityfs = mount_detached(c"securityfs")?;
    let file = openat(&securityfs, "lockdown", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    io::read_to_string(File::from(file))
}

/// What was looked at. `None` anywhere means that it could not be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// The effective capabilities, bit N for capability N.
    pub effective: Option<u64>,
    /// Whether this process lives in the initial user namespace, the one whose capabilities count.
    pub initial_user_namespace: Option<bool>,
    /// Seccomp: 0 off, 1 strict, 2 a filter.
    pub seccomp: Option<u32>,
    /// `kernel.unprivileged_bpf_disabled`: 0 lets anybody load some programs (none that trace);
    /// 1 and 2 do not.
    pub unprivileged_bpf_disabled: Option<i64>,
    /// `kernel.perf_event_paranoid`, -1 to 2; some distributions add 3 and 4.
    pub perf_event_paranoid: Option<i64>,
    /// Lockdown.
    pub lockdown: Option<Lockdown>,
}

impl Privileges {
    /// Looks at this process and this system.
    pub fn read() -> Self {
        let status = Status::read_own().unwrap_or_default();
        let namespace = std::fs::metadata("/proc/self/ns/user").ok();
        Self {
            effective: status.effective,
            initial_user_namespace: namespace.map(|file| file.ino() == INITIAL_USER_NAMESPACE),
            seccomp: status.seccomp,
            unprivileged_bpf_disabled: unprivileged_bpf_disabled(),
            perf_event_paranoid: sysctl("perf_event_paranoid"),
            lockdown: Lockdown::read(),
        }
    }

    /// Whether the capability is effective; false also where it could not be told.
    pub fn has(&self, capability: Capability) -> bool {
        self.effective.is_some_and(|bits| bits >> capability as u32 & 1 == 1)
    }

    /// Whether the capabilities suffice to load and attach a program that traces: `CAP_SYS_ADMIN`,
    /// or both `CAP_BPF` and `CAP_PERFMON`. False also where it could not be told.
    pub fn can_load(&self) -> bool {
        self.has(Capability::SysAdmin) || self.has(Capability::Bpf) && self.has(Capability::Perfmon)
    }

    /// Why bpf(2) or `perf_event_open(2)` may have been refused with `EPERM` or `EACCES`: one
    /// sentence without a full stop, the decisive first.
    ///
    /// ```
    /// use rlat::process::Privileges;
    ///
    /// let privileges = Privileges { effective: Some(1 << 39), ..Privileges::default() };
    /// assert_eq!(
    ///     privileges.explain(),
    ///     "this process lacks CAP_PERFMON (it needs CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN)",
    /// );
    /// ```
    pub fn explain(&self) -> String {
        // Capabilities inside another user namespace are void here, so that comes before them.
        if self.initial_user_namespace == Some(false) {
            return "this process lives in a user namespace of its own, and what it asks for needs \
                    capabilities in the initial one"
                .to_owned();
        }
        if self.effective.is_none() {
            return "/proc/self/status cannot be read, so that it is not known which capabilities \
                    this process has"
                .to_owned();
        }
        if !self.can_load() {
            return self.missing();
        }
        let mut reasons = Vec::new();
        if self.seccomp == Some(SECCOMP_FILTER) {
            reasons.push(
                "a seccomp filter is in force (mode 2), as in a container: it may refuse bpf(2) or \
                 perf_event_open(2)"
                    .to_owned(),
            );
        }
        if self.lockdown == Some(Lockdown::Confidentiality) {
            reasons.push(
                "lockdown is at confidentiality: it refuses tracefs and the reading of kernel memory"
                    .to_owned(),
            );
        }
        if let Some(level @ 3..) = self.perf_event_paranoid
            && !self.has(Capability::SysAdmin)
        {
            reasons.push(format!(
                "kernel.perf_event_paranoid is {level}: some distributions' kernels then want \
                 CAP_SYS_ADMIN for perf_event_open(2)"
            ));
        }
        if reasons.is_empty() {
            return "every privilege that was looked at is there: a security module may have refused"
                .to_owned();
        }
        reasons.join("; ")
    }

    /// Names the missing capabilities.
    fn missing(&self) -> String {
        let missing: Vec<String> = [Capability::Bpf, Capability::Perfmon]
            .into_iter()
            .filter(|&capability| !self.has(capability))
            .map(|capability| capability.to_string())
            .collect();
        format!(
            "this process lacks {} (it needs CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN)",
            missing.join(" and ")
        )
    }
}

/// Whether this process is that of a user other than root, and has capabilities all the same: most likely its
/// file has them, so that it may do what its user may not. False where it could not be told.
pub fn exceeds_its_user() -> bool {
    let effective = Status::read_own().ok().and_then(|status| status.effective);
    !geteuid().is_root() && effective.is_some_and(|capabilities| capabilities != 0)
}

/// `kernel.unprivileged_bpf_disabled`, see [`Privileges`]; `None` where it cannot be read.
pub fn unprivileged_bpf_disabled() -> Option<i64> {
    sysctl("unprivileged_bpf_disabled")
}

/// A number from `/proc/sys/kernel`.
fn sysctl(name: &str) -> Option<i64> {
    let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: u64 = u64::MAX;

    fn with(effective: u64) -> Privileges {
        Privileges { effective: Some(effective), ..Privileges::default() }
    }

    #[test]
    fn only_the_word_in_brackets_is_in_force() {
        let parse = Lockdown::parse;
        assert_eq!(parse("none integrity [confidentiality]\n"), Some(Lockdown::Confidentiality));
        assert_eq!(parse("[none] integrity confidentiality\n"), Some(Lockdown::None));
        assert_eq!(parse("none integrity confidentiality"), None);
        assert_eq!(parse("[other]"), None);
        assert_eq!(parse("[none"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn capabilities_are_bits() {
        let privileges = with(1 << 21);
        assert!(privileges.has(Capability::SysAdmin));
        assert!(!privileges.has(Capability::Bpf));
        assert!(privileges.can_load());
        assert!(!with(1 << 39).can_load());
        assert!(!with(1 << 38).can_load());
        assert!(with(1 << 39 | 1 << 38).can_load());
        assert!(!Privileges::default().has(Capability::Bpf));
    }

    #[test]
    fn missing_capabilities_are_named() {
        let sentence = with(0).explain();
        assert!(sentence.starts_with("this process lacks CAP_BPF and CAP_PERFMON ("), "{sentence}");
    }

    #[test]
    fn a_user_namespace_decides_before_capabilities() {
        let privileges = Privileges { initial_user_namespace: Some(false), ..with(ALL) };
        assert!(privileges.explain().contains("user namespace"));
    }

    #[test]
    fn with_all_capabilities_what_else_was_seen_is_told() {
        let mut privileges = Privileges { initial_user_namespace: Some(true), ..with(ALL) };
        assert!(privileges.explain().ends_with("a security module may have refused"));
        privileges.perf_event_paranoid = Some(4);
        assert!(privileges.explain().ends_with("a security module may have refused"));
        privileges.seccomp = Some(2);
        assert!(privileges.explain().starts_with("a seccomp filter"));
        privileges.lockdown = Some(Lockdown::Confidentiality);
        assert!(privileges.explain().contains("; lockdown is at confidentiality"));
    }

    #[test]
    fn a_paranoid_kernel_is_named_without_sys_admin() {
        let bpf_and_perfmon = with(1 << 39 | 1 << 38);
        let privileges = Privileges { perf_event_paranoid: Some(4), ..bpf_and_perfmon };
        assert!(privileges.explain().starts_with("kernel.perf_event_paranoid is 4"));
    }

    #[test]
    fn what_is_not_known_is_said_to_be_unknown() {
        assert!(Privileges::default().explain().contains("not known"));
    }

    #[test]
    fn this_process_can_be_looked_at() {
        let privileges = Privileges::read();
        assert!(privileges.effective.is_some());
        assert!(privileges.initial_user_namespace.is_some());
    }

    proptest! {
        #[test]
        fn no_lockdown_text_panics(text: String) {
            let _ = Lockdown::parse(&text);
        }

        #[test]
        fn memory_limits_are_never_blamed(effective: Option<u64>, seccomp: Option<u32>) {
            let privileges = Privileges { effective, seccomp, ..Privileges::default() };
            prop_assert!(!privileges.explain().to_lowercase().contains("memlock"));
        }
    }
}
