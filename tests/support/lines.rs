//! The lines that a process writes, taken off its hands at once, so that it never waits for us.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use super::PATIENCE;

pub(crate) struct Lines {
    from: Receiver<String>,
    /// Those that came while another one was waited for.
    waiting: Vec<String>,
}

impl Lines {
    pub(crate) fn of(stream: impl Read + Send + 'static) -> Self {
        let (to, from) = channel();
        thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while stream.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                if to.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Self { from, waiting: Vec::new() }
    }

    /// Waits for a line that begins so, and takes it out; returns what follows in it.
    pub(crate) fn take(&mut self, beginning: &str) -> String {
        let is_it = |line: &String| line.starts_with(beginning);
        let line = if let Some(at) = self.waiting.iter().position(is_it) {
            self.waiting.remove(at)
        } else {
            loop {
                match self.from.recv_timeout(PATIENCE) {
                    Ok(line) if is_it(&line) => break line,
                    Ok(line) => self.waiting.push(line),
                    Err(error) => panic!(
                        "no line {beginning:?} ({error}) among these:
{}",
                        self.waiting.concat()
                    ),
                }
            }
        };
        line[beginning.len()..].trim_end().to_owned()
    }

    /// All others, up to the end of the stream.
    pub(crate) fn rest(mut self) -> String {
        loop {
            match self.from.recv_timeout(PATIENCE) {
                Ok(line) => self.waiting.push(line),
                Err(RecvTimeoutError::Disconnected) => return self.waiting.concat(),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("there is no end to this:\n{}", self.waiting.concat())
                }
            }
        }
    }
}
