//! The questions about privileges, and about settings that can take them away.
//!
//! A setting is called a "no" only where something was refused and it can be the cause. Where a
//! measurement is possible, no setting stands in its way, whatever its value.

use std::fs;

use super::{Question, Verdict};
use crate::process::{Capability, Lockdown, Privileges, SECCOMP_FILTER};

const BE_ROOT: &str =
    "run as root, or give CAP_BPF and CAP_PERFMON (before Linux 5.8: CAP_SYS_ADMIN)";
const LEAVE_CONTAINER: &str = "run outside of the container";

/// What decides whether this process may measure.
pub(super) fn questions(privileges: &Privileges, can_measure: bool) -> Vec<Question> {
    let question = |about, verdict| Question { about, needed: false, verdict };
    vec![
        Question { about: "capabilities", needed: true, verdict: capabilities(privileges) },
        question("seccomp", seccomp(privileges, can_measure)),
        question("lockdown", lockdown(privileges, can_measure)),
        question("unprivileged_bpf_disabled", unprivileged_bpf(privileges)),
        question("perf_event_paranoid", paranoid(privileges, can_measure)),
    ]
}

/// Whether the capabilities of this process are those that count.
fn effective(privileges: &Privileges) -> bool {
    privileges.initial_user_namespace != Some(false) && privileges.can_load()
}

fn capabilities(privileges: &Privileges) -> Verdict {
    if privileges.effective.is_none() {
        return Verdict::could_not_tell("/proc/self/status cannot be read");
    }
    if privileges.initial_user_namespace == Some(false) {
        return Verdict::no(privileges.explain(), LEAVE_CONTAINER);
    }
    if !privileges.can_load() {
        return Verdict::no(privileges.explain(), BE_ROOT);
    }
    let relevant = [
        Capability::Bpf,
        Capability::Perfmon,
        Capability::SysAdmin,
        Capability::DacReadSearch,
        Capability::DacOverride,
    ];
    let held: Vec<String> = relevant
        .into_iter()
        .filter(|capability| privileges.has(*capability))
        .map(|capability| capability.to_string())
        .collect();
    Verdict::yes(held.join(", "))
}

fn seccomp(privileges: &Privileges, can_measure: bool) -> Verdict {
    match privileges.seccomp {
        None => Verdict::could_not_tell("/proc/self/status has no Seccomp line"),
        Some(SECCOMP_FILTER) if can_measure => {
            Verdict::yes("a filter is in force, and lets pass what a measurement needs")
        }
        Some(SECCOMP_FILTER) if effective(privileges) => Verdict::no(
            "a filter is in force, as in a container, and may be what refuses a measurement",
            LEAVE_CONTAINER,
        ),
        Some(SECCOMP_FILTER) => Verdict::could_not_tell(
            "a filter is in force; what it refuses shows only with the capabilities",
        ),
        Some(mode) => Verdict::yes(format!("mode {mode}: no filter is in force")),
    }
}

fn lockdown(privileges: &Privileges, can_measure: bool) -> Verdict {
    match privileges.lockdown {
        None => Verdict::could_not_tell(
            "/sys/kernel/security/lockdown cannot be read: this kernel has no lockdown, or this process \
             may not mount securityfs",
        ),
        Some(Lockdown::Confidentiality) if can_measure => {
            Verdict::yes("confidentiality, and a measurement is possible all the same")
        }
        Some(Lockdown::Confidentiality) => Verdict::no(
            "confidentiality: tracefs is closed, so that nothing can be measured",
            "boot without `lockdown=confidentiality`",
        ),
        Some(Lockdown::Integrity) => Verdict::yes("integrity, which leaves tracing alone"),
        Some(Lockdown::None) => Verdict::yes("none"),
    }
}

fn unprivileged_bpf(privileges: &Privileges) -> Verdict {
    match privileges.unprivileged_bpf_disabled {
        None => could_not_read("unprivileged_bpf_disabled"),
        Some(value) if effective(privileges) => Verdict::yes(format!(
            "{value}, which does not concern a process with these capabilities"
        )),
        Some(0) => Verdict::yes("0: anybody may load some programs, but none that trace"),
        Some(value) => Verdict::no(
            format!("{value}: without capabilities, bpf(2) is refused altogether"),
            BE_ROOT,
        ),
    }
}

