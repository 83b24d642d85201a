//! tracefs: where the kernel lists its tracepoints, and what it says of each.
//!
//! Two facts about a tracepoint are needed, and tracefs has both: the number that
//! `perf_event_open(2)` wants, and the layout of the record that a BPF program is given.
//!
//! - [`Tracefs::open`] finds a mounted tracefs, or mounts one that nobody else sees;
//! - [`Tracefs::tracepoint_id`] reads `events/CATEGORY/NAME/id`;
//! - [`Tracefs::format`] reads and parses `events/CATEGORY/NAME/format` into a [`Format`];
//! - [`Tracefs::tracepoints`] lists what there is, [`TracepointPattern`] picks from it, and
//!   [`near_names`] helps when it picks nothing.
//!
//! Terms:
//! - **tracefs**: a filesystem of the kernel (Linux 4.1), usually at `/sys/kernel/tracing`, and by
//!   an automatic mount also at `/sys/kernel/debug/tracing`. Only root may read it by default.
//! - **tracepoint**: a marked place in the kernel, named by a category and a name:
//!   `syscalls:sys_enter_read` is passed whenever a `read()` begins.
//! - **lockdown**: a mode of the kernel in which even root is refused some things. At
//!   `confidentiality`, no file of tracefs can be opened.

mod find;
mod format;
mod glob;
mod list;
mod mountinfo;
mod near;
mod refusal;
#[cfg(test)]
mod scratch;
mod tracepoint;

pub use find::{Found, Tracefs};
pub use format::{Field, Format, FormatError, Problem, Shape};
pub use glob::Glob;
pub use list::{TracepointName, TracepointPattern};
pub use mountinfo::{Mount, mount_points, mounts};
pub use near::near_names;
