//! From instructions to an attached program.
//!
//! 1. [`load()`] hands a [`Program`](crate::insn::Program) to the verifier;
//! 2. if that refuses it, [`VerifierError`](crate::verifier::VerifierError) finds the instruction at fault in the log;
//! 3. [`attach()`] lets a loaded program run at a tracepoint;
//! 4. [`probe()`] asks what the kernel can do;
//! 5. [`verify()`] asks for a verdict on anybody's program, of any type;
//! 6. [`sys`] is where all of them meet the kernel.

mod attach;
mod features;
mod kernel_btf;
mod kind;
mod load;
pub(crate) mod refusal;
pub mod sys;
mod verify;

pub use attach::{Attachment, Tracepoint, attach, attach_raw};
pub use features::{
    Answer, Feature, allocates_on_demand, counts_missed_runs, follows_pointers,
    has_fetching_atomics, kernel_version, probe,
};
pub use kernel_btf::TracepointType;
pub use kind::{KINDS, ProgramKind, Recognised};
pub use load::{LoadedProgram, load, verifier_log};
pub use verify::{Candidate, Verdict, create_maps, describe_callbacks, verify};
