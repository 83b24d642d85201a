//! Which capabilities are kept, and giving up the others.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::unistd::geteuid;

use super::{NAMED, Tasks, held, permitted, sys};
use crate::loader::sys::clear_ambient_capabilities;
use crate::process::{Capability, unprivileged_bpf_disabled};

/// A set of capabilities: bit N for capability N. Its text names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Of these the first that is in the set.
    fn first_of(self, capabilities: &[Capability]) -> u64 {
        let bits = capabilities.iter().map(|capability| 1 << *capability as u32);
        bits.into_iter().find(|bit| self.0 & bit != 0).unwrap_or(0)
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("none");
        }
        let mut rest = self.0;
        let mut between = "";
        for capability in NAMED {
            let bit = 1 << capability as u32;
            if self.0 & bit != 0 {
                write!(f, "{between}{capability}")?;
                between = ", ";
                rest &= !bit;
            }
        }
        match rest {
            0 => Ok(()),
            // Those of the measured processes.
            _ => write!(f, "{between}{rest:#x}"),
        }
    }
}

/// Keeps what the tasks need of the capabilities in effect, and says what that is.
///
/// # Errors
/// As capset(2), which has none that a process without help can get to.
pub(super) fn give_up(
    tasks: Tasks<'_>,
    bpf_answers: impl Fn() -> bool,
) -> nix::Result<Capabilities> {
    let held = held();
    let of_targets = tasks.targets.iter().fold(0, |all, pid| all | permitted(*pid).0);
    let kept = needed(tasks, held, Capabilities(of_targets)).0;
    let for_bpf = held.first_of(&[Capability::Bpf, Capability::SysAdmin]);

    // As long as there is CAP_SETPCAP; without it, the rest has to do.
    let mut capability = 0;
    while sys::drop_from_bounding_set(capability).is_ok() {
        capability += 1;
    }
    let _ = clear_ambient_capabilities();
    // An answer says something only where the kernel might have refused it.
    let may_refuse = unprivileged_bpf_disabled().is_some_and(|setting| setting != 0);
    if for_bpf & kept == 0 && for_bpf != 0 && may_refuse && !tasks.sizes {
        sys::set_capabilities(kept, kept | for_bpf)?;
        if bpf_answers() {
            sys::set_capabilities(kept, kept)?;
            return Ok(Capabilities(kept));
        }
    }
    let kept = kept | for_bpf;
    sys::set_capabilities(kept, kept)?;
    Ok(Capabilities(kept))
}

/// What the tasks need of the capabilities held, but for bpf(2).
fn needed(tasks: Tasks<'_>, held: Capabilities, of_targets: Capabilities) -> Capabilities {
    let bit = |capability: Capability| held.0 & 1 << capability as u32;
    let mut needed = held.first_of(&[Capability::DacReadSearch, Capability::DacOverride]);
    needed |= match bit(Capability::SysPtrace) {
        0 => held.0 & of_targets.0,
        ptrace => ptrace,
    };
    if tasks.folder.is_some_and(|folder| !is_ours(folder)) {
        needed |= bit(Capability::DacOverride) | bit(Capability::Fowner);
    }
    if tasks.command.is_some() {
        needed |= bit(Capability::Kill);
    }
    Capabilities(needed)
}

/// Whether this user owns the folder, and may make and replace files in it.
fn is_ours(folder: &Path) -> bool {
    let write_and_search = 0o300;
    std::fs::metadata(folder).is_ok_and(|folder| {
        folder.uid() == geteuid().as_raw() && folder.mode() & write_and_search == write_and_search
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Capabilities = Capabilities((1 << 41) - 1);

    fn set(capabilities: &[Capability]) -> Capabilities {
        Capabilities(capabilities.iter().fold(0, |all, one| all | 1 << *one as u32))
    }

    #[test]
    fn of_all_those_are_kept_that_show_calls_in_flight() {
        let kept = needed(Tasks::default(), ALL, ALL);
        assert_eq!(kept, set(&[Capability::SysPtrace, Capability::DacReadSearch]));
        assert_eq!(kept.to_string(), "CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE");
    }

    #[test]
    fn without_ptrace_those_of_the_targets_are_kept() {
        let container = set(&[Capability::DacOverride, Capability::Kill, Capability::Bpf]);
        let target = set(&[Capability::DacOverride, Capability::Kill, Capability::SysAdmin]);
        let kept = needed(Tasks::default(), container, target);
        assert_eq!(kept, set(&[Capability::DacOverride, Capability::Kill]));
    }

    #[test]
    fn tasks_keep_what_they_need() {
        let usual = needed(Tasks::default(), ALL, ALL).0;
        let command = Tasks { command: Some(1), ..Tasks::default() };
        assert_eq!(needed(command, ALL, ALL).0, usual | 1 << 5);
        let nobodys = Tasks { folder: Some(Path::new("/no/such/folder")), ..Tasks::default() };
        assert_eq!(needed(nobodys, ALL, ALL).0, usual | 1 << 1 | 1 << 3);
        assert_eq!(needed(nobodys, Capabilities(0), ALL), Capabilities(0));
    }

    #[test]
    fn sets_are_named() {
        assert_eq!(Capabilities(0).to_string(), "none");
        assert_eq!(Capabilities(1 << 39 | 1 << 12).to_string(), "CAP_BPF, 0x1000");
    }
}
