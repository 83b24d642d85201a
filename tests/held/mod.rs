//! An rlat that is attached, and held there until the test lets it open its window.
//!
//! `rlat -v` says when it is attached, and then writes more than a small pipe holds: as long as nobody
//! reads on, it waits.

#![allow(dead_code)] // Each file of tests needs a part of it.

use std::io::{BufRead as _, BufReader, PipeReader, pipe};
use std::process::{Child, Command, Stdio};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;

use crate::support::{Lines, Report, send, wait_for};

pub(crate) struct Held {
    child: Child,
    /// Reads no byte further than it has to, until it is released.
    stderr: Option<BufReader<PipeReader>>,
    lines: Option<Lines>,
}

impl Held {
    /// Runs a command that becomes `rlat -v`, and returns when its programs are attached.
    pub(crate) fn start(command: &mut Command) -> Self {
        let (reader, writer) = pipe().unwrap();
        fcntl(&reader, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(writer).spawn();
        command.stderr(Stdio::null()); // or it would go on holding its end of the pipe
        let mut stderr = BufReader::with_capacity(1, reader);
        let mut line = String::new();
        while !line.starts_with("attached ") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it has ended before");
        }
        Self { child: child.unwrap(), stderr: Some(stderr), lines: None }
    }

    /// Lets it go on, and returns when its window is open.
    pub(crate) fn release(&mut self) {
        if let Some(stderr) = self.stderr.take() {
            let mut lines = Lines::of(stderr);
            lines.take("the window opened");
            self.lines = Some(lines);
        }
    }

    /// Ends it as Ctrl-C does, and reads the result.
    pub(crate) fn interrupt(self) -> Report {
        send(Signal::SIGINT, self.child.id());
        self.result()
    }

    /// The result, when it has ended by itself.
    pub(crate) fn result(mut self) -> Report {
        let stdout = Lines::of(self.child.stdout.take().unwrap()).rest();
        assert!(wait_for(&mut self.child).unwrap().success());
        Report::of(&stdout)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
