//! The questions about the kernel: what it has, and what its lack costs.

use nix::errno::Errno;

use super::{Question, Verdict, trial};
use crate::error::{Error, Kind};
use crate::loader::sys::perf_event_open_dummy;
use crate::loader::{Answer, Feature, counts_missed_runs, probe};
use crate::maps::cpus;
use crate::process::{PidNamespace, Privileges, Target};
use crate::tracefs::Tracefs;

/// What a feature is for.
struct Use {
    feature: Feature,
    about: &'static str,
    needed: bool,
    /// What its lack costs.
    cost: &'static str,
    /// From where on kernels have it.
    next: &'static str,
}

const NOTHING_MEASURED: &str = "nothing can be measured";
const RAW_ONLY: &str = "calls can be traced on the raw tracepoints only, at a cost for all others";

const USES: [Use; 10] = [
    Use {
        feature: Feature::HashMap,
        about: "hash maps",
        needed: true,
        cost: NOTHING_MEASURED,
        next: "use a kernel with CONFIG_BPF_SYSCALL",
    },
    Use {
        feature: Feature::ArrayMap,
        about: "array maps",
        needed: true,
        cost: NOTHING_MEASURED,
        next: "use a kernel with CONFIG_BPF_SYSCALL",
    },
    Use {
        feature: Feature::MmapableArray,
        about: "mmapable arrays",
        needed: true,
        cost: NOTHING_MEASURED,
        next: "use Linux 5.5 or newer",
    },
    Use {
        feature: Feature::TracepointProgram,
        about: "tracepoint programs",
        needed: false,
        cost: RAW_ONLY,
        next: "use a kernel with CONFIG_BPF_EVENTS",
    },
    Use {
        feature: Feature::RawTracepointProgram,
        about: "raw tracepoint programs",
        needed: false,
        cost: "calls can be traced through tracefs and perf only",
        next: "use Linux 4.17 or newer with CONFIG_BPF_EVENTS",
    },
    Use {
        feature: Feature::RawSyscallTracepoints,
        about: "raw tracepoints",
        needed: false,
        cost: "calls can be traced through tracefs and perf only",
        next: "use Linux 4.17 or newer with CONFIG_BPF_EVENTS",
    },
    Use {
        feature: Feature::KernelReads,
        about: "kernel reads",
        needed: false,
        cost: "on raw tracepoints, descriptors and calls of 32-bit programs are not seen",
        next: "use Linux 5.5 or newer, and boot without `lockdown=confidentiality`",
    },
    Use {
        feature: Feature::SocketFilter,
        about: "socket filter programs",
        needed: false,
        cost: "only the tests of rlat use them, so nothing is lost",
        next: "use a kernel with CONFIG_NET",
    },
    Use {
        feature: Feature::NamespaceHelper,
        about: "namespaces helper",
        needed: false,
        cost: "processes in another PID namespace, as in containers, cannot be measured",
        next: "use Linux 5.7 or newer",
    },
    Use {
        feature: Feature::FetchingAtomics,
        about: "atomics",
        needed: false,
        cost: "starts are kept in a hash, which costs each measured call more",
        next: "use Linux 5.12 or newer",
    },
];

