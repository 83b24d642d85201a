//! rlat as a user runs it.

use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;

use super::lines::Lines;
use super::report::Report;
use super::{send, wait_for};

/// The program.
pub(crate) const RLAT: &str = env!("CARGO_BIN_EXE_rlat");

/// A command that runs rlat with these arguments.
pub(crate) fn rlat<const N: usize>(args: [&str; N]) -> Command {
    let mut command = Command::new(RLAT);
    command.args(args);
    command
}

/// A running rlat. It is killed when this is dropped.
pub(crate) struct Rlat {
    child: Child,
    stdout: Option<Lines>,
    stderr: Lines,
}

/// What is left of it.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code, or `None` when a signal killed it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Rlat {
    /// Measures the process until it is told to end, or the process does.
    pub(crate) fn measure(pid: u32) -> Self {
        Self::with_open_window(&mut rlat(["-d", "0", &pid.to_string()]))
    }

    /// The same for one descriptor of the process.
    pub(crate) fn measure_descriptor(pid: u32, fd: u32) -> Self {
        Self::with_open_window(&mut rlat(["-d", "0", &pid.to_string(), &fd.to_string()]))
    }

    /// Starts a measurement with these arguments until it is interrupted, and returns when its window is
    /// open.
    pub(crate) fn measure_with(args: &[&str]) -> Self {
        Self::with_open_window(rlat(["-d", "0"]).args(args))
    }

    /// Runs a command that becomes rlat, and returns when its window is open.
    pub(crate) fn with_open_window(command: &mut Command) -> Self {
        let mut rlat = Self::spawn(command.stdout(Stdio::piped()));
        rlat.wait_for_window();
        rlat
    }

    /// Runs a command that becomes rlat.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        Self {
            stdout: child.stdout.take().map(Lines::of),
            stderr: Lines::of(child.stderr.take().unwrap()),
            child,
        }
    }

    pub(crate) fn wait_for_window(&mut self) {
        self.said("ready");
    }

    /// Waits until it says something on standard error that begins so, and returns how it goes on.
    pub(crate) fn said(&mut self, beginning: &str) -> String {
        self.stderr.take(beginning)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&self, signal: Signal) {
        send(signal, self.child.id());
    }

    /// Ends the measurement as Ctrl-C does, and reads the result.
    pub(crate) fn interrupt(self) -> Report {
        self.send(Signal::SIGINT);
        self.result()
    }

    /// The result, when it has ended by itself.
    pub(crate) fn result(self) -> Report {
        let ended = self.ended();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        Report::of(&ended.stdout)
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> Ended {
        let status = wait_for(&mut self.child).unwrap();
        let stderr = std::mem::replace(&mut self.stderr, Lines::of(std::io::empty()));
        Ended {
            code: status.code(),
            stdout: self.stdout.take().map_or_else(String::new, Lines::rest),
            stderr: stderr.rest(),
        }
    }
}

impl Drop for Rlat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
