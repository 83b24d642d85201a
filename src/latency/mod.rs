//! The measurement: how long each call takes, and what became of every one.
//!
//! Follow one call:
//!
//! 1. it passes the tracepoint `sys_enter_read`, where one of the [programs](Plan::programs) writes the
//!    time into the thread's [`Slot`](layout::Slot), in the store of [`starts`];
//! 2. it passes `sys_exit_read`, where another takes the difference and adds it to a bucket of this
//!    CPU's [`Region`](layout::Region);
//! 3. after the window has closed, [`Measurement::close`] adds the CPUs up to an [`Outcome`].
//!
//! A start is found again by thread, never by process: several threads of one process wait at the
//! same time. And what a thread left behind must go when it ends, since its id is given to others.
//!
//! **Terms.** The *window* is the time in which calls are counted; a flag in memory opens and closes
//! it, so that the time it takes to attach programs is no part of it. A *slot* holds what is known of
//! a thread's call. A *region* holds one CPU's counters and buckets. The *ledger* says what became of
//! every call that entered.

mod attach;
mod bucket;
mod collect;
mod descriptors;
pub(crate) mod extremes;
pub(crate) mod family;
pub(crate) mod in_flight;
pub mod layout;
mod ledger;
pub(crate) mod loading;
mod meant;
pub(crate) mod measurement;
mod outcome;
mod preemption;
pub(crate) mod programs;
mod regions;
pub(crate) mod scope;
mod snapshot;
pub mod starts;
pub(crate) mod subject;
mod syscall;
mod wait;

pub use attach::{AttachChoice, Chosen, Needs, choose};
pub use bucket::{emit_bucket_index, emit_bucket_index_at, emit_linear_index};
pub use extremes::Extremes;
pub use family::{Unfollowed, fork_program, free_program};
pub use ledger::{Elapsed, InFlight, Ledger, Lost, MissedRuns};
pub(crate) use measurement::require_namespace_helper;
pub use measurement::{Measurement, Request};
pub use outcome::{Call, ClosedBy, Outcome};
pub use programs::{KernelReads, Place, Plan, PlannedCall, Returns, TypedEntry, Way};
pub use scope::{Member, Scope};
pub use snapshot::{Counted, Snapshot};
pub use starts::Room;
pub use subject::Subject;
pub use syscall::Syscall;
pub use wait::wait;
