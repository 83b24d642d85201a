//! One line on the terminal while the measurement runs.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::report::numbers::grouped;

/// How often the line is drawn anew.
pub(super) const INTERVAL: Duration = Duration::from_millis(500);

/// The line, and when the time is over. It goes away when dropped.
pub(super) struct Progress {
    deadline: Option<Instant>,
}

impl Progress {
    /// A line if standard error is a terminal, else nothing.
    pub(super) fn on_terminal(deadline: Option<Instant>) -> Option<Self> {
        // Not `then_some`: a line that is made and dropped at once would still clear the terminal.
        io::stderr().is_terminal().then(|| Self { deadline })
    }

    pub(super) fn show(&self, calls: u64) {
        draw(&line(self.deadline, calls));
    }

    /// Makes room for other text, until the line is shown again.
    pub(super) fn hide() {
        draw("");
    }
}

/// The time left, and how many calls there were.
pub(super) fn line(deadline: Option<Instant>, calls: u64) -> String {
    let calls = grouped(calls);
    match deadline {
        Some(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now());
            format!("{} s left, {calls} calls", left.as_millis().div_ceil(1000))
        }
        None => format!("{calls} calls, Ctrl-C ends it"),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        Self::hide();
    }
}

/// Replaces the line. A terminal that is gone is no reason to end the measurement.
pub(super) fn draw(text: &str) {
    const CLEAR_LINE: &str = "\r\x1b[K";
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{CLEAR_LINE}{text}").and_then(|()| stderr.flush());
}
