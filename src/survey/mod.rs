//! The survey: every system call that a process makes, by one pair of programs.
//!
//! To put programs on the tracepoints of each system call would take some 700 of them. But all calls
//! pass two more, `sys_enter` and `sys_exit`, and as *raw* tracepoints these hand over the call's
//! number and what it returned without the kernel copying anything together first. So:
//!
//! 1. [`enter_program`] writes the number and the time into the thread's [`Slot`](crate::latency::layout::Slot);
//! 2. [`exit_program`] takes the difference and adds it to the call's [`Row`](layout::Row);
//! 3. after the window has closed, [`Survey::close`] adds the rows up to a [`Findings`].
//!
//! `sys_exit` does not hand over the number, and does not need to: a thread is in one call at a time,
//! so a start that is there is the start of this call. So no memory of the kernel is read. Window,
//! scope and ledger are those of [`latency`](crate::latency).
//!
//! **Terms.** The *number* of a call is what the program put into a register to ask for it. A 32-bit
//! program on a 64-bit kernel uses other numbers for the same calls; it is refused here, because the
//! tracepoint does not say which kind a number is of.

mod findings;
mod in_flight;
pub mod layout;
mod programs;
mod run;

pub use findings::{Findings, SurveyedCall};
pub use in_flight::InFlight;
pub use layout::call_name;
pub use programs::{Plan, Regions, enter_program, exit_program, thread_end_program};
pub use run::Survey;
