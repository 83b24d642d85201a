//! The calls that had not returned when the window closed.
//!
//! Two kinds: those that the programs saw entering, whose start is still in the store; and those that
//! began before the window opened, which no program ever saw. The second kind is found by looking at
//! what each thread is doing, once after opening and once after closing: a thread that was in the
//! call both times, and of which the programs saw neither an entry nor an exit (it has no slot), was
//! in it all the time. A read() that hangs for the whole window is the one that the user came for.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use super::layout::{Slot, SlotState};
use super::{Elapsed, InFlight};
use crate::process::{
    Activity, PidNamespace, Target, activity, descriptor_target, innermost_tid, thread_name, tids,
};

/// A thread that is blocked in a measured call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocked {
    tid: u32,
    descriptor: u64,
}

/// The threads of the process that are blocked in read() now, on the descriptor if one is given.
/// `None` when the kernel does not let us look.
pub(super) fn blocked_threads(target: &Target, descriptor: Option<u32>) -> Option<Vec<Blocked>> {
    let mut blocked = Vec::new();
    for tid in tids(target.pid) {
        match activity(target.pid, tid) {
            Ok(Activity::InSyscall { number: libc::SYS_read, args, .. }) => {
                if descriptor.is_none_or(|wanted| wanted == args[0] as u32) {
                    blocked.push(Blocked { tid, descriptor: args[0] });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return None,
            // In another call, running, or ended since it was listed.
            Ok(_) | Err(_) => {}
        }
    }
    Some(blocked)
}

/// The slots by the ids that we see. In another PID namespace the programs see other ones.
pub(super) fn by_visible_tid(target: &Target, slots: Vec<(u32, Slot)>) -> BTreeMap<u32, Slot> {
    match target.namespace {
        PidNamespace::Initial => slots.into_iter().collect(),
        PidNamespace::Other { .. } => {
            let visible: BTreeMap<u32, u32> = tids(target.pid)
                .into_iter()
                .filter_map(|tid| Some((innermost_tid(target.pid, tid)?, tid)))
                .collect();
            slots
                .into_iter()
                .map(|(tid, slot)| (visible.get(&tid).copied().unwrap_or(tid), slot))
                .collect()
        }
    }
}

/// The calls that the programs saw entering and not exiting.
pub(super) fn entered(
    target: &Target,
    slots: &BTreeMap<u32, Slot>,
    closed_ns: u64,
) -> Vec<InFlight> {
    slots
        .iter()
        .filter_map(|(tid, slot)| match slot.state() {
            SlotState::InCall { since_ns } => {
                let elapsed = Duration::from_nanos(closed_ns.saturating_sub(since_ns));
                Some(describe(target, *tid, slot.descriptor, Elapsed::Exactly(elapsed)))
            }
            SlotState::Nothing | SlotState::Held { .. } => None,
        })
        .collect()
}

/// The calls that were in flight when the window opened, and are so still.
pub(super) fn since_before(
    target: &Target,
    slots: &BTreeMap<u32, Slot>,
    at_opening: &[Blocked],
    now: &[Blocked],
    window: Duration,
) -> Vec<InFlight> {
    at_opening
        .iter()
        .filter(|blocked| now.contains(blocked) && !slots.contains_key(&blocked.tid))
        .map(|blocked| describe(target, blocked.tid, blocked.descriptor, Elapsed::AtLeast(window)))
        .collect()
}

fn describe(target: &Target, tid: u32, descriptor: u64, elapsed: Elapsed) -> InFlight {
    InFlight {
        tid,
        thread: thread_name(target.pid, tid).unwrap_or_else(|| "ended since".to_owned()),
        descriptor,
        target: descriptor_target(target.pid, descriptor as u32),
        elapsed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(start_ns: u64) -> Slot {
        Slot { start_ns, descriptor: 3, held_ns: 0 }
    }

    #[test]
    fn only_a_thread_without_a_slot_can_have_been_in_its_call_all_the_time() {
        let own = Target::open(std::process::id()).unwrap();
        let window = Duration::from_secs(1);
        let blocked = |tid| Blocked { tid, descriptor: 3 };
        let slots = BTreeMap::from([(1, slot(0)), (2, slot(50))]);
        let at_opening = [blocked(1), blocked(2), blocked(3), blocked(4)];
        let now = [blocked(1), blocked(2), blocked(3), blocked(5)];
        let calls = since_before(&own, &slots, &at_opening, &now, window);
        assert_eq!(calls.iter().map(|call| call.tid).collect::<Vec<_>>(), [3]);
        assert_eq!(calls[0].elapsed, Elapsed::AtLeast(window));

        let calls = entered(&own, &slots, 150);
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].tid, 2);
        assert_eq!(calls[0].elapsed, Elapsed::Exactly(Duration::from_nanos(100)));
    }
}
