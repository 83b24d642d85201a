//! Going through the pieces of a line, and saying what was expected where something else is.

use std::ops::Range;

use super::error::beginning;
use super::lexer::{Fault, Piece, Token};
use crate::insn::instruction::Width;
use crate::insn::register::Reg;

/// The rest of a line.
pub(super) struct Cursor<'a> {
    pieces: &'a [Piece],
    /// How many characters the line has: where its end is.
    end: usize,
    next: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(pieces: &'a [Piece], end: usize) -> Self {
        Self { pieces, end, next: 0 }
    }

    pub(super) fn peek(&self) -> Option<&'a Token> {
        self.pieces.get(self.next).map(|piece| &piece.token)
    }

    pub(super) fn peek_second(&self) -> Option<&'a Token> {
        self.pieces.get(self.next + 1).map(|piece| &piece.token)
    }

    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// Where the next piece is, or the end of the line.
    pub(super) fn place(&self) -> Range<usize> {
        self.pieces.get(self.next).map_or(self.end..self.end + 1, |piece| piece.at.clone())
    }

    /// From a place to the piece that was taken last.
    pub(super) fn since(&self, start: &Range<usize>) -> Range<usize> {
        let last = self.next.checked_sub(1).and_then(|last| self.pieces.get(last));
        start.start..last.map_or(start.end, |piece| piece.at.end).max(start.end)
    }

    /// The fault that something else was expected than what comes next.
    pub(super) fn expected<T>(&self, what: &str) -> Result<T, Fault> {
        let found = match self.peek() {
            None => "the end of the line".to_owned(),
            Some(Token::Word(word)) => format!("`{}`", beginning(word)),
            Some(Token::Quoted(text)) => format!("{:?}", beginning(text)),
            Some(Token::Number(number)) => format!("`{number}`"),
            Some(Token::Sign(sign)) => format!("`{sign}`"),
        };
        Err((self.place(), format!("expected {what}, found {found}")))
    }

    pub(super) fn end(&self) -> Result<(), Fault> {
        if self.peek().is_none() { Ok(()) } else { self.expected("the end of the line") }
    }

    /// Takes the sign if it comes next.
    pub(super) fn takes(&mut self, sign: &str) -> bool {
        let is_it = self.is_next(sign);
        self.next += usize::from(is_it);
        is_it
    }

    /// Takes the word if it comes next.
    pub(super) fn takes_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Word(next)) if next == word);
        self.next += usize::from(is_it);
        is_it
    }

    pub(super) fn is_next(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(next)) if *next == sign)
    }

    pub(super) fn sign(&mut self, sign: &str) -> Result<(), Fault> {
        if self.takes(sign) { Ok(()) } else { self.expected(&format!("`{sign}`")) }
    }

    pub(super) fn keyword(&mut self, word: &str) -> Result<(), Fault> {
        if self.takes_word(word) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }

    /// A word, or a text in quotes.
    pub(super) fn name(&mut self, what: &str) -> Result<String, Fault> {
        match self.peek() {
            Some(Token::Word(name) | Token::Quoted(name)) if !name.is_empty() => {
                self.next += 1;
                Ok(name.clone())
            }
            _ => self.expected(what),
        }
    }

    /// A number with or without a sign, which must be within the range.
    pub(super) fn number(&mut self, range: Range<i128>, what: &str) -> Result<i128, Fault> {
        let start = self.place();
        let before = self.next;
        let negative = if self.takes("-") {
            true
        } else {
            self.takes("+");
            false
        };
        let Some(Token::Number(number)) = self.peek() else {
            self.next = before;
            return self.expected(what);
        };
        self.next += 1;
        let number = if negative { -i128::from(*number) } else { i128::from(*number) };
        if range.contains(&number) {
            return Ok(number);
        }
        let (least, most) = (range.start, range.end - 1);
        Err((self.since(&start), format!("expected {what}, {least} to {most}, found {number}")))
    }

    /// The fault that a register was expected.
    pub(super) fn expected_register<T>(&self) -> Result<T, Fault> {
        self.expected(REGISTER)
    }

    /// A register by either name.
    pub(super) fn register(&mut self) -> Result<(Reg, Width), Fault> {
        match self.peek() {
            Some(Token::Word(word)) => match register(word) {
                Some(register) => {
                    self.next += 1;
                    Ok(register)
                }
                None => self.expected(REGISTER),
            },
            _ => self.expected(REGISTER),
        }
    }

    /// A register by the name of that width.
    pub(super) fn register_of(&mut self, width: Width) -> Result<Reg, Fault> {
        let what = match width {
            Width::W64 => "a whole register, r0 to r10",
            Width::W32 => "the low half of a register, w0 to w10",
        };
        match self.peek() {
            Some(Token::Word(word)) => match register(word) {
                Some((reg, found)) if found == width => {
                    self.next += 1;
                    Ok(reg)
                }
                _ => self.expected(what),
            },
            _ => self.expected(what),
        }
    }

    pub(super) fn pointer_register(&mut self) -> Result<Reg, Fault> {
        self.register_of(Width::W64)
    }
}

const REGISTER: &str = "a register, r0 to r10 or w0 to w10";

/// The register of that name.
pub(super) fn register(word: &str) -> Option<(Reg, Width)> {
    let (width, number) = match word.split_at_checked(1)? {
        ("r", number) => (Width::W64, number),
        ("w", number) => (Width::W32, number),
        _ => return None,
    };
    let canonical = number == "0" || !number.starts_with('0');
    let number = number.parse().ok().filter(|_| canonical)?;
    Some((Reg::from_number(number)?, width))
}
