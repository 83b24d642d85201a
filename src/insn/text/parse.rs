//! From text to a module: line by line, and then the names.

use std::collections::BTreeSet;
use std::ops::Range;

use super::cursor::Cursor;
use super::directive;
use super::error::{TextError, beginning};
use super::lexer::{Fault, Token, split};
use super::operation::{Name, operation};
use super::resolve;
use crate::insn::instruction::Insn;
use crate::insn::module::{Module, Section};

/// The section and function of instructions before the first `.section`.
const UNNAMED: &str = ".text";

/// A module, and where in the text its instructions are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// What the text says.
    pub module: Module,
    /// For each section, the line of each instruction; the first line of the text is 1.
    pub lines: Vec<Vec<u32>>,
}

/// Reads a text; see the [module's page](super) for what it may contain.
///
/// # Errors
/// The first place where something else was expected.
///
/// ```
/// use rlat::insn::Insn;
/// use rlat::insn::text::parse;
///
/// let parsed = parse(".section socket\n  if r1 == 0 goto out ; empty?\n  w1 += 1\nout:\n  exit")?;
/// let section = &parsed.module.sections[0];
/// assert_eq!(section.insns[0].to_string(), "if r1 == 0 goto +1");
/// assert_eq!(section.comments[&0], "empty?");
/// assert_eq!(section.insns[2], Insn::Exit);
/// assert_eq!(parsed.lines[0], [2, 3, 5]);
/// # Ok::<(), rlat::insn::text::TextError>(())
/// ```
pub fn parse(text: &str) -> Result<Parsed, TextError> {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        let chars: Vec<char> = line.chars().collect();
        reader
            .line(&chars, index + 1)
            .map_err(|(place, message)| error(line, index + 1, &place, message))?;
    }
    let located = |fault: resolve::Fault| {
        let line = text.lines().nth(fault.line - 1).unwrap_or_default();
        error(line, fault.line, &fault.at, fault.message)
    };
    reader.finish().map_err(located)
}

fn error(line: &str, number: usize, place: &Range<usize>, message: String) -> TextError {
    TextError {
        line: number,
        column: place.start + 1,
        width: place.len().max(1),
        message,
        text: line.to_owned(),
    }
}

/// A section in the making.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) section: Section,
    pub(super) lines: Vec<u32>,
    /// Instructions with a name in them, by index.
    pub(super) names: Vec<(usize, Name)>,
    label_names: BTreeSet<String>,
    /// Where each label stands: its line, and its place in it.
    pub(super) labels_at: Vec<(usize, Range<usize>)>,
    /// The same for functions; a function that was not named stands nowhere.
    pub(super) functions_at: Vec<(usize, Range<usize>)>,
}

#[derive(Default)]
struct Reader {
    module: Module,
    /// The names of maps, functions and sections that are there.
    maps: BTreeSet<String>,
    functions: BTreeSet<String>,
    sections: BTreeSet<String>,
    drafts: Vec<Draft>,
}

impl Reader {
    fn line(&mut self, line: &[char], number: usize) -> Result<(), Fault> {
        // Before the line is cut: a section's name is no word.
        let first = line.iter().take_while(|c| c.is_whitespace()).count();
        let directive: Vec<char> = ".section".chars().collect();
        if let Some(rest) = line[first..].strip_prefix(directive.as_slice())
            && rest.first().is_none_or(|c| c.is_whitespace() || *c == '"')
        {
            return self
                .section(directive::section(line, first + directive.len())?, first..line.len());
        }
        let (pieces, comment) = split(line, after_number_and_opcode(line))?;
        let end = pieces.last().map_or(0, |piece| piece.at.end);
        let mut cursor = Cursor::new(&pieces, end);
        self.labels(&mut cursor, number)?;
        let insn = match cursor.peek() {
            None => return Ok(()),
            Some(Token::Word(word)) if word.starts_with('.') => {
                let word = word.clone();
                match self.directive(&word, &mut cursor, number)? {
                    Some(insn) => insn,
                    None => return Ok(()),
                }
            }
            Some(_) => {
                let operation = operation(&mut cursor)?;
                let draft = self.draft();
                let index = draft.section.insns.len();
                draft.names.extend(operation.refers_to.map(|name| (index, name)));
                operation.insn
            }
        };
        let draft = self.draft();
        if let Some(comment) = comment {
            draft.section.comments.insert(draft.section.insns.len(), comment);
        }
        draft.section.insns.push(insn);
        draft.lines.push(number as u32);
        Ok(())
    }

