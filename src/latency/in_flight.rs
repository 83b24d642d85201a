//! The calls that had not returned when the window closed.
//!
//! Two kinds: those that the programs saw entering, whose start is still in the store; and those that
//! began before the window opened, which no program ever saw. The second kind is found by looking at
//! what each thread is doing just after the window opens and just before it closes: a thread that is
//! blocked in the call in either look, and of which the programs have seen neither an entry nor an exit
//! (it has no slot), was in it all the time. A read() that hangs for the whole window is the one that the user came for.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use super::layout::{Slot, SlotState};
use super::{Elapsed, InFlight, Subject, Syscall};
use crate::process::{
    Activity, PidNamespace, Stat, Status, activity, descriptor_target, innermost_tid, thread_name,
    tids,
};

/// A thread that is blocked in a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) number: i64,
    pub(crate) argument: u64,
}

/// The threads of the subject that are blocked in one of these calls now, on one of the descriptors if
/// any are given. `processes` are the subject's, as we see them. `None` as for [`blocked_in_any_call`].
pub(super) fn blocked_threads(
    subject: &Subject,
    processes: &[u32],
    syscalls: &[Syscall],
    descriptors: &[u32],
) -> Option<Vec<Blocked>> {
    let mut blocked = blocked_in_any_call(subject, processes)?;
    blocked.retain(|Blocked { number, argument, .. }| {
        let measured = syscalls.iter().any(|syscall| syscall.number == Some(*number));
        measured && (descriptors.is_empty() || descriptors.contains(&(*argument as u32)))
    });
    Some(blocked)
}

