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
        let messages: Vec<&str> = lines[last.map_or(0, |at| at + 1)..]
            .iter()
            .filter_map(|line| match line {
                LogLine::Message(text) => Some(*text),
                _ => None,
            })
            .collect();
        let reason = reason_among(&messages);

        // A check of the whole program, before any path is followed, names the slot in its message.
        let slot = match last.map(|at| &lines[at]) {
            Some(LogLine::Instruction { slot, .. }) => Some(*slot),
            _ => reason.as_deref().and_then(slot_in_message),
        };
        let before = lines[..last.unwrap_or(0)]
            .iter()
            .filter_map(|line| match line {
                LogLine::Instruction { slot, .. } => commented(program, *slot),
                _ => None,
            })
            .collect::<Vec<_>>();
        Self {
            errno,
            reason: reason.unwrap_or_else(|| "its log gives no reason".to_owned()),
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
        Ok(())
    }
}

/// The log with our comment behind every line that shows an instruction.
pub(super) fn annotate(program: &Program, log: &str) -> String {
    let mut annotated = String::with_capacity(log.len() * 2);
    for line in log.lines() {
        let comment = match LogLine::classify(line) {
            LogLine::Instruction { slot, .. } => {
                program.index_of_slot(slot).and_then(|index| program.comment(index))
            }
            _ => None,
        };
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
const BOOKKEEPING: [&str; 15] = [
    "processed ",
    "verification time ",
    "stack depth ",
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

/// Linux 7.3 marks the line that matters; before, the first message says what is wrong.
fn reason_among(messages: &[&str]) -> Option<String> {
    let marked = messages.iter().find_map(|line| line.strip_prefix("Reason: "));
    marked.or(messages.first().copied()).map(str::to_owned)
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
        for message in ["R2 !read_ok", "R0 invalid mem access 'scalar'", "back-edge from insn 1"] {
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
