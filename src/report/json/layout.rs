//! Where bpftrace puts blanks, and which characters are escaped.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// Appends one line.
pub(in crate::report) fn write_line(text: &mut String, line: &impl Serialize) {
    let mut bytes = Vec::new();
    // Memory takes everything that is written to it, and every key is a string: this cannot fail.
    let _ = line.serialize(&mut Serializer::with_formatter(&mut bytes, Blanks));
    text.push_str(&String::from_utf8_lossy(&bytes));
    text.push('\n');
}

/// A blank behind every colon and comma, as bpftrace has it up to 0.23. (Later ones leave out that
/// between the rows of a histogram. To a reader of JSON both are the same.)
///
/// Beyond what JSON asks for, characters that do not simply print are written as `\u001b` is: some
/// readers take U+2028 for the end of a line, and a terminal obeys U+009B.
struct Blanks;

impl Formatter for Blanks {
    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for character in fragment.chars() {
            let prints = matches!(character, ' '..='~') || character.escape_debug().count() == 1;
            if prints {
                write!(writer, "{character}")?;
                continue;
            }
            for half in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{half:04x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::report::json::lines::{Count, Line, Named};

    fn line(name: &str) -> String {
        let mut text = String::new();
        write_line(&mut text, &Line::Map(Named(name.to_owned(), Count(1))));
        text
    }

    #[test]
    fn blanks_are_where_bpftrace_has_them() {
        assert_eq!(line("@calls"), "{\"type\": \"map\", \"data\": {\"@calls\": 1}}\n");
    }

    #[test]
    fn what_a_terminal_could_obey_is_escaped() {
        let text = line("\u{1b}[31m\u{9b}\u{2028}\u{7f}\u{e0001}\"\\é日");
        assert!(text.contains(r#"\u001b[31m\u009b\u2028\u007f\udb40\udc01\"\\é日"#), "{text}");
    }

    proptest! {
        #[test]
        fn any_name_comes_back_from_one_line(name: String) {
            let text = line(&name);
            prop_assert_eq!(text.trim_end().chars().filter(|c| c.is_control()).count(), 0);
            let back: Value = serde_json::from_str(&text).unwrap();
            let map = back["data"].as_object().unwrap();
            prop_assert_eq!(map.keys().collect::<Vec<_>>(), [&name]);
        }
    }
}
