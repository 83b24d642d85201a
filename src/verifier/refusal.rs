//! The refusal of a program: what the log says, put together.

use std::fmt;

use nix::errno::Errno;

use super::finding::{Circumstances, Finding};
use super::line::{LineKind, LogLine, without_time};
use super::listing::{Listed, Listing};
use super::state::{Place, State, parse};
use super::statistics::Statistics;
use super::{annotate, reads, report};
use crate::insn::{Insn, Program};

/// How many instructions before the one at fault are shown.
const LINES_BEFORE: usize = 4;

/// The verifier's refusal of a program.
#[derive(Debug)]
pub struct VerifierError {
    /// What bpf(2) returned at the first attempt, the one without a log.
    pub errno: Errno,
    /// The message: what the verifier found wrong.
    pub reason: String,
    /// What it wrote beside that.
    pub details: Vec<String>,
    /// The message in words, where it is one of those that are known here.
    pub finding: Option<Finding>,
    /// The same in a sentence of the kernel's own. Linux 7.3.
    pub explanation: Option<String>,
    /// What the kernel proposes to do about it. Linux 7.3.
    pub suggestion: Option<String>,
    /// The instruction at fault, if the log tells which one.
    pub fault: Option<Fault>,
    /// What was known before it of all that it depends on.
    pub known: Vec<Known>,
    /// The last instructions that the verifier went through before it.
    pub before: Vec<Passed>,
    /// What the search has cost.
    pub statistics: Option<Statistics>,
    /// The whole log, with our comments on its instructions.
    pub log: String,
}

/// An instruction that the verifier did not like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its slot, as the verifier counts.
    pub slot: usize,
    /// Its text.
    pub text: String,
    /// What its author says about it.
    pub comment: Option<String>,
    /// Its line in the author's file, where there is one.
    pub line: Option<u32>,
}

/// An instruction on the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The instruction.
    pub at: Fault,
    /// What it changed, as far as the log tells: `r2=fp-4`.
    pub changed: String,
}

/// What the verifier knew of a register, or of a place on the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Which.
    pub place: Place,
    /// The kernel's own words; `None` when nothing was ever written there.
    pub value: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.comment {
            Some(comment) => write!(f, "{:4}: {:<36} ; {comment}", self.slot, self.text),
            None => write!(f, "{:4}: {}", self.slot, self.text),
        }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.place),
            None => write!(f, "{} not set", self.place),
        }
    }
}

impl VerifierError {
    /// Reads a log of that program's refusal.
    pub fn new(errno: Errno, program: &Program, log: &[u8]) -> Self {
        Self::read(errno, &Listing::of(program), log)
    }

    /// Reads a log of a refusal of what is listed.
    pub fn read(errno: Errno, listing: &Listing, log: &[u8]) -> Self {
        let log = String::from_utf8_lossy(log);
        let lines: Vec<LogLine<'_>> = log.lines().map(LogLine::read).collect();
        let last = lines.iter().rposition(|line| line.slot().is_some());
        let messages: Vec<&str> = lines[last.unwrap_or(0)..]
            .iter()
            .take_while(|line| !line.text.starts_with(report::BEGINS))
            .filter_map(|line| match line.kind {
                LineKind::Message => Some(without_time(line.text)),
                LineKind::Instruction { message, .. } if !message.is_empty() => Some(message),
                _ => None,
            })
            .collect();
        let reason = messages.first().copied();

        // Where the log says which instruction it means, it knows better than the path: an endless
        // loop is found before its first instruction is shown again. A check of the whole program
        // follows no path at all.
        let followed = last.and_then(|at| lines[at].slot());
        let named = report::section(&log, "At:").as_deref().and_then(report::slot_in_message);
        let looped =
            reason.filter(|text| text.contains(" at insn ")).and_then(report::slot_in_message);
        let slot =
            named.or(looped).or(followed).or_else(|| reason.and_then(report::slot_in_message));
        let end = if slot == followed { last } else { last.map(|at| at + 1) }.unwrap_or(0);
        let fault = slot.and_then(|slot| fault(listing, slot));
        let insn =
            fault.as_ref().and_then(|fault| listing.get(fault.slot)).map(|listed| &listed.insn);
        let known =
            insn.map_or_else(Vec::new, |insn| known(insn, &messages, &State::before(&lines, end)));
        let was_pointer = reason.and_then(|reason| was_pointer(reason, &known));
        let circumstances =
            Circumstances { insn, after_call: is_after_call(&lines[..end]), was_pointer };
        let finding = Finding::of(&messages, circumstances);
        // The log does not tell what a call made of it.
        let known = known.into_iter().filter(|known| was_pointer != Some(known.place)).collect();
        Self {
            errno,
            reason: reason.unwrap_or("its log gives no reason").to_owned(),
            details: messages.iter().skip(1).map(|text| (*text).to_owned()).collect(),
            finding,
            explanation: report::section(&log, "Reason:"),
            suggestion: report::section(&log, "Suggestion:"),
            known,
            before: passed(listing, &lines[..end]),
            fault,
            statistics: Statistics::read(&log),
            log: annotate(listing, &log),
        }
    }
}

