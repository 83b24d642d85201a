//! From instructions to an attached program.
//!
//! 1. [`load()`] hands a [`Program`](crate::insn::Program) to the verifier;
//! 2. if that refuses it, [`VerifierError`] finds the instruction at fault in the log;
//! 3. [`attach()`] lets a loaded program run at a tracepoint;
//! 4. [`probe()`] asks what the kernel can do;
//! 5. [`sys`] is where all of them meet the kernel.

mod attach;
mod features;
mod kernel_btf;
mod load;
pub(crate) mod refusal;
pub mod sys;
mod verifier;

pub use attach::{Attachment, Tracepoint, attach, attach_raw};
pub use features::{
    Answer, Feature, allocates_on_demand, counts_missed_runs, follows_pointers,
    has_fetching_atomics, kernel_version, probe,
};
pub use kernel_btf::{raw_tracepoint_type, typedef_number};
pub use load::{LoadedProgram, load, verifier_log};
pub use verifier::{Fault, VerifierError};
