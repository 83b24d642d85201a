//! One line of the log, and what kind of line it is.

/// A line, as it stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// The line without what is around it.
    pub text: &'a str,
    /// What it is.
    pub kind: LineKind<'a>,
}

/// The kinds of line that need telling apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind<'a> {
    /// `12: (85) call bpf_ktime_get_ns#5    ; R0=scalar()`
    Instruction {
        /// Where the instruction begins, in slots.
        slot: usize,
        /// What it changed, as text; empty where the kernel does not say.
        changed: &'a str,
        /// `4: R1=3 R10=fp0` on the same line: the whole state, at the place where the path goes on.
        then: &'a str,
    },
    /// The whole state: `0: R1=ctx() R10=fp0`, `from 3 to 9: R0=0` or ` R0=0 R10=fp0`.
    State(&'a str),
    /// `processed 6 insns ...` and its like.
    Statistics,
    /// `; a line of the source`, where the kernel was given lines.
    Source,
    /// Steps on the way of the search.
    Note,
    /// Nothing but blanks.
    Blank,
    /// Anything else.
    Message,
}

/// How lines begin that say what the search has cost.
const STATISTICS: [&str; 4] = ["processed ", "verification time ", "stack depth ", "subprog "];

/// How lines begin that are steps of the search.
const NOTES: [&str; 21] = [
    "stack use/def ",
    "subprog",
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
    "(0) ",
    "cur state:",
    "old state:",
    "caller:",
    "callee:",
    "returning from callee:",
    "to caller at ",
    "Validating ",
    "Func#",
];

impl<'a> LogLine<'a> {
    /// Tells what kind of line it is.
    ///
    /// ```
    /// use rlat::verifier::{LineKind, LogLine};
    ///
    /// let line = LogLine::read("3: (bf) r2 = r10                      ; R2_w=fp0 R10=fp0");
    /// assert_eq!(line.slot(), Some(3));
    /// assert_eq!(LogLine::read("R2 !read_ok").kind, LineKind::Message);
    /// ```
    pub fn read(line: &'a str) -> Self {
        let text = line.trim();
        Self { text, kind: kind(text) }
    }

    /// The slot of the instruction that the line shows.
    pub fn slot(&self) -> Option<usize> {
        match self.kind {
            LineKind::Instruction { slot, .. } => Some(slot),
            _ => None,
        }
    }
}

fn kind(text: &str) -> LineKind<'_> {
    if text.is_empty() {
        return LineKind::Blank;
    }
    if text.starts_with("; ") {
        return LineKind::Source;
    }
    let counts = text.contains(|c: char| c.is_ascii_digit());
    if counts && STATISTICS.iter().any(|start| text.starts_with(start)) {
        return LineKind::Statistics;
    }
    if is_state(text) {
        return LineKind::State(text);
    }
    let from = text.strip_prefix("from ");
    if let Some((_, states)) = from.and_then(|rest| rest.split_once(": ")) {
        return LineKind::State(states);
    }
    if NOTES.iter().any(|start| text.starts_with(start)) {
        return LineKind::Note;
    }
    let Some((number, rest)) = text.split_once(": ") else { return LineKind::Message };
    match number.parse() {
        Ok(slot) if rest.starts_with('(') => instruction(slot, rest),
        Ok(_) if is_state(rest) => LineKind::State(rest),
        // `12: safe`, and the table of live registers `12: .1.... (b7)`
        Ok::<usize, _>(_) => LineKind::Note,
        Err(_) => LineKind::Message,
    }
}

/// What stands behind `12: `.
fn instruction(slot: usize, rest: &str) -> LineKind<'_> {
    if let Some((_, changed)) = rest.split_once("; ") {
        return LineKind::Instruction { slot, changed: changed.trim(), then: "" };
    }
    // Linux 6.18 goes on behind a jump without a new line.
    let then =
        rest.match_indices(": ").map(|(at, colon)| (&rest[..at], &rest[at + colon.len()..])).find(
            |(before, states)| before.ends_with(|c: char| c.is_ascii_digit()) && is_state(states),
        );
    LineKind::Instruction { slot, changed: "", then: then.map_or("", |(_, states)| states) }
}

/// `R0=inv1 R10=fp0`, `R0_w=scalar() ...` or `frame1: R6=2`: a register's number, then `=` within the
/// first word. A message such as `R2 !read_ok` has a blank there.
fn is_state(text: &str) -> bool {
    let text = match text.strip_prefix("frame").and_then(|rest| rest.split_once(": ")) {
        Some((number, states)) if number.bytes().all(|byte| byte.is_ascii_digit()) => states,
        _ => text,
    };
    let first = text.split(' ').next().unwrap_or_default();
    let number =
        first.strip_prefix('R').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    number && first.contains('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_notes_and_messages_are_told_apart() {
        for state in ["R0=inv1 R10=fp0", "R1_w=ctx(off=0)", "from 3 to 9: R0=0", "7: frame1: R6=1"]
        {
            assert!(matches!(LogLine::read(state).kind, LineKind::State(_)), "{state}");
        }
        for note in ["12: safe", "last_idx 2 first_idx 0", "cur state: R0=0 R10=fp0", "func#0 @0"] {
            assert_eq!(LogLine::read(note).kind, LineKind::Note, "{note}");
        }
        for message in
            ["R2 !read_ok", "R0 invalid mem access 'scalar'", "frame pointer is read only"]
        {
            assert_eq!(LogLine::read(message).kind, LineKind::Message, "{message}");
        }
        for numbers in
            ["processed 0 insns (limit 1)", "verification time 5 usec", "stack depth max 0"]
        {
            assert_eq!(LogLine::read(numbers).kind, LineKind::Statistics, "{numbers}");
        }
    }

    #[test]
    fn an_instruction_may_be_followed_by_what_it_changed_or_by_the_next_state() {
        let changed = LogLine::read("3: (bf) r2 = r10     ; R2_w=fp0 R10=fp0").kind;
        assert_eq!(
            changed,
            LineKind::Instruction { slot: 3, changed: "R2_w=fp0 R10=fp0", then: "" }
        );
        let then = LogLine::read("1: (15) if r1 == 0x3 goto pc+2 4: R1=3 R10=fp0").kind;
        assert_eq!(then, LineKind::Instruction { slot: 1, changed: "", then: "R1=3 R10=fp0" });
        let plain = LogLine::read("2: (05) goto pc-2").kind;
        assert_eq!(plain, LineKind::Instruction { slot: 2, changed: "", then: "" });
    }
}