/// Whether a call came before on this path, in the function where it ends: at the beginning of a function,
/// r1 to r5 are what its caller put there.
fn is_after_call(lines: &[LogLine<'_>]) -> bool {
    let last = lines.iter().rev().find_map(|line| {
        line.slot()?;
        let (_, called) = line.text.split_once("(85) call ")?;
        Some(!called.starts_with("pc"))
    });
    last.unwrap_or_default()
}

/// The register that the message calls a number, where it was something that a call can take away when it was
/// last shown: a packet, which another call may have moved, or what has been given back.
fn was_pointer(reason: &str, known: &[Known]) -> Option<Place> {
    let (register, rest) = reason.split_once(' ')?;
    if !matches!(rest, "invalid mem access 'scalar'" | "invalid mem access 'inv'") {
        return None;
    }
    let place = Place::Register(register.strip_prefix('R')?.parse().ok()?);
    let value = known.iter().find(|known| known.place == place)?.value.as_deref()?;
    let can_go = ["pkt", "ringbuf_mem", "sock"].iter().any(|kind| value.starts_with(kind));
    (can_go || value.contains("ref_obj_id=")).then_some(place)
}

fn fault(listing: &Listing, slot: usize) -> Option<Fault> {
    let listed = listing.get(slot)?;
    let Listed { text, comment, line, .. } = listed.clone();
    Some(Fault { slot, text, comment, line })
}

/// The last instructions of a path.
fn passed(listing: &Listing, lines: &[LogLine<'_>]) -> Vec<Passed> {
    let on_path = lines.iter().rev().filter_map(|line| {
        let LineKind::Instruction { slot, changed, .. } = line.kind else { return None };
        let changed = parse(changed).into_iter().map(|(place, value)| format!("{place}={value}"));
        Some(Passed { at: fault(listing, slot)?, changed: changed.collect::<Vec<_>>().join(" ") })
    });
    let mut passed: Vec<Passed> = on_path.take(LINES_BEFORE).collect();
    passed.reverse();
    passed
}

/// What is known of the registers that the instruction reads and the message names, and of the stack where
/// one of them points there.
fn known(insn: &Insn, messages: &[&str], state: &State) -> Vec<Known> {
    let mut places: Vec<Place> =
        reads::registers(insn).into_iter().map(|reg| Place::Register(reg.number())).collect();
    // How many arguments a call takes is not known here: those that have a value, and the one that is
    // complained about.
    if matches!(insn, Insn::Call { .. } | Insn::CallLocal { .. } | Insn::CallKernel { .. }) {
        places.retain(|place| state.get(*place).is_some());
    }
    let named = messages.iter().filter_map(|message| {
        let number = message.strip_prefix('R')?.split(' ').next()?;
        Some(Place::Register(number.parse().ok().filter(|number| *number <= 10)?))
    });
    for place in named {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let on_stack =
        places.iter().any(|place| state.get(*place).is_some_and(|value| value.starts_with("fp")));
    if on_stack {
        places.extend(
            state.values().map(|(place, _)| place).filter(|place| matches!(place, Place::Stack(_))),
        );
    }
    places
        .into_iter()
        .filter(|place| state.get(*place).is_some() || state.is_missing(*place))
        .map(|place| Known { place, value: state.get(place).map(str::to_owned) })
        .collect()
}

impl fmt::Display for VerifierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; the verifier says: {}", self.errno, self.reason)?;
        for Passed { at, .. } in &self.before {
            write!(f, "\n    {at}")?;
        }
        if let Some(fault) = &self.fault {
            write!(f, "\n  > {fault}")?;
        }
        if !self.known.is_empty() {
            let known: Vec<String> = self.known.iter().map(Known::to_string).collect();
            write!(f, "\n  before it: {}", known.join(", "))?;
        }
        if let Some(Finding { wrong, mend, .. }) = &self.finding {
            write!(f, "\n  that is: {wrong}\n  what usually mends it: {mend}")?;
        }
        for text in [&self.explanation, &self.suggestion].into_iter().flatten() {
            write!(f, "\n  the verifier adds: {text}")?;
        }
        Ok(())
    }
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
             2: r0 = *(u64 *)(r1 + 4096)             ; far beyond the context\n  \
             before it: r1=ctx()\n  \
             that is: 8 bytes at offset 4096 of the context are read, where programs of this type \
             find no field\n  \
             what usually mends it: take offset and size of a field: those of the tracepoint's format \
             file, or of the structure in linux/bpf.h; check the type, too"
        );
        assert!(error.log.contains("; seven\n"));
        assert_eq!(error.log.lines().count(), log.lines().count());
    }

    #[test]
    fn a_check_of_the_whole_program_names_the_slot_in_its_message() {
        let error = VerifierError::new(Errno::EINVAL, &program(), b"unreachable insn 3\n");
        assert_eq!(error.reason, "unreachable insn 3");
        assert_eq!(
            error.fault,
            Some(Fault { slot: 3, text: "exit".into(), comment: None, line: None })
        );
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
        assert_eq!(
            error.fault,
            Some(Fault { slot: 3, text: "exit".into(), comment: None, line: None })
        );
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

    proptest! {
        #[test]
        fn any_bytes_are_read_and_no_line_is_lost(log: Vec<u8>) {
            let text = String::from_utf8_lossy(&log).into_owned();
            let error = VerifierError::new(Errno::EINVAL, &program(), &log);
            for line in text.lines().filter(|line| LogLine::read(line).kind != LineKind::Statistics) {
                prop_assert!(error.log.lines().any(|shown| shown.starts_with(line.trim_end())));
            }
        }
    }
}
