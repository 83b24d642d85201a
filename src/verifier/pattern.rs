//! Messages as patterns: fixed words, and places that differ.
//!
//! In `R{r} invalid mem access '{t}'`, each letter in braces stands for whatever is there, up to the next
//! fixed word; the last one takes the rest.

/// What stood in each place.
pub(super) type Captured<'a> = Vec<(char, &'a str)>;

/// Compares a message with a pattern.
pub(super) fn matches<'a>(pattern: &str, message: &'a str) -> Option<Captured<'a>> {
    let mut pieces = pattern.split('{');
    let mut rest = message.strip_prefix(pieces.next()?)?;
    let mut captured = Vec::new();
    for piece in pieces {
        let (name, literal) = piece.split_once('}')?;
        let end = if literal.is_empty() { rest.len() } else { rest.find(literal)? };
        captured.extend(name.chars().next().map(|name| (name, &rest[..end])));
        rest = &rest[end + literal.len()..];
    }
    rest.is_empty().then_some(captured)
}

/// Puts what was captured into a sentence.
pub(super) fn fill(sentence: &str, captured: &Captured<'_>) -> String {
    let mut filled = sentence.to_owned();
    for (name, text) in captured {
        filled = filled.replace(&format!("{{{name}}}"), text);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_take_what_is_between_the_words() {
        let captured =
            matches("R{r} invalid mem access '{t}'", "R2 invalid mem access 'scalar'").unwrap();
        assert_eq!(captured, [('r', "2"), ('t', "scalar")]);
        assert_eq!(fill("r{r} is a {t}", &captured), "r2 is a scalar");
        assert_eq!(matches("insn {n}", "insn 7"), Some(vec![('n', "7")]));
        assert_eq!(matches("div by zero", "div by zero"), Some(Vec::new()));
        assert_eq!(matches("div by zero", "div by zero!"), None);
        assert_eq!(matches("R{r} !read_ok", "frame pointer"), None);
    }
}
