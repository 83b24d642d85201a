//! Globs, as a shell has them for the names of files.
//!
//! `*` stands for any characters, none included; `?` for exactly one; `[a-c_]` for one of those;
//! `[!a-c]` or `[^a-c]` for one that is none of them. A `]` that comes first in brackets is one of the
//! characters. A `[` that is never closed stands for itself, so every text is a glob.

use std::str::Chars;

/// A glob, ready to be compared with many names.
///
/// ```
/// use rlat::tracefs::Glob;
///
/// let glob = Glob::new("sys_e[nx]*_read");
/// assert!(glob.matches("sys_enter_read"));
/// assert!(!glob.matches("sys_enter_readv"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    parts: Vec<Part>,
}

/// One step of a glob.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// `*`
    AnyText,
    /// `?`
    AnyCharacter,
    /// A character that stands for itself.
    This(char),
    /// `[...]`: ranges from the first to the second character, both included.
    OneOf { ranges: Vec<(char, char)>, negated: bool },
}

impl Part {
    fn accepts(&self, character: char) -> bool {
        match self {
            Self::AnyText | Self::AnyCharacter => true,
            Self::This(own) => *own == character,
            Self::OneOf { ranges, negated } => {
                let listed =
                    ranges.iter().any(|&(first, last)| (first..=last).contains(&character));
                listed != *negated
            }
        }
    }
}

impl Glob {
    /// Reads a glob. Any text is one.
    pub fn new(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text.chars();
        // When one `[` finds no end, none that follows can; not to look again keeps this linear.
        let mut brackets_close = true;
        while let Some(character) = rest.next() {
            let part = match character {
                '*' if parts.last() == Some(&Part::AnyText) => continue,
                '*' => Part::AnyText,
                '?' => Part::AnyCharacter,
                '[' if brackets_close => {
                    if let Some((part, after)) = brackets(rest.clone()) {
                        rest = after;
                        part
                    } else {
                        brackets_close = false;
                        Part::This('[')
                    }
                }
                other => Part::This(other),
            };
            parts.push(part);
        }
        Self { parts }
    }

    /// Whether it stands for the whole of `name`.
    ///
    /// The time is at most that of comparing each character of the name with each part, however many
    /// stars there are: only the last star ever has to be tried with more text. If an earlier one took
    /// more, that could only leave less for everything behind it.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.parts.as_slice();
        let mut rest = name.chars();
        let mut last_star: Option<(&[Part], Chars<'_>)> = None;
        loop {
            match parts.split_first() {
                Some((Part::AnyText, behind)) => {
                    last_star = Some((behind, rest.clone()));
                    parts = behind;
                    continue;
                }
                Some((part, behind)) => {
                    let mut ahead = rest.clone();
                    if ahead.next().is_some_and(|character| part.accepts(character)) {
                        (parts, rest) = (behind, ahead);
                        continue;
                    }
                }
                None if rest.as_str().is_empty() => return true,
                None => {}
            }
            // A dead end: back to the last star, which takes one character more.
            let Some((behind, from)) = &mut last_star else { return false };
            if from.next().is_none() {
                return false;
            }
            (parts, rest) = (behind, from.clone());
        }
    }
}