/// What this kernel has, in the order in which a measurement needs it. A tracefs that the user named
/// is to be used, or nothing.
pub(super) fn questions(
    own: Result<&Target, &Error>,
    tracefs: Result<&Tracefs, &Error>,
    tracefs_is_given: bool,
    privileges: &Privileges,
) -> Vec<Question> {
    let needed = |about, verdict| Question { about, needed: true, verdict };
    // Without these, the raw tracepoints will do.
    let raw = probe(Feature::RawSyscallTracepoints) == Answer::Yes;
    let cost = if raw { RAW_ONLY } else { NOTHING_MEASURED };
    // What is not to be had is not missed then, but what is there is used.
    let on_own = !raw || tracefs.is_ok_and(|tracefs| tracefs.has_category("syscalls"));
    let depends = |about, needed, verdict| Question { about, needed, verdict };
    let nested = own.is_ok_and(|own| matches!(own.namespace, PidNamespace::Other { .. }));
    let mut questions = vec![
        needed("proc", proc(own)),
        depends("tracefs", !raw || tracefs_is_given, tracefs_verdict(tracefs, cost)),
        depends("syscall tracepoints", on_own, tracepoints(tracefs.ok(), cost)),
        depends("perf events", on_own, perf_events(privileges, cost)),
    ];
    questions.extend(USES.iter().map(|used| Question {
        about: used.about,
        // Where rlat lives in such a namespace, so does everything that it can measure.
        needed: match used.feature {
            Feature::NamespaceHelper => nested,
            Feature::TracepointProgram => on_own,
            Feature::RawTracepointProgram | Feature::RawSyscallTracepoints => !on_own,
            _ => used.needed,
        },
        verdict: feature(used, privileges),
    }));
    questions.push(Question {
        about: "missed runs",
        needed: false,
        verdict: missed_runs(counts_missed_runs()),
    });
    questions
}

fn proc(own: Result<&Target, &Error>) -> Verdict {
    match own {
        Ok(_) => Verdict::yes("mounted for the PID namespace of this process"),
        Err(error) => refused(error, NOTHING_MEASURED),
    }
}

fn tracefs_verdict(tracefs: Result<&Tracefs, &Error>, cost: &str) -> Verdict {
    match tracefs {
        Ok(tracefs) => Verdict::yes(tracefs.to_string()),
        Err(error) => refused(error, cost),
    }
}

fn tracepoints(tracefs: Option<&Tracefs>, cost: &str) -> Verdict {
    let Some(tracefs) = tracefs else {
        return Verdict::could_not_tell("tracefs lists them");
    };
    match trial::tracepoints(tracefs) {
        Ok(names) => Verdict::yes(names.join(", ")),
        Err(error) if error.kind == Kind::Permission => {
            Verdict::could_not_tell(format!("{}: {}", error.object, error.cause))
        }
        Err(error) => refused(&error, cost),
    }
}

fn perf_events(privileges: &Privileges, cost: &str) -> Verdict {
    let opened = cpus::first_online().map(perf_event_open_dummy);
    match opened {
        Ok(Ok(_)) => Verdict::yes("perf_event_open(2) for all processes"),
        Ok(Err(errno @ (Errno::EPERM | Errno::EACCES))) => Verdict::no(
            format!("{errno}: {cost}"),
            "see capabilities, seccomp and perf_event_paranoid",
        ),
        Ok(Err(Errno::ENOSYS)) if privileges.seccomp == Some(0) => {
            Verdict::no(cost, "use a kernel with CONFIG_PERF_EVENTS")
        }
        Ok(Err(errno)) => untold(errno),
        Err(error) => refused(&error, cost),
    }
}

fn feature(used: &Use, privileges: &Privileges) -> Verdict {
    match probe(used.feature) {
        Answer::Yes => Verdict::yes(""),
        Answer::No => Verdict::no(used.cost, used.next),
        // Without a filter that may hide it, the kernel has no bpf(2).
        Answer::CouldNotTell(Errno::ENOSYS) if privileges.seccomp == Some(0) => {
            Verdict::no(used.cost, "use a kernel with CONFIG_BPF_SYSCALL")
        }
        Answer::CouldNotTell(errno) => untold(errno),
    }
}

fn missed_runs(counted: bool) -> Verdict {
    if counted {
        return Verdict::yes("the kernel counts when it skips a program");
    }
    Verdict::no(
        "when the kernel skips a program, it does not say so: a call may be missing unnoticed",
        "use Linux 6.7 or newer",
    )
}

/// An error of rlat as the answer to a question.
fn refused(error: &Error, cost: &str) -> Verdict {
    Verdict::no(format!("{}: {}: {cost}", error.object, error.cause), error.next.as_str())
}

fn untold(errno: Errno) -> Verdict {
    Verdict::could_not_tell(match errno {
        Errno::EPERM | Errno::EACCES => format!("{errno}; see capabilities and seccomp"),
        Errno::ENOSYS => format!("{errno}; see seccomp"),
        _ => errno.to_string(),
    })
}
