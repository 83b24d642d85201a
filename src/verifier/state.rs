//! What the verifier knows of registers and stack at one place of the path.
//!
//! **Terms.** The kernel prints `R0=scalar(...)`; older ones add marks to the name (`R0_w`: written since
//! the last state that was kept), and call a number `inv`. `fp-8` are the 8 bytes that end 8 bytes below
//! the frame pointer. What is not listed was never written on this path.

use std::collections::BTreeMap;
use std::fmt;

use super::line::{LineKind, LogLine};

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A register, 0 to 10.
    Register(u8),
    /// Eight bytes of the stack, by the distance of their beginning below the frame pointer, in bytes.
    Stack(u32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(number) => write!(f, "r{number}"),
            Self::Stack(below) => write!(f, "fp-{below}"),
        }
    }
}

/// Values by their place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    values: BTreeMap<Place, String>,
    /// Whether all that has a value is known here, so that what is missing has none.
    complete: bool,
}

impl State {
    /// The state before the line with that index, from all lines before it.
    ///
    /// ```
    /// use rlat::verifier::{LogLine, Place, State};
    ///
    /// let log = "0: R1=ctx() R10=fp0\n0: (b7) r2 = 7      ; R2=7\n1: (95) exit";
    /// let lines: Vec<LogLine> = log.lines().map(LogLine::read).collect();
    /// let state = State::before(&lines, 2);
    /// assert_eq!(state.get(Place::Register(2)), Some("7"));
    /// assert!(state.is_missing(Place::Register(0)));
    /// ```
    pub fn before(lines: &[LogLine<'_>], at: usize) -> Self {
        let mut state = Self::default();
        // Before Linux 5.17, changes are not told, so that a state is out of date after one instruction.
        let tells_changes = lines.iter().any(|line| match line.kind {
            LineKind::Instruction { changed, .. } => !parse(changed).is_empty(),
            _ => false,
        });
        let begins_whole = lines
            .iter()
            .find(|line| matches!(line.kind, LineKind::State(_) | LineKind::Instruction { .. }))
            .is_some_and(|line| matches!(line.kind, LineKind::State(_)));
        for line in lines.iter().take(at) {
            match line.kind {
                LineKind::State(text) => state.replace(text),
                LineKind::Instruction { then, .. } if !then.is_empty() => state.replace(then),
                LineKind::Instruction { changed, .. } => {
                    if tells_changes || begins_whole {
                        if line.text.contains("(85) call ") {
                            state.forget_arguments();
                        }
                        state.change(changed);
                    } else {
                        state = Self::default();
                    }
                }
                _ => {}
            }
        }
        state
    }

    /// What is in a place.
    pub fn get(&self, place: Place) -> Option<&str> {
        self.values.get(&place).map(String::as_str)
    }

    /// Whether it is known that nothing was ever written there.
    pub fn is_missing(&self, place: Place) -> bool {
        self.complete && !self.values.contains_key(&place)
    }

    /// All values, registers first.
    pub fn values(&self) -> impl Iterator<Item = (Place, &str)> {
        self.values.iter().map(|(place, value)| (*place, value.as_str()))
    }

    fn replace(&mut self, text: &str) {
        *self = Self { values: BTreeMap::new(), complete: true };
        self.change(text);
    }

    fn change(&mut self, text: &str) {
        for (place, value) in parse(text) {
            self.values.insert(place, value.to_owned());
        }
    }

    /// A call leaves nothing in r1 to r5.
    fn forget_arguments(&mut self) {
        self.values.retain(|place, _| !matches!(place, Place::Register(1..=5)));
    }
}

/// The values in a text such as `R0_w=inv(id=0, off=0) fp-8=mmmm????`. What is none of them is left out.
pub(super) fn parse(text: &str) -> Vec<(Place, &str)> {
    let mut values = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    let ends = text.char_indices().chain([(text.len(), ' ')]);
    for (at, c) in ends {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 || at == text.len() => {
                values.extend(value(&text[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    values
}

fn value(token: &str) -> Option<(Place, &str)> {
    let (name, value) = token.trim().split_once('=')?;
    let name = name.split('_').next()?;
    let place = if let Some(number) = name.strip_prefix('R') {
        Place::Register(number.parse().ok().filter(|number| *number <= 10)?)
    } else {
        Place::Stack(name.strip_prefix("fp-")?.parse().ok()?)
    };
    Some((place, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_brackets_part_nothing() {
        let text = "R0_w=inv(id=0,var_off=(0x0; 0xff)) R10=fp0 fp-8_w=mmmm???? refs=2";
        let expected = [
            (Place::Register(0), "inv(id=0,var_off=(0x0; 0xff))"),
            (Place::Register(10), "fp0"),
            (Place::Stack(8), "mmmm????"),
        ];
        assert_eq!(parse(text), expected);
        assert_eq!(parse("R1=ctx("), [(Place::Register(1), "ctx(")]);
        assert_eq!(parse("R11=1 R=2 fp8=1"), []);
    }

    #[test]
    fn a_call_takes_the_arguments_away() {
        let log = "0: R1=ctx() R10=fp0\n0: (85) call bpf_ktime_get_ns#5    ; R0=scalar()\n1: (bf) r0 = r1";
        let lines: Vec<_> = log.lines().map(LogLine::read).collect();
        let state = State::before(&lines, 2);
        assert!(state.is_missing(Place::Register(1)));
        assert_eq!(state.get(Place::Register(0)), Some("scalar()"));
    }

    #[test]
    fn linux_5_10_tells_a_state_only_where_a_path_begins() {
        let log = "0: (79) r1 = *(u64 *)(r1 +8)\n\nfrom 1 to 4: R1_w=inv3 R10=fp0\n4: (b7) r2 = 0\n5: (95) exit";
        let lines: Vec<_> = log.lines().map(LogLine::read).collect();
        assert_eq!(State::before(&lines, 3).get(Place::Register(1)), Some("inv3"));
        let later = State::before(&lines, 4);
        assert_eq!((later.values().count(), later.is_missing(Place::Register(0))), (0, false));
    }
}