/// Reads what follows a `[` up to the `]` that ends it, and returns what comes after.
fn brackets(mut rest: Chars<'_>) -> Option<(Part, Chars<'_>)> {
    let negated = rest.as_str().starts_with(['!', '^']);
    if negated {
        rest.next();
    }
    let mut ranges = Vec::new();
    loop {
        let first = rest.next()?;
        if first == ']' && !ranges.is_empty() {
            return Some((Part::OneOf { ranges, negated }, rest));
        }
        // A minus is itself where it is the last character in the brackets.
        let mut ahead = rest.clone();
        let last = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(last)) if last != ']' => {
                rest = ahead;
                last
            }
            _ => first,
        };
        ranges.push((first, last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write as _;

    #[test]
    fn what_matches_and_what_does_not() {
        // A glob, names that it stands for, and names that it does not.
        let table: [(&str, &[&str], &[&str]); 20] = [
            ("", &[""], &["a"]),
            ("read", &["read"], &["rea", "reads", "Read"]),
            ("*", &["", "a", "sys_enter_read"], &[]),
            ("**", &["", "a"], &[]),
            ("?", &["a", "ß"], &["", "ab"]),
            ("sys_*_read", &["sys_enter_read", "sys_exit_read", "sys__read"], &["sys_read"]),
            ("*read*", &["read", "preadv"], &["raed"]),
            ("*a*b", &["ab", "xaybxb"], &["ba", "abx"]),
            ("a*?b", &["axb", "axxb"], &["ab"]),
            ("[abc]", &["a", "c"], &["d", "", "ab"]),
            ("[a-c]x", &["ax", "bx"], &["dx", "-x"]),
            ("[!a-c]", &["d", "-", "!"], &["b"]),
            ("[^a]", &["b", "^"], &["a"]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[!]a]", &["b"], &["]", "a"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[-a]", &["a", "-"], &["b"]),
            ("[z-a]", &[], &["a", "m", "z", "-"]),
            ("[a", &["[a"], &["a"]),
            ("[]", &["[]"], &["", "]"]),
        ];
        for (glob, yes, no) in table {
            let compiled = Glob::new(glob);
            for name in yes {
                assert!(compiled.matches(name), "{glob:?} should match {name:?}");
            }
            for name in no {
                assert!(!compiled.matches(name), "{glob:?} should not match {name:?}");
            }
        }
    }

    #[test]
    fn brackets_that_never_close_are_characters_and_what_follows_keeps_its_meaning() {
        assert!(Glob::new("[!*").matches("[!anything"));
        assert!(Glob::new("[[?").matches("[[a"));
        assert!(Glob::new("[a]]").matches("a]"));
    }

    #[test]
    fn a_glob_of_a_megabyte_is_read_and_compared() {
        let name = "sys_enter_read".repeat(10);
        for piece in ["*", "?", "[", "[]", "[a-", "*a", "*?", "[!", "a", "[ab]"] {
            assert!(piece == "*" || !Glob::new(&piece.repeat(1 << 18)).matches(&name), "{piece}");
        }
        assert!(Glob::new(&"*".repeat(1 << 20)).matches(&name));
    }

    /// The plain definition, which takes exponential time.
    fn reference(parts: &[Part], name: &str) -> bool {
        let mut rest = name.chars();
        match parts.split_first() {
            None => name.is_empty(),
            Some((Part::AnyText, behind)) => {
                reference(behind, name) || rest.next().is_some() && reference(parts, rest.as_str())
            }
            Some((part, behind)) => {
                rest.next().is_some_and(|character| part.accepts(character))
                    && reference(behind, rest.as_str())
            }
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_plain_definition(glob in "[ab*?]{0,8}", name in "[ab]{0,10}") {
            let glob = Glob::new(&glob);
            prop_assert_eq!(glob.matches(&name), reference(&glob.parts, &name));
        }

        #[test]
        fn a_list_of_characters_is_what_a_set_is(set in "[a-f]{1,5}", name in "[a-h]") {
            prop_assert_eq!(Glob::new(&format!("[{set}]")).matches(&name), set.contains(&name));
            prop_assert_eq!(Glob::new(&format!("[!{set}]")).matches(&name), !set.contains(&name));
        }

        #[test]
        fn any_text_in_brackets_of_its_own_matches_itself(name: String) {
            // `!` and `^` mean something else in the first place, so they stay outside.
            let quoted = name.chars().fold(String::new(), |mut glob, character| {
                let _ = match character {
                    '!' | '^' => write!(glob, "{character}"),
                    other => write!(glob, "[{other}]"),
                };
                glob
            });
            prop_assert!(Glob::new(&quoted).matches(&name));
        }

        #[test]
        fn no_input_panics(glob: String, name: String) {
            let _ = Glob::new(&glob).matches(&name);
        }
    }
}
