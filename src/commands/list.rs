//! `rlat list [-v] [GLOB]`: what can be traced.

use std::fmt::Write as _;

use super::output::write_listing;
use crate::cli::ListArgs;
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::escape::escape;
use crate::tracefs::{Tracefs, TracepointName, TracepointPattern, near_names};

/// How much of a glob is repeated in a message.
const SHOWN_CHARACTERS: usize = 80;
/// Where the offsets stand, if a declaration leaves room.
const DECLARATION_COLUMNS: usize = 32;

/// Prints the tracepoints that match, and with `-v` their arguments.
pub(super) fn list(args: &ListArgs) -> Result<()> {
    let pattern = args.glob.as_deref().unwrap_or("*");
    if pattern.is_empty() {
        return Err(empty_pattern());
    }
    let tracefs = Tracefs::open(args.tracefs.as_deref())?;
    let all = tracefs.tracepoints()?;
    let wanted = TracepointPattern::parse(pattern);
    let mut text = String::new();
    for tracepoint in all.iter().filter(|tracepoint| wanted.matches(tracepoint)) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "tracepoint:{}", escape(tracepoint.to_string().as_bytes()));
        if args.verbose {
            push_arguments(&mut text, &tracefs, tracepoint);
        }
    }
    if text.is_empty() {
        return Err(no_match(pattern, &all));
    }
    write_listing(&text)
}

/// A line for each argument, as `bpftrace -lv` shows it, then where it is in the record.
fn push_arguments(text: &mut String, tracefs: &Tracefs, tracepoint: &TracepointName) {
    match tracefs.format(&tracepoint.category, &tracepoint.name) {
        Ok(format) => {
            for field in format.arguments() {
                let declaration = escape(field.declaration.as_bytes());
                let _ = writeln!(
                    text,
                    "    {declaration:<DECLARATION_COLUMNS$} offset {}, size {}",
                    field.offset, field.size
                );
            }
            if format.arguments().next().is_none() {
                text.push_str("    (no arguments)\n");
            }
        }
        Err(error) => {
            let _ =
                writeln!(text, "    (not known: {})", escape(error.cause.to_string().as_bytes()));
        }
    }
}

fn empty_pattern() -> Error {
    Error {
        kind: Kind::Usage,
        step: Step::Arguments,
        object: "the GLOB".to_owned(),
        cause: Cause::Text("it is empty, and no tracepoint has an empty name".to_owned()),
        next: "leave it out to list all tracepoints".to_owned(),
    }
}

fn no_match(pattern: &str, all: &[TracepointName]) -> Error {
    let shown: String = pattern.chars().take(SHOWN_CHARACTERS).collect();
    let cut = if shown.len() < pattern.len() { "..." } else { "" };
    let near = near_names(pattern, all);
    let near = if near.is_empty() { String::new() } else { format!("; near: {}", near.join(", ")) };
    Error {
        kind: Kind::Unsupported,
        step: Step::List,
        object: format!("tracepoint {}{cut}", escape(shown.as_bytes())),
        cause: Cause::Text(format!("there is none here{}", escape(near.as_bytes()))),
        next: "`rlat list` lists all of them; a GLOB such as 'sys_enter_*' lists some".to_owned(),
    }
}
