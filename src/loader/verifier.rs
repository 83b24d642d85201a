//! What the verifier wrote, and the instruction that it speaks of.
//!
//! The log is text for people, and changes between kernels, so this reader knows as little of it as
//! it can: a line that shows an instruction, lines that are bookkeeping, and everything else, which
//! is a message. It never drops a line; it only decides which ones to show first.
//!
//! ```text
//! 0: R1=ctx() R10=fp0                    a state: what the verifier knows of the registers
//! 0: (79) r0 = *(u64 *)(r1 +4096)        an instruction: slot, opcode, text
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
//! Source: `kernel/bpf/verifier.c` and `kernel/bpf/log.c`; bpf(2) documents the log's arguments.

use std::fmt;
use std::fmt::Write as _;

use nix::errno::Errno;

use crate::insn::Program;

/// How many instructions before the one at fault are shown.
const LINES_BEFORE: usize = 4;

/// The verifier's refusal of a program.
#[derive(Debug)]
pub struct VerifierError {
    /// What bpf(2) returned at the first attempt, the one without a log.
    pub errno: Errno,
    /// The message: what the verifier found wrong.
    pub reason: String,
    /// The same in a sentence, where the kernel has one. Linux 7.3.
    pub explanation: Option<String>,
    /// What the kernel proposes to do about it. Linux 7.3.
    pub suggestion: Option<String>,
    /// The instruction at fault, if the log tells which one.
    pub fault: Option<Fault>,
    /// The last instructions that the verifier went through before it, with our comments.
    pub before: Vec<String>,
    /// The whole log, with our comments on its instructions.
    pub log: String,
}

/// An instruction that the verifier did not like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its slot, as the verifier counts.
    pub slot: usize,
    /// Its text and comment in our own disassembly.
    pub text: String,
}

impl VerifierError {
    /// Reads a log of that program's refusal.
    pub fn new(errno: Errno, program: &Program, log: &[u8]) -> Self {
        let log = String::from_utf8_lossy(log);
        let lines: Vec<LogLine<'_>> = log.lines().map(LogLine::classify).collect();
        let last = lines.iter().rposition(|line| matches!(line, LogLine::Instruction { .. }));
        let reason = lines[last.map_or(0, |at| at + 1)..].iter().find_map(|line| match line {
            LogLine::Message(text) => Some(*text),
            _ => None,
        });

        // Where the log says which instruction it means, it knows better than the path: an endless
        // loop is found before its first instruction is shown again. A check of the whole program
        // follows no path at all.
        let followed = last.and_then(|at| lines[at].slot());
        let named = section(&log, "At:").as_deref().and_then(slot_in_message);
        let looped = reason.filter(|text| text.contains(" at insn ")).and_then(slot_in_message);
        let slot = named.or(looped).or(followed).or_else(|| reason.and_then(slot_in_message));
        let shown = if slot == followed { last } else { last.map(|at| at + 1) };
        let before = lines[..shown.unwrap_or(0)]
            .iter()
            .filter_map(|line| commented(program, line.slot()?))
            .collect::<Vec<_>>();
        Self {
            errno,
            reason: reason.unwrap_or("its log gives no reason").to_owned(),
            explanation: section(&log, "Reason:"),
            suggestion: section(&log, "Suggestion:"),
            fault: slot.and_then(|slot| {
                let text = text_of(program, slot)?;
                Some(Fault { slot, text })
            }),
            before: before[before.len().saturating_sub(LINES_BEFORE)..].to_vec(),
            log: annotate(program, &log),
        }
    }
}

impl fmt::Display for VerifierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; the verifier says: {}", self.errno, self.reason)?;
        for line in &self.before {
            write!(f, "\n    {line}")?;
        }
        if let Some(Fault { slot, text }) = &self.fault {
            write!(f, "\n  > {slot:4}: {text}")?;
        }
        for text in [&self.explanation, &self.suggestion].into_iter().flatten() {
            write!(f, "\n  the verifier adds: {text}")?;
        }
        Ok(())
    }
}

