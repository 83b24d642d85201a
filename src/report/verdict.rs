//! The verifier's verdict on a program, with the log beside the source.

use std::fmt::Write as _;

use crate::loader::Verdict;
use crate::verifier::{Fault, Finding, Known, Passed, Statistics, VerifierError};

/// What the verdict is on.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The program's name.
    pub name: &'a str,
    /// Its section.
    pub section: &'a str,
    /// The name of its type.
    pub kind: &'a str,
}

/// The verdict as text. The whole log is in it if it is wanted; else, where there is more, `rest` says how
/// to see it.
pub fn verdict(subject: Subject<'_>, verdict: &Verdict, whole_log: bool, rest: &str) -> String {
    let Subject { name, section, kind } = subject;
    let mut text = String::new();
    let mut line = |content: &str| {
        text.push_str(content);
        text.push('\n');
    };
    let of_type = format!("{name} ({section}, type {kind})");
    match verdict {
        Verdict::Accepted { log, statistics } => {
            line(&format!("{of_type}: accepted"));
            if whole_log {
                log.lines().for_each(line);
            } else if let Some(statistics) = statistics {
                line(&format!("  {statistics}"));
            }
        }
        Verdict::Refused(error) => {
            line(&format!("{of_type}: refused, {}", error.errno));
            if whole_log {
                error.log.lines().for_each(&mut line);
                line("");
            }
            refusal(error, &mut line);
            if !whole_log {
                line(&format!("  {rest}"));
            }
        }
    }
    text
}

fn refusal(error: &VerifierError, line: &mut impl FnMut(&str)) {
    line(&format!("  the verifier says: {}", error.reason));
    error.details.iter().for_each(|detail| line(&format!("                     {detail}")));
    line("");
    if let Some(fault) = &error.fault {
        let lines =
            fault.line.is_some() || error.before.iter().any(|passed| passed.at.line.is_some());
        line(if lines { "    line  slot" } else { "    slot" });
        for Passed { at, changed } in &error.before {
            line(&instruction(' ', at, changed, lines));
        }
        line(&instruction('>', fault, "", lines));
        line("");
    }
    if !error.known.is_empty() {
        let known: Vec<String> = error.known.iter().map(Known::to_string).collect();
        line(&format!("  before it: {}", known.join(", ")));
    }
    match &error.finding {
        Some(Finding { name, wrong, mend }) => {
            line(&format!("  {name}: {wrong}"));
            line(&format!("  what usually mends it: {mend}"));
        }
        None => line("  what that means is not known here"),
    }
    for text in [&error.explanation, &error.suggestion].into_iter().flatten() {
        line(&format!("  the verifier adds: {text}"));
    }
    if let Some(statistics) = error.statistics.as_ref().map(Statistics::to_string) {
        line(&format!("  {statistics}"));
    }
}

/// `  >    9     6  r0 = *(u64 *)(r0 + 0)`, with what it changed and what its author says.
fn instruction(mark: char, at: &Fault, changed: &str, lines: bool) -> String {
    let mut text = format!("  {mark} ");
    // Writing to a String cannot fail.
    if lines {
        let number = at.line.map_or(String::new(), |line| line.to_string());
        let _ = write!(text, "{number:>4}  ");
    }
    let _ = write!(text, "{:>4}  {:<36}", at.slot, at.text);
    if !changed.is_empty() {
        let _ = write!(text, "  {changed}");
    }
    if let Some(comment) = &at.comment {
        let _ = write!(text, "  ; {comment}");
    }
    text.truncate(text.trim_end().len());
    text
}
