//! A message of the verifier in words, and what usually mends it.

use super::pattern::{Captured, fill, matches};
use super::rules::{RULES, When};
use super::state::Place;
use crate::insn::Insn;

/// What a message means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of mistake, as chapter 7 of the book heads it.
    pub name: &'static str,
    /// What is wrong, a sentence without a full stop.
    pub wrong: String,
    /// What usually mends it, likewise.
    pub mend: String,
}

/// What a message alone does not tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Circumstances<'a> {
    /// The instruction that it is about.
    pub(super) insn: Option<&'a Insn>,
    /// Whether the path to it leads through a call.
    pub(super) after_call: bool,
    /// The register of the message, where it was a pointer when it was last shown.
    pub(super) was_pointer: Option<Place>,
}

impl Finding {
    /// The names of all kinds of mistakes that are known here, each once.
    pub fn names() -> Vec<&'static str> {
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        names.dedup();
        names
    }

    /// Looks the messages up, the most telling first.
    pub(super) fn of(messages: &[&str], circumstances: Circumstances<'_>) -> Option<Self> {
        RULES.iter().find_map(|rule| {
            let captured = messages.iter().find_map(|message| matches(rule.message, message))?;
            rule.when.holds(&captured, circumstances).then(|| Self {
                name: rule.name,
                wrong: fill(rule.wrong, &captured),
                mend: fill(rule.mend, &captured),
            })
        })
    }
}

impl When {
    fn holds(self, captured: &Captured<'_>, circumstances: Circumstances<'_>) -> bool {
        let number = |wanted| -> Option<i64> {
            let (_, text) = captured.iter().find(|(name, _)| *name == wanted)?;
            text.parse().ok()
        };
        let is = |check: fn(&Insn) -> bool| circumstances.insn.is_some_and(check);
        match self {
            Self::Always => true,
            Self::AtExit => is(|insn| matches!(insn, Insn::Exit)),
            Self::AtCall => is(|insn| matches!(insn, Insn::Call { .. } | Insn::CallKernel { .. })),
            Self::AtLocalCall => is(|insn| matches!(insn, Insn::CallLocal { .. })),
            Self::AtStore => is(|insn| matches!(insn, Insn::Store { .. } | Insn::Atomic { .. })),
            Self::WithinStack => number('o')
                .zip(number('n'))
                .is_some_and(|(offset, bytes)| offset >= -512 && offset.saturating_add(bytes) <= 0),
            Self::WasPointer => circumstances.was_pointer.is_some(),
            Self::ArgumentAfterCall => {
                circumstances.after_call
                    && matches!(number('r'), Some(1..=5))
                    && !Self::AtCall.holds(captured, circumstances)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::Rule;
    use super::*;

    #[test]
    fn every_rule_is_found_by_a_message_and_leaves_no_brace_in_its_words() {
        for Rule { message, when, wrong, mend, .. } in &RULES {
            let places = |text: &str| -> Vec<char> {
                text.split('{').skip(1).filter_map(|piece| piece.chars().next()).collect()
            };
            let known = places(message);
            for name in places(wrong).into_iter().chain(places(mend)) {
                assert!(known.contains(&name), "{{{name}}} is not in {message}");
            }
            if *when == When::Always {
                assert!(Finding::of(&[message], Circumstances::default()).is_some(), "{message}");
            }
            assert!(!wrong.ends_with('.') && !mend.ends_with('.'), "{message}");
        }
    }

    #[test]
    fn the_instruction_tells_mistakes_with_one_message_apart() {
        let of = |insn, after_call| {
            let insn = Some(&insn);
            let circumstances = Circumstances { insn, after_call, ..Circumstances::default() };
            Finding::of(&["R0 !read_ok"], circumstances).unwrap().name
        };
        assert_eq!(of(Insn::Exit, false), "no return value");
        assert_eq!(of(Insn::Jump { off: 0 }, true), "uninitialised register");
        let insn = Some(&Insn::Jump { off: 0 });
        let lost = Circumstances { insn, after_call: true, ..Circumstances::default() };
        assert_eq!(Finding::of(&["R1 !read_ok"], lost).unwrap().name, "register lost in a call");
    }
}