fn paranoid(privileges: &Privileges, can_measure: bool) -> Verdict {
    let perfmon = effective(privileges);
    match privileges.perf_event_paranoid {
        None => could_not_read("perf_event_paranoid"),
        Some(level) if can_measure || level < 0 => {
            Verdict::yes(format!("{level}, which does not stand in the way"))
        }
        Some(level @ ..3) if perfmon => Verdict::yes(format!(
            "{level}, which does not concern a process with these capabilities"
        )),
        Some(level) if perfmon && privileges.has(Capability::SysAdmin) => {
            Verdict::yes(format!("{level}, which does not concern a process with CAP_SYS_ADMIN"))
        }
        Some(level) if perfmon => Verdict::no(
            format!("{level}: some distributions' kernels then want CAP_SYS_ADMIN"),
            "as root: `sysctl kernel.perf_event_paranoid=2`, or run as root",
        ),
        Some(level) => Verdict::no(
            format!("{level}: without capabilities, tracepoints cannot be opened"),
            BE_ROOT,
        ),
    }
}

fn could_not_read(sysctl: &str) -> Verdict {
    let path = format!("/proc/sys/kernel/{sysctl}");
    match fs::read_to_string(&path) {
        Err(error) => Verdict::could_not_tell(format!("{path}: {error}")),
        Ok(text) => Verdict::could_not_tell(format!("{path} is no number: {}", text.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all() -> Privileges {
        Privileges {
            effective: Some(u64::MAX),
            initial_user_namespace: Some(true),
            seccomp: Some(0),
            unprivileged_bpf_disabled: Some(2),
            perf_event_paranoid: Some(2),
            lockdown: Some(Lockdown::None),
        }
    }

    /// Which questions are answered so: `y`, `n` or `?` for each.
    fn answers(privileges: &Privileges, can_measure: bool) -> String {
        let letter = |question: Question| match question.verdict {
            Verdict::Yes { .. } => 'y',
            Verdict::No { .. } => 'n',
            Verdict::CouldNotTell { .. } => '?',
        };
        questions(privileges, can_measure).into_iter().map(letter).collect()
    }

    #[test]
    fn each_setting_is_blamed_where_it_can_be_the_cause() {
        let none = Privileges { effective: Some(0), ..all() };
        let few = Privileges { effective: Some(1 << 38 | 1 << 39), ..all() };
        let locked = Some(Lockdown::Confidentiality);
        for (privileges, refused, measured) in [
            (all(), "yyyyy", "yyyyy"),
            (Privileges { seccomp: Some(2), ..all() }, "ynyyy", "yyyyy"),
            (Privileges { lockdown: locked, ..all() }, "yynyy", "yyyyy"),
            (Privileges { perf_event_paranoid: Some(4), ..all() }, "yyyyy", "yyyyy"),
            (Privileges { perf_event_paranoid: Some(4), ..few }, "yyyyn", "yyyyy"),
            (Privileges { initial_user_namespace: Some(false), ..all() }, "nyynn", "nyyny"),
            (none, "nyynn", "nyyny"),
            (Privileges { seccomp: Some(2), ..none }, "n?ynn", "nyyny"),
            (Privileges { unprivileged_bpf_disabled: Some(0), ..none }, "nyyyn", "nyyyy"),
            (Privileges { perf_event_paranoid: Some(-1), ..none }, "nyyny", "nyyny"),
        ] {
            assert_eq!(answers(&privileges, false), refused, "{privileges:?}");
            assert_eq!(answers(&privileges, true), measured, "{privileges:?}");
        }
    }

    #[test]
    fn what_cannot_be_seen_is_not_guessed() {
        let blind = Privileges::default();
        assert_eq!(&answers(&blind, false)[..3], "???");
    }

    proptest! {
        #[test]
        fn with_all_capabilities_and_no_refusal_nothing_is_blamed(
            seccomp: Option<u32>, unprivileged: Option<i64>, paranoid: Option<i64>,
        ) {
            let privileges = Privileges {
                seccomp,
                unprivileged_bpf_disabled: unprivileged,
                perf_event_paranoid: paranoid,
                ..all()
            };
            prop_assert!(!answers(&privileges, true).contains('n'));
        }
    }
}
