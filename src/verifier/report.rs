//! The report that Linux 7.3 adds to many messages; see the room's page.

/// The line that begins it.
pub(super) const BEGINS: &str = "Verification failed:";

/// The text of a section, its lines joined.
pub(super) fn section(log: &str, title: &str) -> Option<String> {
    let lines = log.lines().skip_while(|line| *line != title).skip(1);
    let text = lines.take_while(|line| line.starts_with(' ')).map(str::trim).collect::<Vec<_>>();
    (!text.is_empty()).then(|| text.join(" "))
}

/// The slot of `  >>> 5 | (95) exit`.
pub(super) fn slot_in_context(line: &str) -> Option<usize> {
    let (number, _) = line.strip_prefix("  ")?.split_once(" | (")?;
    number.trim_start_matches('>').trim().parse().ok()
}

/// The number in `unreachable insn 7`, `jump out of range from insn 3 to 9` and their like.
pub(super) fn slot_in_message(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once("insn ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