/// The log with our comment behind every line that shows an instruction.
pub(super) fn annotate(program: &Program, log: &str) -> String {
    let mut annotated = String::with_capacity(log.len() * 2);
    for line in log.lines() {
        let slot = LogLine::classify(line).slot().or_else(|| slot_in_context(line));
        let comment =
            slot.and_then(|slot| program.index_of_slot(slot)).and_then(|at| program.comment(at));
        // Writing to a String cannot fail.
        let _ = match comment {
            Some(comment) => writeln!(annotated, "{line:<60} ; {comment}"),
            None => writeln!(annotated, "{line}"),
        };
    }
    annotated
}

/// The kinds of line that need telling apart.
#[derive(Debug, PartialEq, Eq)]
enum LogLine<'a> {
    /// `12: (85) call bpf_ktime_get_ns#5`
    Instruction { slot: usize },
    /// Registers' states, statistics, notes on the way of the search.
    Bookkeeping,
    /// Anything else that is not blank.
    Message(&'a str),
}

/// How lines begin that are neither instruction nor message.
const BOOKKEEPING: [&str; 18] = [
    "processed ",
    "verification time ",
    "stack depth ",
    "stack use/def ",
    "subprog",
    "frame 0: ",
    "max_states_per_insn ",
    "from ",
    "last_idx ",
    "first_idx ",
    "mark_precise: ",
    "regs=",
    "parent ",
    "propagating ",
    "func#",
    "Live regs before insn:",
    "; ",
    "(0) ",
];

impl<'a> LogLine<'a> {
    fn slot(&self) -> Option<usize> {
        match self {
            Self::Instruction { slot } => Some(*slot),
            Self::Bookkeeping | Self::Message(_) => None,
        }
    }

    fn classify(line: &'a str) -> Self {
        let trimmed = line.trim();
        if trimmed.is_empty() || BOOKKEEPING.iter().any(|start| trimmed.starts_with(start)) {
            return Self::Bookkeeping;
        }
        let Some((number, rest)) = trimmed.split_once(": ") else {
            return if is_state(trimmed) { Self::Bookkeeping } else { Self::Message(trimmed) };
        };
        match number.parse() {
            Ok(slot) if rest.starts_with('(') => Self::Instruction { slot },
            // `12: R0=1 R10=fp0`, `12: safe`, and the table of live registers `12: .1.... (b7)`
            Ok(_) => Self::Bookkeeping,
            Err(_) if is_state(trimmed) => Self::Bookkeeping,
            Err(_) => Self::Message(trimmed),
        }
    }
}

/// `R0=inv1 R10=fp0` or `R0_w=scalar() ...`: a register's number, then `=` within the first word.
/// A message such as `R2 !read_ok` has a blank there.
fn is_state(line: &str) -> bool {
    let first = line.split(' ').next().unwrap_or_default();
    first.starts_with('R') && first.contains('=')
}

/// The text of a section of Linux 7.3's report, its lines joined.
fn section(log: &str, title: &str) -> Option<String> {
    let lines = log.lines().skip_while(|line| *line != title).skip(1);
    let text = lines.take_while(|line| line.starts_with(' ')).map(str::trim).collect::<Vec<_>>();
    (!text.is_empty()).then(|| text.join(" "))
}

/// The slot of `  >>> 5 | (95) exit`, a line of that report.
fn slot_in_context(line: &str) -> Option<usize> {
    let (number, _) = line.strip_prefix("  ")?.split_once(" | (")?;
    number.trim_start_matches('>').trim().parse().ok()
}

