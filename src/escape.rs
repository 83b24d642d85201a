//! Names from /proc, made safe for a terminal.
//!
//! Any process may give its threads and files names that hold escape sequences, line breaks, or bytes that
//! are no text at all. Printed as they are, they could recolour the terminal or forge a line of the report.

use std::fmt::Write;
use std::path::Path;

/// The name with everything that does not simply print replaced by an escape, as in a Rust string: control
/// and formatting characters, and the backslash, so that the result is unambiguous. A byte that is not
/// UTF-8 becomes `\xNN`.
///
/// ```
/// use rlat::escape::escape;
///
/// assert_eq!(escape(b"nginx: worker's"), "nginx: worker's");
/// assert_eq!(escape(b"\x1b[31mred\n"), r"\u{1b}[31mred\n");
/// assert_eq!(escape(b"caf\xe9"), r"caf\xe9");
/// ```
pub fn escape(name: &[u8]) -> String {
    let mut escaped = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\'' | '"' => escaped.push(character),
                _ => escaped.extend(character.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\x{byte:02x}");
        }
    }
    escaped
}

/// The same for a path.
///
/// ```
/// use rlat::escape::escape_path;
///
/// assert_eq!(escape_path("/tmp/a\nb".as_ref()), r"/tmp/a\nb");
/// ```
pub fn escape_path(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes())
}

/// Text that was put together for a terminal, with what a terminal could obey escaped, if a part of it has
/// slipped through. Lines, tabs and backslashes stay, so that text without it comes back as it is.
///
/// ```
/// use rlat::escape::printable;
///
/// assert_eq!(printable("cannot use a\\b:\n\tred \x1b[31m"), "cannot use a\\b:\n\tred \\u{1b}[31m");
/// ```
pub fn printable(text: &str) -> String {
    // As the verifier's log of some MB, and nearly all else, is.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return text.to_owned();
    }
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' | '\\' | '\'' | '"' => printable.push(character),
            _ => printable.extend(character.escape_debug()),
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_could_obey() {
        assert_eq!(escape(b"\x00\t\r\x7f"), r"\0\t\r\u{7f}");
        assert_eq!(escape("\u{9b}2J".as_bytes()), r"\u{9b}2J");
        assert_eq!(escape("\u{202e}txt.exe".as_bytes()), r"\u{202e}txt.exe");
        assert_eq!(escape(br"C:\n"), r"C:\\n");
        assert_eq!(escape("Größe 日本".as_bytes()), "Größe 日本");
    }

    /// Control characters of both kinds, and those that turn the direction of text around.
    fn obeyed(character: char) -> bool {
        let bidi = matches!(
            character,
            '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        );
        character.is_control() || bidi
    }

    #[test]
    fn every_character_that_a_terminal_obeys_is_escaped() {
        for character in ('\0'..=char::MAX).filter(|character| obeyed(*character)) {
            let name = character.to_string();
            assert!(!escape(name.as_bytes()).contains(character), "{character:?}");
        }
    }

    proptest! {
        #[test]
        fn no_control_character_survives(name in any::<Vec<u8>>()) {
            prop_assert!(!escape(&name).chars().any(obeyed));
        }

        #[test]
        fn no_character_that_a_terminal_obeys_survives(name: String) {
            prop_assert!(!escape(name.as_bytes()).chars().any(obeyed));
            let left = |c: char| obeyed(c) && c != '\n' && c != '\t';
            prop_assert!(!printable(&name).chars().any(left));
            prop_assert_eq!(printable(&printable(&name)), printable(&name));
        }
    }
}
