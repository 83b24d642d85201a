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

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, width, message, text } = self;
        // What is not printed as itself would move the caret, or worse.
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        let (before, caret) = (" ".repeat(column - 1), "^".repeat(*width));
        writeln!(f, "line {line}, column {column}: {message}")?;
        writeln!(f, "  {number} | {text}")?;
        write!(f, "  {margin} | {before}{caret}")
    }
}

impl std::error::Error for TextError {}