/// The threads of the subject that are blocked in a system call now. `processes` are the subject's, as
/// we see them.
///
/// `None` when the kernel does not let us look, and when the subject is no list of processes: to
/// look at every thread of the host would take too long.
pub(crate) fn blocked_in_any_call(subject: &Subject, processes: &[u32]) -> Option<Vec<Blocked>> {
    if subject.targets().is_empty() {
        return None;
    }
    let mut blocked = Vec::new();
    for (pid, tid) in threads(subject, processes) {
        match activity(pid, tid) {
            Ok(Activity::InSyscall { number, args: [argument, ..], .. }) if !is_ending(tid) => {
                blocked.push(Blocked { pid, tid, number, argument });
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return None,
            // Running, outside of any call, or ended since it was listed.
            Ok(_) | Err(_) => {}
        }
    }
    Some(blocked)
}

/// The threads that were blocked in one look or the other, and have not ended; `None` where neither could
/// be made.
pub(crate) fn in_either(
    opening: Option<Vec<Blocked>>,
    closing: Option<Vec<Blocked>>,
) -> Option<Vec<Blocked>> {
    let (mut all, closing) = (opening?, closing?);
    all.retain(|blocked| !is_ending(blocked.tid));
    for blocked in closing {
        if !all.iter().any(|known| known.tid == blocked.tid) {
            all.push(blocked);
        }
    }
    Some(all)
}

/// Whether the thread is on its way out. Such a thread still shows the call that a deadly signal
/// ended, until the kernel takes its stack away; asked after that call, so as not to believe in it.
pub(crate) fn is_ending(tid: u32) -> bool {
    Stat::read(tid).map_or(true, |stat| stat.has_ended() || stat.is_exiting())
}

/// Process and thread ids, as we see them, of the subject's threads.
fn threads(subject: &Subject, processes: &[u32]) -> Vec<(u32, u32)> {
    let all = |pid| tids(pid).into_iter().map(move |tid| (pid, tid));
    match subject {
        Subject::Threads(targets) => {
            targets.iter().map(|target| (target.pid, target.requested)).collect()
        }
        _ => processes.iter().copied().flat_map(all).collect(),
    }
}

/// The slots by the threads' ids as we see them, which the programs may have seen otherwise. In the
/// initial PID namespace the key is what we see; in any other, and for a thread of the same, it is
/// what the thread sees itself.
pub(super) fn by_visible_tid(
    subject: &Subject,
    slots: Vec<(u32, Slot)>,
) -> BTreeMap<u32, (u32, Slot)> {
    by_visible_ids(subject, slots, |slot| (slot.pid, slot.tid))
}

/// The same for whatever slots, from which `ids` takes process and thread as the thread sees them.
pub(crate) fn by_visible_ids<S>(
    subject: &Subject,
    slots: Vec<(u32, S)>,
    ids: impl Fn(&S) -> (u32, u32),
) -> BTreeMap<u32, (u32, S)> {
    if PidNamespace::own() == PidNamespace::Initial {
        let process = |tid, slot: &S| {
            Status::read(tid).ok().and_then(|status| status.tgid).unwrap_or(ids(slot).0)
        };
        return slots.into_iter().map(|(key, slot)| (key, (process(key, &slot), slot))).collect();
    }
    let processes: Vec<u32> = subject.targets().iter().map(|target| target.pid).collect();
    let visible: BTreeMap<u32, (u32, u32)> = threads(subject, &processes)
        .into_iter()
        .filter_map(|(pid, tid)| Some((innermost_tid(pid, tid)?, (pid, tid))))
        .collect();
    slots
        .into_iter()
        .map(|(_, slot)| {
            let (pid, tid) = ids(&slot);
            let (pid, tid) = visible.get(&tid).copied().unwrap_or((pid, tid));
            (tid, (pid, slot))
        })
        .collect()
}

/// The calls that the programs saw entering and not exiting, of the slots that `of_this` chooses. Where
/// `slots_have_argument` is false, the argument is that of the thread among the blocked ones.
pub(super) fn entered(
    syscall: &Syscall,
    slots: &BTreeMap<u32, (u32, Slot)>,
    closed_ns: u64,
    slots_have_argument: bool,
    blocked: Option<&[Blocked]>,
    of_this: impl Fn(&Slot) -> bool,
) -> Vec<InFlight> {
    let seen = |tid: u32| {
        let is_it = |b: &&Blocked| b.tid == tid && syscall.number == Some(b.number);
        Some(blocked?.iter().find(is_it)?.argument)
    };
    slots
        .iter()
        .filter(|(_, (_, slot))| of_this(slot))
        .filter_map(|(tid, (pid, slot))| match slot.state() {
            SlotState::InCall { since_ns } => {
                let elapsed = Duration::from_nanos(closed_ns.saturating_sub(since_ns));
                let elapsed = Elapsed::Exactly(elapsed);
                let argument = if slots_have_argument { Some(slot.argument) } else { seen(*tid) };
                Some(describe(syscall, *pid, *tid, argument, elapsed))
            }
            SlotState::Nothing | SlotState::Held { .. } => None,
        })
        .collect()
}

/// The calls that entered before the window opened and were in flight when it closed: those of
/// blocked threads without a slot.
pub(super) fn since_before(
    syscall: &Syscall,
    slots: &BTreeMap<u32, (u32, Slot)>,
    blocked: &[Blocked],
    window: Duration,
) -> Vec<InFlight> {
    blocked
        .iter()
        .filter(|blocked| syscall.number == Some(blocked.number))
        .filter(|blocked| !slots.contains_key(&blocked.tid))
        .map(|blocked| {
            let elapsed = Elapsed::AtLeast(window);
            describe(syscall, blocked.pid, blocked.tid, Some(blocked.argument), elapsed)
        })
        .collect()
}

fn describe(
    syscall: &Syscall,
    pid: u32,
    tid: u32,
    argument: Option<u64>,
    elapsed: Elapsed,
) -> InFlight {
    // Of a descriptor the kernel reads the low 32 bits.
    let descriptor = argument.filter(|_| syscall.takes_descriptor).map(|argument| argument as u32);
    InFlight {
        pid,
        tid,
        thread: thread_name(pid, tid).unwrap_or_else(|| "ended since".to_owned()),
        descriptor: descriptor.map(|descriptor| descriptor as i32),
        target: descriptor.and_then(|descriptor| descriptor_target(pid, descriptor)),
        elapsed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::syscall::tests::read;

    fn slot(start_ns: u64) -> (u32, Slot) {
        (1, Slot { start_ns, argument: 3, ..Slot::default() })
    }

    #[test]
    fn only_a_thread_without_a_slot_can_have_been_in_its_call_all_the_time() {
        let window = Duration::from_secs(1);
        let blocked = |tid, number| Blocked { pid: 1, tid, number, argument: 3 };
        let slots = BTreeMap::from([(1, slot(0)), (2, slot(50))]);
        let blocked = [blocked(1, 0), blocked(2, 0), blocked(3, 0), blocked(4, 1)];
        let calls = since_before(&read(), &slots, &blocked, window);
        assert_eq!(calls.iter().map(|call| call.tid).collect::<Vec<_>>(), [3]);
        assert_eq!(calls[0].elapsed, Elapsed::AtLeast(window));

        let calls = entered(&read(), &slots, 150, true, None, |_| true);
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].tid, 2);
        assert_eq!(calls[0].elapsed, Elapsed::Exactly(Duration::from_nanos(100)));
    }
}
