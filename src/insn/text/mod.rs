//! Programs as text: what disassembly prints, read back.
//!
//! A line holds one thing, or nothing. [`write()`] prints the canonical form, in which every line of code
//! is indented and comments stand in a column; [`parse()`] takes any blanks between words.
//!
//! ```text
//! .license "Dual MIT/GPL"
//! .map starts, type hash, key 4, value 8, entries 1024, flags 0
//!
//! .section tracepoint/syscalls/sys_enter_read
//! .func remember
//!     call bpf_get_current_pid_tgid        ; r0 = tgid << 32 | tid
//!     w0 >>= 0
//!     if r0 == 0 goto out                  ; the idle thread
//!     *(u32 *)(r10 - 4) = r0
//!     r1 = map[starts]
//! out:
//!     r0 = 0
//!     exit
//! ```
//!
//! | a line | means |
//! |---|---|
//! | `.license "GPL"` | the license of the file |
//! | `.map NAME, type T, key N, value N, entries N, flags N, pinning N` | a map; T is a name as in [`map_type_name`](super::map_type_name) or a number; sizes in bytes; what is left out is 0, but the type |
//! | `.section NAME` | instructions from here on are in this section |
//! | `.func NAME` | the next instruction begins a function; a section that has none gets one named after it |
//! | `.extern NAME` | what only a loader knows, called as `call NAME` or loaded as `r1 = NAME ll` |
//! | `.insn OPCODE, DST, SRC, OFF, IMM` | a slot by its fields, for what is no instruction here |
//! | `NAME:` | a label; it may stand before an instruction on the same line |
//! | an instruction | as disassembly shows it |
//!
//! Names are words of letters, digits and `_ . $`, or anything in double quotes, with `\"`, `\\` and
//! `\x1b` or `\u{2028}` inside. A section's name is everything up to a blank, comma or `;`.
//!
//! A comment goes from `;`, `#` or `//` to the end of the line. On the line of an instruction it is kept,
//! as the comment of that instruction, and comes back as a source line from an object file; elsewhere it
//! is dropped. llvm-objdump and the verifier write source lines behind `;`, too. For llvm-mc, which does
//! not keep comments, `;` separates two instructions, and only `#` and `//` are comments.
//!
//! Numbers are decimal or, after `0x`, hexadecimal. An immediate has 32 signed bits; where only the low
//! 32 bits count (`w1 = 0xffffffff`), the unsigned ones are taken, too. A jump goes to `+3` or `-3` slots
//! from the next instruction, `pc+3` as the verifier writes it, or to a label. A call goes to a helper by
//! number or name, to a function of the file by name, or to `pc+3`. What other disassemblers put around
//! an instruction is skipped: its number and opcode before it (`12: (b7) r0 = 0`), and a target behind a
//! jump (`goto +1 <out>`).
//!
//! `r1 = map[NAME]` and `r1 = map[NAME][0]+8` load a map and the address of a byte of its first value, and
//! `r1 = subprog[NAME]` loads that of a function; `r1 = NAME ll`, as LLVM writes it, is either of them.
//! Registers of a load or store may be called `w1`, as newer LLVM does, if it is of 1, 2 or 4 bytes.

mod branch;
mod cursor;
mod directive;
mod error;
mod lexer;
mod memory;
mod operation;
mod parse;
mod resolve;
#[cfg(test)]
pub(crate) mod tests;
mod write;

pub use error::TextError;
pub use parse::{Parsed, parse};
pub use write::{instructions, write};
