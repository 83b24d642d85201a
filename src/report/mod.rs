//! What a measurement found, and how it is told.
//!
//! Each file here turns an [`Outcome`](crate::latency::Outcome), which is plain data, into one output
//! format. Nothing in this room asks the system anything, so every format is tested on any machine.
//!
//! - [`text`]: the result for people, with the histogram as bpftrace draws it ([`rows`]).
//! - [`preflight`]: what `rlat check` found, for people and as JSON.
//! - [`mod@escape`]: names from /proc, made safe for a terminal.

pub mod escape;
pub mod numbers;
pub mod preflight;
pub mod rows;
pub mod text;
