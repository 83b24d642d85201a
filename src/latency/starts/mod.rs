//! The store of starts: what each thread is doing, kept where its next event finds it.
//!
//! ```text
//! rlat_slots     array of 1, mapped      2^n slots of 64 bytes, found by the low bits of the tid
//! rlat_starts    hash, tid -> slot       the threads whose place among them is somebody else's
//! ```
//!
//! A thread that is seen first takes the slot that its id points to, if nobody has it, and else one in
//! the hash. It keeps what it has until it ends. So the way of nearly every call is: mask the id, add,
//! compare the owner. No helper is called, and no line of memory is shared with another thread, which is
//! what the 64 bytes are for.
//!
//! Taking a slot needs a compare-and-exchange, since two threads may want the same one. Before Linux 5.12
//! there is none, and all threads are in the hash.

mod emit;
mod room;

pub(crate) use emit::{emit_find_slot, emit_new_slot, emit_release};
pub use room::Room;

use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::Slot;
use crate::error::Result;
use crate::maps::{HashMap, MmapableArray, Plain as _};

/// The array whose only value is all slots that are found by address.
pub const SLOTS_MAP: &str = "rlat_slots";
/// The hash from a thread (u32, as the initial PID namespace counts) to its slot.
pub const STARTS_MAP: &str = "rlat_starts";

/// Words from one slot to the next in [`SLOTS_MAP`]: a line of memory, as most CPUs have it.
pub(crate) const SLOT_WORDS: usize = 8;

/// The maps of the store.
#[derive(Debug)]
pub(crate) struct Starts {
    slots: Option<MmapableArray>,
    others: HashMap<u32, Slot>,
}

impl Starts {
    /// Creates the maps. `steps` is told their sizes.
    pub(crate) fn create(room: Room, steps: &mut dyn FnMut(String)) -> Result<Self> {
        let slots = match room.direct_slots {
            0 => None,
            count => {
                steps(format!("map {SLOTS_MAP}: array, {count} slots found by thread id"));
                Some(MmapableArray::create(SLOTS_MAP, count as usize * SLOT_WORDS, 1)?)
            }
        };
        let threads = room.threads;
        let others = if room.on_demand {
            steps(format!("map {STARTS_MAP}: hash, grows to {threads} threads"));
            HashMap::create_growing(STARTS_MAP, threads)?
        } else {
            steps(format!("map {STARTS_MAP}: hash, room for {threads} threads"));
            HashMap::create(STARTS_MAP, threads)?
        };
        Ok(Self { slots, others })
    }

    /// Names and descriptors, for linking programs.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (String, i32)> {
        let slots = self.slots.as_ref().map(|map| (SLOTS_MAP.to_owned(), map.number()));
        slots.into_iter().chain([(STARTS_MAP.to_owned(), self.others.number())])
    }

    /// Every thread that has a slot, by its id in the initial PID namespace. For the time after the
    /// window: it calls bpf(2) on a map.
    ///
    /// # Errors
    /// As bpf(2).
    pub(crate) fn entries(&self) -> nix::Result<Vec<(u32, Slot)>> {
        let mut entries = self.others.entries()?;
        let words = self.slots.iter().flat_map(MmapableArray::values).flatten();
        let words: Vec<&AtomicU64> = words.collect();
        entries.extend(words.chunks_exact(SLOT_WORDS).filter_map(owned));
        Ok(entries)
    }
}

/// A slot that a thread has taken, with that thread.
fn owned(words: &[&AtomicU64]) -> Option<(u32, Slot)> {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
    let slot = Slot::read(bytes.get(..Slot::BYTES)?);
    (slot.owner != 0).then_some((slot.owner as u32, slot))
}