/// The number in `unreachable insn 7`, `jump out of range from insn 3 to 9` and their like.
fn slot_in_message(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once("insn ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn text_of(program: &Program, slot: usize) -> Option<String> {
    let index = program.index_of_slot(slot)?;
    let insn = program.insns().get(index)?;
    Some(match program.comment(index) {
        Some(comment) => format!("{:<36} ; {comment}", insn.to_string()),
        None => insn.to_string(),
    })
}

fn commented(program: &Program, slot: usize) -> Option<String> {
    text_of(program, slot).map(|text| format!("{slot:4}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insn::{Assembler, Reg, Size};
    use proptest::prelude::*;

    fn program() -> Program {
        let mut asm = Assembler::new("wrong");
        asm.load_imm64(Reg::R2, 7).comment("seven");
        asm.load(Size::DW, Reg::R0, Reg::R1, 4096).comment("far beyond the context");
        asm.exit();
        asm.finish().unwrap()
    }

    #[test]
    fn the_instruction_at_fault_is_shown_with_its_comment() {
        let log = "func#0 @0\n0: R1=ctx() R10=fp0\n0: (18) r2 = 0x7    ; R2_w=7\n\
                   2: (79) r0 = *(u64 *)(r1 +4096)\ninvalid bpf_context access off=4096 size=8\n\
                   processed 2 insns (limit 1000000) max_states_per_insn 0\n";
        let error = VerifierError::new(Errno::EACCES, &program(), log.as_bytes());
        assert_eq!(error.reason, "invalid bpf_context access off=4096 size=8");
        assert_eq!(error.fault.as_ref().unwrap().slot, 2);
        assert_eq!(
            error.to_string(),
            "EACCES: Permission denied; the verifier says: \
             invalid bpf_context access off=4096 size=8\n       \
             0: r2 = 7 ll                            ; seven\n  >    \
             2: r0 = *(u64 *)(r1 + 4096)             ; far beyond the context"
        );
        assert!(error.log.contains("; seven\n"));
        assert_eq!(error.log.lines().count(), log.lines().count());
    }

    #[test]
    fn a_check_of_the_whole_program_names_the_slot_in_its_message() {
        let error = VerifierError::new(Errno::EINVAL, &program(), b"unreachable insn 3\n");
        assert_eq!(error.reason, "unreachable insn 3");
        assert_eq!(error.fault, Some(Fault { slot: 3, text: "exit".into() }));
    }

    #[test]
    fn the_report_of_linux_7_3_is_read() {
        let log = "last insn is not an exit or jmp\n\nVerification failed: Program Structure: x\n\n\
                   Reason:\n  Subprogram 0 reaches its last instruction 3 without an exit,\n  so.\n\n\
                   At:\n  insn 3\n       | ^-- error: x\n  Instruction context:\n\
                   \x20     0 | (18) r2 = 0x7\n      2 | (79) r0 = *(u64 *)(r1 +4096)\n  \
                   >>> 3 | (95) exit\n\nSuggestion:\n  End it.\n\nprocessed 0 insns\n";
        let error = VerifierError::new(Errno::EINVAL, &program(), log.as_bytes());
        assert_eq!(error.reason, "last insn is not an exit or jmp");
        let explanation = "Subprogram 0 reaches its last instruction 3 without an exit, so.";
        assert_eq!(error.explanation.as_deref(), Some(explanation));
        assert_eq!(error.suggestion.as_deref(), Some("End it."));
        assert_eq!(error.fault, Some(Fault { slot: 3, text: "exit".into() }));
        assert!(error.log.contains("; seven\n"), "{}", error.log);
    }

    #[test]
    fn an_endless_loop_is_shown_where_it_is_found() {
        let log = "0: (18) r2 = 0x7\n2: (79) r0 = *(u64 *)(r1 +4096)\n3: (05) goto pc-2\n\
                   infinite loop detected at insn 2\ncur state: R10=fp0\n";
        let error = VerifierError::new(Errno::EINVAL, &program(), log.as_bytes());
        assert_eq!(error.fault.unwrap().slot, 2);
        assert_eq!(error.before.len(), 3);
    }

    #[test]
    fn an_empty_log_is_not_a_panic() {
        let error = VerifierError::new(Errno::EINVAL, &program(), b"");
        assert_eq!(error.fault, None);
        assert_eq!(error.reason, "its log gives no reason");
    }

    #[test]
    fn states_and_messages_are_told_apart() {
        for state in ["R0=inv1 R10=fp0", "R1_w=ctx(off=0)", "12: safe", "from 3 to 9: R0=0"] {
            assert_eq!(LogLine::classify(state), LogLine::Bookkeeping, "{state}");
        }
        assert_eq!(LogLine::classify("frame 0: propagating r8"), LogLine::Bookkeeping);
        for message in [
            "frame pointer is read only",
            "R2 !read_ok",
            "R0 invalid mem access 'scalar'",
            "back-edge from insn 1",
        ] {
            assert_eq!(LogLine::classify(message), LogLine::Message(message));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_and_no_line_is_lost(log: Vec<u8>) {
            let text = String::from_utf8_lossy(&log).into_owned();
            let error = VerifierError::new(Errno::EINVAL, &program(), &log);
            prop_assert_eq!(error.log.lines().count(), text.lines().count());
        }
    }
}
