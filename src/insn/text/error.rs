//! What is wrong with a text, and where.

use std::fmt;

/// A place in a text where something else was expected.
///
/// ```
/// use rlat::insn::text::parse;
///
/// let error = parse("r0 = 0\nr11 = 1\n").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "line 2, column 1: expected a register, r0 to r10 or w0 to w10, found `r11`\n  \
///      2 | r11 = 1\n    | ^^^"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The line's number, the first one being 1.
    pub line: usize,
    /// The character in it, the first one being 1.
    pub column: usize,
    /// How many characters are at fault, at least 1.
    pub width: usize,
    /// What is wrong, without the place: most often what was expected, and what is there.
    pub message: String,
    /// The line itself.
    pub text: String,
}

/// How many characters of what was found instead are quoted.
const QUOTED: usize = 40;

/// The beginning of a word, for a message.
pub(super) fn beginning(word: &str) -> String {
    match word.char_indices().nth(QUOTED) {
        Some((at, _)) => format!("{}...", &word[..at]),
        None => word.to_owned(),
    }
}

/// How many characters of a line are shown, of which some stand before the place.
const SHOWN: usize = 100;
const SHOWN_BEFORE: usize = 60;

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, width, message, text } = self;
        let length = text.chars().count();
        // Of a line that is longer than a terminal is wide, what is around the place.
        let left = if length > SHOWN { (column - 1).saturating_sub(SHOWN_BEFORE) } else { 0 };
        let right = if left + SHOWN < length { left + SHOWN } else { length };
        let cut = |is_cut: bool| if is_cut { "..." } else { "" };
        let (before, after) = (cut(left > 0), cut(right < length));
        // What is not printed as itself would move the caret, or worse.
        let shown = text.chars().skip(left).take(right - left);
        let shown: String = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        let blanks = " ".repeat(before.len() + column - 1 - left);
        let caret = "^".repeat((*width).min(right.saturating_sub(column - 1).max(1)));
        writeln!(f, "line {line}, column {column}: {message}")?;
        writeln!(f, "  {number} | {before}{shown}{after}")?;
        write!(f, "  {margin} | {blanks}{caret}")
    }
}

impl std::error::Error for TextError {}

#[cfg(test)]
mod tests {
    use crate::insn::text::parse;

    #[test]
    fn of_a_long_line_the_part_around_the_place_is_shown() {
        let long = format!("r0 = 0\nr1 = 1{}oops{}\n", " ".repeat(5_000), "y".repeat(5_000));
        let error = parse(&long).unwrap_err();
        assert_eq!((error.line, error.column), (2, 5_007));
        let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
        assert_eq!(
            lines[0],
            format!(
                "line 2, column 5007: expected the end of the line, found `oops{}...`",
                "y".repeat(36)
            )
        );
        assert_eq!(lines[1], format!("  2 | ...{}oops{}...", " ".repeat(60), "y".repeat(36)));
        assert_eq!(lines[2], format!("    | {}{}", " ".repeat(63), "^".repeat(40)));

        let comment = format!("r0 = 0 ; {}\nr11 = 0 ; {0}", "x".repeat(5_000));
        let shown = parse(&comment).unwrap_err().to_string();
        assert!(
            shown.contains("\n  2 | r11 = 0 ; xxx") && shown.ends_with("\n    | ^^^"),
            "{shown}"
        );
        assert!(shown.len() < 300, "{shown}");
    }
}