    /// `NAME:`, any number of them.
    fn labels(&mut self, cursor: &mut Cursor<'_>, number: usize) -> Result<(), Fault> {
        while let (Some(Token::Word(name) | Token::Quoted(name)), Some(Token::Sign(":"))) =
            (cursor.peek(), cursor.peek_second())
        {
            let at = cursor.place();
            if name.is_empty() || name.contains('\0') {
                return cursor.expected("the name of a label");
            }
            let draft = self.draft();
            if !draft.label_names.insert(name.clone()) {
                return Err((at, format!("label {name} stands in this section twice")));
            }
            draft.section.labels.push((draft.section.insns.len(), name.clone()));
            draft.labels_at.push((number, at));
            cursor.advance();
            cursor.advance();
        }
        Ok(())
    }

    fn directive(
        &mut self,
        word: &str,
        cursor: &mut Cursor<'_>,
        number: usize,
    ) -> Result<Option<Insn>, Fault> {
        let at = cursor.place();
        cursor.advance();
        match word {
            ".insn" => return directive::slot(cursor).map(Some),
            ".license" => {
                let place = cursor.place();
                let license = match cursor.peek() {
                    Some(Token::Quoted(license)) if !license.contains('\0') => license.clone(),
                    _ => return cursor.expected("a license in quotes, such as \"GPL\""),
                };
                if self.module.license.replace(license).is_some() {
                    return Err((place, "the license is given twice".to_owned()));
                }
                cursor.advance();
                cursor.end()?;
            }
            ".map" => {
                let place = cursor.place();
                let map = directive::map(cursor)?;
                if map.name.contains('\0') {
                    return Err((place, "a name has no zeros".to_owned()));
                }
                if !self.maps.insert(map.name.clone()) {
                    return Err((place, format!("map {} is defined twice", map.name)));
                }
                self.module.maps.push(map);
            }
            ".extern" => {
                let place = cursor.place();
                let name = cursor.name("the name of something in the kernel")?;
                cursor.end()?;
                if name.contains('\0') {
                    return Err((place, "a name has no zeros".to_owned()));
                }
                if self.module.externs.contains(&name) {
                    return Err((place, format!("{name} is extern twice")));
                }
                self.module.externs.push(name);
            }
            ".func" => {
                let place = cursor.place();
                let name = cursor.name("the name of a function")?;
                cursor.end()?;
                if name.contains('\0') {
                    return Err((place, "a name has no zeros".to_owned()));
                }
                if !self.functions.insert(name.clone()) {
                    return Err((place, format!("function {name} is there twice")));
                }
                let draft = self.draft();
                let index = draft.section.insns.len();
                if let Some((last, other)) = draft.section.functions.last()
                    && *last == index
                {
                    return Err((
                        place,
                        format!("function {other} has no instruction before this"),
                    ));
                }
                draft.section.functions.push((index, name));
                draft.functions_at.push((number, place));
            }
            _ => {
                let known = ".section, .func, .map, .license, .extern or .insn";
                return Err((at, format!("expected {known}, found `{}`", beginning(word))));
            }
        }
        Ok(None)
    }

    fn section(&mut self, name: String, at: Range<usize>) -> Result<(), Fault> {
        if !self.sections.insert(name.clone()) {
            return Err((at, format!("section {name} is there twice")));
        }
        self.drafts
            .push(Draft { section: Section { name, ..Section::default() }, ..Draft::default() });
        Ok(())
    }

    /// The section that instructions go to.
    fn draft(&mut self) -> &mut Draft {
        if self.drafts.is_empty() {
            self.sections.insert(UNNAMED.to_owned());
            let section = Section { name: UNNAMED.to_owned(), ..Section::default() };
            self.drafts.push(Draft { section, ..Draft::default() });
        }
        let last = self.drafts.len() - 1;
        &mut self.drafts[last]
    }

    fn finish(self) -> Result<Parsed, resolve::Fault> {
        resolve::resolve(self.module, self.drafts)
    }
}

/// Where a line goes on behind `12:` and `(b7)`, which the verifier and llvm-objdump put before an
/// instruction.
fn after_number_and_opcode(line: &[char]) -> usize {
    let blanks = |from: usize| from + line[from..].iter().take_while(|c| c.is_whitespace()).count();
    let mut at = 0;
    let number = blanks(0);
    let digits = line[number..].iter().take_while(|c| c.is_ascii_digit()).count();
    if digits > 0 && line.get(number + digits) == Some(&':') {
        at = number + digits + 1;
    }
    let opcode = blanks(at);
    match line[opcode..] {
        ['(', a, b, ')', ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => opcode + 4,
        _ => at,
    }
}
