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
        /// What else stands on the same line behind a jump or a call; most often nothing.
        message: &'a str,
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
        // Files that were kept of a log may end with the zero that ended it.
        let text = line.trim_matches(|c: char| c.is_whitespace() || c == '\0');
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
        return LineKind::Instruction { slot, changed: changed.trim(), then: "", message: "" };
    }
    // Linux 6.18 goes on behind a jump without a new line.
    let then =
        rest.match_indices(": ").map(|(at, colon)| (&rest[..at], &rest[at + colon.len()..])).find(
            |(before, states)| before.ends_with(|c: char| c.is_ascii_digit()) && is_state(states),
        );
    let then = then.map_or("", |(_, states)| states);
    let message = if then.is_empty() { behind_distance(rest) } else { "" };
    LineKind::Instruction { slot, changed: "", then, message }
}

/// What stands behind `goto pc-2` or `call bpf_loop#181`: the kernel takes the end of the line back there to
/// add a state, and at times has a message to write instead.
fn behind_distance(text: &str) -> &str {
    let number = [" goto pc", "call pc", "#"].iter().find_map(|before| text.split_once(before));
    let Some((_, number)) = number else { return "" };
    number.trim_start_matches(['+', '-']).trim_start_matches(|c: char| c.is_ascii_digit()).trim()
}

/// A message without the numbers that Linux 6.18 writes directly behind one that has no end of line.
pub(super) fn without_time(message: &str) -> &str {
    match message.split_once("verification time ") {
        Some((before, time)) if time.ends_with(" usec") && !before.is_empty() => before,
        _ => message,
    }
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
            LineKind::Instruction { slot: 3, changed: "R2_w=fp0 R10=fp0", then: "", message: "" }
        );
        let then = LogLine::read("1: (15) if r1 == 0x3 goto pc+2 4: R1=3 R10=fp0").kind;
        assert_eq!(
            then,
            LineKind::Instruction { slot: 1, changed: "", then: "R1=3 R10=fp0", message: "" }
        );
        let plain = LogLine::read("2: (05) goto pc-2").kind;
        assert_eq!(plain, LineKind::Instruction { slot: 2, changed: "", then: "", message: "" });
    }

    #[test]
    fn a_message_may_stand_on_the_line_of_an_instruction_and_numbers_on_that_of_a_message() {
        for (line, expected) in [
            (
                "2: (55) if r6 != 0x0 goto pc-2 infinite loop detected at insn 1",
                "infinite loop detected at insn 1",
            ),
            ("7: (85) call bpf_loop#181 R1 is odd", "R1 is odd"),
            ("7: (85) call pc+3 too far", "too far"),
            ("7: (85) call bpf_iter_num_next#104191 515: R0_w=rdonly_mem(id=2) R7=scalar()", ""),
            ("7: (b7) r0 = 3", ""),
        ] {
            let LineKind::Instruction { message, .. } = LogLine::read(line).kind else {
                panic!("{line}")
            };
            assert_eq!(message, expected, "{line}");
        }
        let glued = "expected prog array map for tail callverification time 35 usec";
        assert_eq!(without_time(glued), "expected prog array map for tail call");
        assert_eq!(without_time("verification time 35 usec"), "verification time 35 usec");
    }
}
