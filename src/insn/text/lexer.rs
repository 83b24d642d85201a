//! A line, cut into words, numbers and signs.

use std::ops::Range;

/// What a piece of a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A word that begins with a letter or one of `_ . $`.
    Word(String),
    /// Something in double quotes, which are gone.
    Quoted(String),
    /// A number without a sign.
    Number(u64),
    /// An operator or a bracket.
    Sign(&'static str),
}

/// A piece of a line and where it is, counted in characters.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) token: Token,
    pub(super) at: Range<usize>,
}

/// What cannot be cut: where it is, and what is wrong with it.
pub(super) type Fault = (Range<usize>, String);

/// Longer ones before those that they begin with.
const SIGNS: [&str; 44] = [
    "s>>=", "<<=", ">>=", "s>=", "s<=", "s/=", "s%=", "s>", "s<", "+=", "-=", "*=", "/=", "|=",
    "&=", "%=", "^=", "==", "!=", "<=", ">=", "<", ">", "=", "&", "*", "(", ")", "[", "]", "+",
    "-", ",", ":", "/", "%", "^", "|", "!", "{", "}", "?", "~", "@",
];

/// The pieces of a line from there on, and its comment.
pub(super) fn split(line: &[char], mut at: usize) -> Result<(Vec<Piece>, Option<String>), Fault> {
    let mut pieces = Vec::new();
    while let Some(&c) = line.get(at) {
        let from = at;
        let token = if c.is_whitespace() {
            at += 1;
            continue;
        } else if begins_comment(&line[at..]) {
            return Ok((pieces, comment(&line[at..])));
        } else if c == '"' {
            Token::Quoted(quoted(line, &mut at)?)
        } else if c.is_ascii_digit() {
            Token::Number(number(line, &mut at)?)
        } else if let Some(sign) = SIGNS.iter().find(|sign| begins_with(&line[at..], sign)) {
            at += sign.len();
            Token::Sign(sign)
        } else if is_in_word(c) {
            at += line[at..].iter().take_while(|c| is_in_word(**c)).count();
            Token::Word(line[from..at].iter().collect())
        } else {
            return Err((at..at + 1, format!("`{}` has no meaning here", c.escape_debug())));
        };
        pieces.push(Piece { token, at: from..at });
    }
    Ok((pieces, None))
}

/// Whether a character can be in a word. A word does not begin with a digit.
pub(super) fn is_in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$')
}

/// Whether a comment begins here.
pub(super) fn begins_comment(rest: &[char]) -> bool {
    matches!(rest, [';' | '#', ..] | ['/', '/', ..])
}

/// The text of a comment, if there is any.
pub(super) fn comment(rest: &[char]) -> Option<String> {
    let mark = if rest.first() == Some(&'/') { 2 } else { 1 };
    let text: String =
        rest.iter().skip(mark).map(|c| if c.is_control() { ' ' } else { *c }).collect();
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn begins_with(rest: &[char], sign: &str) -> bool {
    sign.len() <= rest.len() && sign.chars().zip(rest).all(|(a, b)| a == *b)
}

fn number(line: &[char], at: &mut usize) -> Result<u64, Fault> {
    let from = *at;
    *at += line[from..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').count();
    let text: String = line[from..*at].iter().collect();
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| (from..*at, format!("`{text}` is no number of 64 bits: {error}")))
}

/// The most characters of `{10ffff}` before its end.
const LONGEST_CODE: usize = 8;

/// A text in quotes from `at` on, which is left behind its end.
pub(super) fn quoted(line: &[char], at: &mut usize) -> Result<String, Fault> {
    let from = *at;
    let mut text = String::new();
    *at += 1;
    loop {
        let fault = |to: usize, what: &str| Err((from..to.max(from + 1), what.to_owned()));
        match line.get(*at) {
            None => return fault(line.len(), "there is no `\"` at the end of this"),
            Some('"') => {
                *at += 1;
                return Ok(text);
            }
            Some('\\') => {
                match line.get(*at + 1) {
                    Some(c @ ('"' | '\\')) => text.push(*c),
                    Some('x') => {
                        let digits: String = line.iter().skip(*at + 2).take(2).collect();
                        let byte = u8::from_str_radix(&digits, 16).ok().filter(u8::is_ascii);
                        match byte {
                            Some(byte) if digits.len() == 2 => text.push(char::from(byte)),
                            _ => return fault(*at + 2, "`\\x` needs two digits, 00 to 7f"),
                        }
                        *at += 2;
                    }
                    Some('u') => {
                        let rest = line.get(*at + 2..).unwrap_or_default();
                        let length =
                            rest.iter().take(LONGEST_CODE).take_while(|c| **c != '}').count();
                        let digits: String = rest[..length].iter().collect();
                        let code = digits.strip_prefix('{');
                        let c = code.and_then(|code| u32::from_str_radix(code, 16).ok());
                        match c.and_then(char::from_u32) {
                            Some(c) if rest.get(length) == Some(&'}') => text.push(c),
                            _ => {
                                return fault(*at + 2, "`\\u` needs a character as in `\\u{2028}`");
                            }
                        }
                        *at += length + 1;
                    }
                    _ => return fault(*at + 1, "after `\\` comes `\"`, `\\`, `x` or `u`"),
                }
                *at += 2;
            }
            Some(c) => {
                text.push(*c);
                *at += 1;
            }
        }
    }
}
