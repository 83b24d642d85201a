//! What `/proc` knows of the process to measure, and of this one.
//!
//! - [`Target::open`] finds the process, and makes sure that it stays the same one;
//! - [`PidNamespace`] says in whose numbers a BPF program has to look for it;
//! - [`tids`], [`thread_name`], [`innermost_tid`] and [`activity`] look at its threads;
//! - [`is_32_bit`] says whether its system calls have the numbers of another architecture;
//! - [`Launch`] starts a command, to be measured from the beginning, as a [`User`];
//! - [`descriptor_target`] says what one of its descriptors is, [`command_line`] how it was called;
//! - [`monotonic_offset_ns`] says how far its clock is from the kernel's;
//! - [`Privileges`] says what this process may do, to explain a refusal.
//!
//! Terms:
//! - **tgid** (thread group id): what users call the process id; one for all of its threads.
//! - **tid**: the id of one thread, which the kernel's own sources call "pid". The first thread of
//!   a process, its *leader*, has the tgid as its tid.
//! - **PID namespace**: processes in a container have ids of their own, and other ids outside it.
//! - **pidfd**: a descriptor that stands for a process (Linux 5.3): unlike an id, it is never reused.
//! - **zombie**: a thread that has ended, of which only the exit status is left.
//!
//! Everything read here may be gone or changed the moment after, and names hold whatever bytes the
//! process chose. Nothing here escapes them for a terminal: that is for whoever prints them.

mod command_line;
mod descriptor;
mod elf;
mod io_counters;
mod launch;
mod namespace;
mod privileges;
mod start_stopped;
mod stat;
mod status;
mod syscall;
mod target;
mod threads;
mod time_namespace;
mod user;

pub use command_line::command_line;
pub use descriptor::{descriptor_target, io_uring_count, is_open};
pub use elf::is_32_bit;
pub use io_counters::IoCounters;
pub use launch::Launch;
pub use namespace::PidNamespace;
pub use privileges::{
    Capability, Lockdown, Privileges, SECCOMP_FILTER, exceeds_its_user, unprivileged_bpf_disabled,
};
pub use start_stopped::StartStopped;
pub use stat::Stat;
pub use status::Status;
pub use syscall::{Activity, activity};
pub use target::Target;
pub use threads::{has_children, innermost_tid, live_tid, thread_name, tids};
pub use time_namespace::monotonic_offset_ns;
pub use user::User;
