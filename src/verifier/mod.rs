//! The verifier's log: what the kernel wrote about a program, read without dropping a line.
//!
//! Chapter 7 of the book, `docs/07-verifier.md`, tells how the verifier thinks, with a program for each
//! thing that it refuses.
//!
//! The log is text for people, and changes between kernels, so this reader knows as little of it as it
//! can. Linux 5.10 to 7.3 write such lines:
//!
//! ```text
//! 0: R1=ctx() R10=fp0                    a state: what the verifier knows of the registers
//! 0: (79) r0 = *(u64 *)(r1 +4096)        an instruction: slot, opcode, text
//! 1: (b7) r2 = 7       ; R2=7            the same with what it changed, from Linux 5.17 on
//! invalid bpf_context access off=4096    a message
//! processed 1 insns (limit 1000000) ...  statistics
//! ```
//!
//! From Linux 7.3 on a report follows many of the messages (not all), in sections that stand alone
//! on their line; what they say is indented, and wrapped at 100 columns:
//!
//! ```text
//! R0 !read_ok                            the message, as ever
//!
//! Verification failed: Register Type Safety: Unreadable register
//!
//! Reason:
//!   R0 has never been initialized on this path, so the verifier cannot use it as an input.
//!
//! At:
//!   insn 5
//!        | ^-- error: R0 is not readable
//!   Instruction context:
//!       4 | (b7) r2 = 0
//!   >>> 5 | (95) exit
//!
//! Causal path:                           not for checks of the whole program
//!   insn 1
//!        | ^-- branch: took the true branch of this conditional, goto followed
//!   ...
//!
//! Suggestion:
//!   Initialize R0 on every path before this instruction.
//! ```
//!
//! 1. [`LogLine`] is one line and its kind; a line of no known kind is a message, so that none is lost;
//! 2. [`State`] is what the verifier knows of registers and stack at a place of the path;
//! 3. [`Statistics`] are the numbers at the end;
//! 4. [`Finding`] says a message in words, and what usually mends it;
//! 5. [`VerifierError`] puts them together with the [`Listing`] of the program.
//!
//! Source: `kernel/bpf/verifier.c` and `kernel/bpf/log.c`; bpf(2) documents the log's arguments.

mod finding;
mod line;
mod listing;
mod pattern;
mod reads;
mod refusal;
mod report;
mod rules;
mod state;
mod statistics;

pub use finding::Finding;
pub use line::{LineKind, LogLine};
pub use listing::{Listed, Listing};
pub use refusal::{Fault, Known, Passed, VerifierError};
pub use state::{Place, State};
pub use statistics::Statistics;

use std::fmt::Write as _;

/// The whole log with what the listing says behind every line that shows an instruction, and at last the
/// statistics in one line.
pub fn annotate(listing: &Listing, log: &str) -> String {
    let mut annotated = String::with_capacity(log.len() * 2);
    for line in log.lines() {
        let read = LogLine::read(line);
        if read.kind == LineKind::Statistics {
            continue;
        }
        let slot = read.slot().or_else(|| report::slot_in_context(line));
        let remark = slot.and_then(|slot| listing.get(slot)).and_then(Listed::remark);
        // Writing to a String cannot fail.
        let _ = match remark {
            Some(remark) => writeln!(annotated, "{line:<60} ; {remark}"),
            None => writeln!(annotated, "{line}"),
        };
    }
    if let Some(statistics) = Statistics::read(log) {
        let _ = writeln!(annotated, "statistics: {statistics}");
    }
    annotated
}
