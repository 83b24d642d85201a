//! The calls that had not returned when the window closed.
//!
//! As in [`latency`](crate::latency) there are two kinds: those that the programs saw entering, and
//! those that began before the window opened. The latter are found by looking at the threads when it
//! has opened and before it closes: a thread that is blocked in a call then, and of which the programs
//! have seen nothing, has been in it all the time. It is looked for twice because some waits wake up
//! for a moment and go on.

use std::collections::BTreeMap;
use std::time::Duration;

use super::layout::call_name;
use crate::latency::Elapsed;
use crate::latency::in_flight::Blocked;
use crate::latency::layout::{Slot, SlotState};
use crate::process::{thread_name, tids};

/// One call that had not returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The process.
    pub pid: u32,
    /// The thread that is in the call.
    pub tid: u32,
    /// The name of the thread, as /proc has it; it may hold any character.
    pub thread: String,
    /// The call's name.
    pub call: String,
    /// For how long it has been going on.
    pub elapsed: Elapsed,
}

/// The calls that the programs saw entering and not exiting.
pub(super) fn entered(slots: &BTreeMap<u32, (u32, Slot)>, closed_ns: u64) -> Vec<InFlight> {
    slots
        .iter()
        .filter_map(|(tid, (pid, slot))| match slot.state() {
            SlotState::InCall { since_ns } => {
                let elapsed = Duration::from_nanos(closed_ns.saturating_sub(since_ns));
                Some(describe(*pid, *tid, slot.call, Elapsed::Exactly(elapsed)))
            }
            SlotState::Nothing | SlotState::Held { .. } => None,
        })
        .collect()
}

/// The calls that were in flight when the window opened, and are so still: those of threads that live
/// and that the programs saw nothing of.
pub(super) fn since_before(
    slots: &BTreeMap<u32, (u32, Slot)>,
    blocked: &[Blocked],
    window: Duration,
    lives: impl Fn(&Blocked) -> bool,
) -> Vec<InFlight> {
    // The same call, if it is there twice.
    let calls: BTreeMap<u32, &Blocked> = blocked.iter().map(|call| (call.tid, call)).collect();
    calls
        .into_iter()
        .filter(|(tid, call)| !slots.contains_key(tid) && lives(call))
        .map(|(tid, call)| describe(call.pid, tid, call.number as u64, Elapsed::AtLeast(window)))
        .collect()
}

/// Whether the slot was left behind by a thread that called execve(2) and was not the first of its
/// process. It has that one's id now, under which it returned, and no thread has the old one.
pub(super) fn is_left_by_exec(pid: u32, tid: u32, slot: Slot) -> bool {
    matches!(slot.state(), SlotState::InCall { .. })
        && matches!(&*call_name(slot.call), "execve" | "execveat")
        && !tids(pid).contains(&tid)
}

fn describe(pid: u32, tid: u32, number: u64, elapsed: Elapsed) -> InFlight {
    InFlight {
        pid,
        tid,
        thread: thread_name(pid, tid).unwrap_or_else(|| "ended since".to_owned()),
        call: call_name(number),
        elapsed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::layout::call_number;

    #[test]
    fn only_a_thread_without_a_slot_can_have_been_in_its_call_all_the_time() {
        let read = call_number("read").unwrap();
        let window = Duration::from_secs(1);
        let blocked = |tid| Blocked { pid: 1, tid, number: read as i64, argument: 3 };
        let slot = |start_ns| (1, Slot { start_ns, call: read, ..Slot::default() });
        let slots = BTreeMap::from([(1, slot(0)), (2, slot(50))]);
        let calls =
            since_before(&slots, &[1, 2, 3, 4, 3].map(blocked), window, |blocked| blocked.tid != 4);
        assert_eq!(calls.iter().map(|call| call.tid).collect::<Vec<_>>(), [3]);
        assert_eq!((&*calls[0].call, calls[0].elapsed), ("read", Elapsed::AtLeast(window)));

        let calls = entered(&slots, 150);
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].elapsed, Elapsed::Exactly(Duration::from_nanos(100)));
    }
}
