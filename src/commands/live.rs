//! The histogram as it grows, redrawn in place on a terminal.
//!
//! What was drawn is erased by moving the cursor up as many rows as it takes, so that the text above
//! stays, and the result can be read and scrolled to at the end. Terms: a *line* is a line of the text;
//! a *row* is one of the screen, and a long line takes several.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use terminal_size::{Height, Width, terminal_size_of};

use super::progress;
use crate::latency::Snapshot;
use crate::report::{View, text};

/// Rows and columns of a terminal that does not tell.
const USUAL_SIZE: Size = Size { columns: 80, rows: 24 };

/// Whoever draws so much later than planned was stopped in between, and the shell has written since.
const STOPPED: Duration = Duration::from_secs(1);

/// What is drawn on the terminal, and when it is drawn anew.
pub(super) struct Live {
    view: View,
    deadline: Option<Instant>,
    every: Duration,
    next: Instant,
    /// The length in columns of each line that is on the screen.
    drawn: Vec<usize>,
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug)]
struct Size {
    columns: usize,
    rows: usize,
}

/// Whether standard output is a terminal on which the cursor can be moved.
pub(super) fn is_possible() -> bool {
    let term = std::env::var_os("TERM").unwrap_or_default();
    io::stdout().is_terminal() && !term.is_empty() && term != "dumb"
}

impl Live {
    pub(super) fn new(
        every: Duration,
        view: View,
        opened: Instant,
        deadline: Option<Instant>,
    ) -> Self {
        Self { view, deadline, every, next: opened, drawn: Vec::new() }
    }

    /// When it is to be drawn: at once, and then in intervals.
    pub(super) fn due(&self) -> Instant {
        self.next
    }

    /// What the terminal needs to see so that it shows what the histograms hold.
    pub(super) fn draw(&mut self, now: &Snapshot) -> String {
        let late = self.next.elapsed();
        if late > STOPPED {
            self.drawn.clear();
        }
        self.next = Instant::now() + self.every;
        let size = size();
        let calls = now.calls.iter().map(|call| call.histogram.count()).sum();
        let lines =
            fit(&text::histograms(now, self.view), &progress::line(self.deadline, calls), size);
        let text = format!("{}{}\n", self.erase(size), lines.join("\n"));
        self.drawn = lines.iter().map(|line| line.chars().count()).collect();
        text
    }

    /// What the terminal needs to see so that the result replaces the drawing.
    pub(super) fn finish(&self) -> String {
        self.erase(size())
    }

    fn erase(&self, size: Size) -> String {
        let rows = rows(&self.drawn, size);
        if rows == 0 {
            return String::new();
        }
        // To the first column, up, and clear to the end of the screen.
        format!("\r\x1b[{rows}A\x1b[J")
    }
}

fn size() -> Size {
    match terminal_size_of(io::stdout()) {
        Some((Width(columns), Height(rows))) if columns > 0 && rows > 0 => {
            Size { columns: columns.into(), rows: rows.into() }
        }
        _ => USUAL_SIZE,
    }
}

/// How many rows lines of these lengths take now. A terminal that has become narrower since has broken
/// them anew; the cursor cannot go above its first row in any case.
fn rows(lengths: &[usize], size: Size) -> usize {
    lengths.iter().map(|length| length.div_ceil(size.columns).max(1)).sum()
}

/// The lines that fit, with the status as the last one, and the last row left for the cursor.
fn fit(text: &str, status: &str, size: Size) -> Vec<String> {
    let all: Vec<&str> = text.lines().collect();
    let room = size.rows.saturating_sub(2);
    let mut lines: Vec<String> = Vec::new();
    if all.len() <= room {
        lines.extend(all.iter().map(|line| (*line).to_owned()));
    } else {
        // The slowest calls are at the bottom, and are what people look for; the count is at the top.
        let (head, tail) = (2.min(room), room.saturating_sub(3));
        let left_out = all.len() - head - tail;
        lines.extend(all[..head].iter().map(|line| (*line).to_owned()));
        if room > head {
            lines.push(format!("... {left_out} lines that come at the end"));
        }
        lines.extend(all[all.len() - tail..].iter().map(|line| (*line).to_owned()));
    }
    lines.push(status.to_owned());
    lines.iter().map(|line| line.chars().take(size.columns).collect()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_narrower_terminal_has_more_rows() {
        let lengths = [79, 0, 12];
        assert_eq!(rows(&lengths, Size { columns: 80, rows: 24 }), 3);
        assert_eq!(rows(&lengths, Size { columns: 40, rows: 24 }), 4);
        assert_eq!(rows(&lengths, Size { columns: 10, rows: 24 }), 8 + 1 + 2);
        assert_eq!(rows(&[], USUAL_SIZE), 0);
    }

    #[test]
    fn what_does_not_fit_is_left_out_of_the_middle() {
        let text = "1\n2\n3\n4\n5\n6\n7\n8\n";
        assert_eq!(fit(text, "end", Size { columns: 9, rows: 10 }).len(), 9);
        let lines = fit(text, "1 s left, 8 calls", Size { columns: 9, rows: 8 });
        assert_eq!(lines, ["1", "2", "... 3 lin", "6", "7", "8", "1 s left,"]);
    }

    proptest! {
        #[test]
        fn it_always_fits(lines in 0..50_usize, columns in 1..200_usize, rows in 2..60_usize) {
            let text = "a line of some length\n".repeat(lines);
            let fitted = fit(&text, "status", Size { columns, rows });
            prop_assert!(fitted.len() < rows);
            prop_assert!(fitted.iter().all(|line| line.len() <= columns));
            prop_assert!(fitted.last().unwrap().starts_with('s'));
        }
    }
}
