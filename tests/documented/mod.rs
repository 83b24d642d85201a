//! docs/errors.md as the tests see it: a table of failures, with which they compare what rlat says.
//!
//! In a message, `N` stands for a number, and `...` for any text.

// Each file of tests needs a part of it, and a failure in any part fails the test.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// The page, as it was when the tests were built: they run on other machines, too.
const PAGE: &str = include_str!("../../docs/errors.md");

/// What the table has where there is nothing to say.
const NOTHING: &str = "-";

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) wrong: &'static str,
    pub(crate) message: &'static str,
    pub(crate) code: &'static str,
    pub(crate) next: &'static str,
    pub(crate) test: &'static str,
}

/// All rows of the page's tables.
pub(crate) fn rows() -> Vec<Row> {
    let cells = |line: &'static str| {
        let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [wrong, message, code, next, test] = cells[..] else { panic!("five cells: {line}") };
        let (message, next) = (without_ticks(message), without_ticks(next));
        Some(Row { wrong, message, code, next, test: without_ticks(test) })
    };
    PAGE.lines().filter_map(cells).filter(|row| row.wrong != "what is wrong").collect()
}

/// Code in a page stands between backticks: as many as do not occur in it.
fn without_ticks(cell: &str) -> &str {
    cell.trim_matches('`').trim()
}

/// Fails unless the table has exactly that in the row of what is wrong: the exit code, `None` when a signal
/// ended it, the message as a line of standard error, and the next step behind it.
pub(crate) fn assert_documented(wrong: &str, code: Option<i32>, stderr: &str) {
    let rows = rows();
    let row = rows.iter().find(|row| row.wrong == wrong);
    let row = row.unwrap_or_else(|| panic!("docs/errors.md has no row {wrong:?}:\n{stderr}"));
    let found = code.map_or_else(|| "a signal's".to_owned(), |code| code.to_string());
    assert_eq!(found, row.code, "{wrong}: {stderr}");
    let ours = |line: &&str| line.starts_with("rlat: ") || line.starts_with("error: ");
    let said: Vec<&str> = stderr.lines().filter(ours).collect();
    if row.message == NOTHING {
        assert_eq!(said, [""; 0], "{wrong}");
        return;
    }
    let is_it = |line: &&str| is_like(line, row.message);
    let at = stderr.lines().position(|line| is_it(&line));
    let at = at.unwrap_or_else(|| panic!("{wrong}: no line\n{}\nin\n{stderr}", row.message));
    let next = stderr.lines().skip(at).find_map(|line| line.strip_prefix("  next: "));
    let is_next = next.map_or(row.next == NOTHING, |next| is_like(next, row.next));
    assert!(is_next, "{wrong}: the next step is not\n{}\nin\n{stderr}", row.next);
}

/// Whether the text is what the pattern says.
fn is_like(text: &str, pattern: &str) -> bool {
    if let Some(rest) = pattern.strip_prefix("...") {
        return (0..=text.len())
            .any(|at| text.get(at..).is_some_and(|behind| is_like(behind, rest)));
    }
    let is_word = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
    if let Some(rest) = pattern.strip_prefix('N')
        && !is_word(rest.chars().next())
    {
        let behind = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',');
        let number = text[..text.len() - behind.len()].trim_end_matches(',');
        return !number.is_empty() && is_like(&text[number.len()..], rest);
    }
    // Up to the end of a word, within which an N is a letter.
    let mut end = 0;
    for (at, character) in pattern.char_indices() {
        let begins = at == 0 || !is_word(pattern[..at].chars().next_back());
        let is_number = begins && character == 'N' && !is_word(pattern[at + 1..].chars().next());
        if is_number || pattern[at..].starts_with("...") {
            break;
        }
        end = at + character.len_utf8();
    }
    let (literal, rest) = pattern.split_at(end);
    match text.strip_prefix(literal) {
        Some(behind) if rest.is_empty() => behind.is_empty(),
        Some(behind) => is_like(behind, rest),
        None => false,
    }
}

/// Comparisons that must come out so.
pub(crate) fn check_patterns() {
    for (text, pattern) in [
        ("cannot: ENOENT", "cannot: ENOENT"),
        ("process 1,234 is", "process N is"),
        ("line 3, column 14", "line N, column N"),
        ("lacks CAP_PERFMON (N)", "lacks CAP_PERFMON (N)"),
        ("in /tmp/x: ENOENT", "in ...: ENOENT"),
        ("in /tmp/x: ENOENT", "in ..."),
    ] {
        let literal = text.contains("(N)");
        assert_eq!(is_like(text, pattern), !literal, "{text} {pattern}");
    }
    for (text, pattern) in [("process x", "process N"), ("ab", "a"), ("a", "ab"), ("", "N")] {
        assert!(!is_like(text, pattern), "{text} {pattern}");
    }
}
