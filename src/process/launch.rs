//! A command that is measured from its first system call on.
//!
//! The trouble is to be there in time: a process that is started and then looked for has already begun.
//! So the command starts in two steps. rlat starts *itself* once more, as `rlat start-stopped`, which
//! stops before it does anything else. When everything is attached to it, rlat lets it go on, and it
//! becomes the command by execve(2), which keeps the id of the process.
//!
//! ```text
//! rlat                                    rlat start-stopped
//!   Launch::stopped: fork, execve   ->      set_pdeathsig(SIGKILL): do not outlive rlat
//!   waitid                          <-      raise(SIGSTOP)
//!   attach, open the window
//!   Launch::start: SIGCONT          ->      set_pdeathsig(none), become the user
//!   read the pipe                   <-      execve closes it, or the failure is written to it
//! ```
//!
//! Standard input, output and error, the environment, the working directory and the treatment of signals
//! are the command's own, as rlat found them: for the last of these it must be started before rlat
//! installs any handler.

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use signal_hook::consts::SIGCHLD;

use super::start_stopped::{Failure, START_STOPPED, arguments};
use super::user::User;
use crate::error::{Cause, Error, Kind, Result, Step};

/// A command whose process is there. It has not begun before [`start`](Self::start), and if this is
/// dropped before, it never does.
#[derive(Debug)]
pub struct Launch {
    child: Child,
    report: PipeReader,
    command: OsString,
    started: bool,
}

impl Launch {
    /// Makes the process of a command, which is a program and its arguments, and waits until it has
    /// stopped. With a `user`, the command is to run as that one.
    ///
    /// # Errors
    /// [`Kind::Other`] when there can be no process, or `/proc` is not mounted.
    pub fn stopped(command: &[OsString], user: Option<&User>) -> Result<Self> {
        Self::with_streams(command, user, Stdio::inherit)
    }

    /// The same for a command that reads nothing and whose output nobody wants: its standard input,
    /// output and error are /dev/null.
    ///
    /// # Errors
    /// As [`stopped`](Self::stopped).
    pub fn silent(command: &[OsString]) -> Result<Self> {
        Self::with_streams(command, None, Stdio::null)
    }

    fn with_streams(
        command: &[OsString],
        user: Option<&User>,
        stream: fn() -> Stdio,
    ) -> Result<Self> {
        let name = command.first().cloned().unwrap_or_default();
        let failed = |what: &str, errno: Errno| Error {
            kind: Kind::Other,
            step: Step::Start,
            object: shown(&name),
            cause: Cause::Explained(errno, format!("{what} failed")),
            next: "see that /proc is mounted, and the limits on processes and files: `ulimit -a`"
                .to_owned(),
        };
        let (report, writer) = io::pipe().map_err(|error| failed("pipe2(2)", errno_of(&error)))?;
        // The only descriptor of rlat that the child inherits: it closes this one first of all.
        fcntl(&writer, FcntlArg::F_SETFD(FdFlag::empty()))
            .map_err(|errno| failed("fcntl(2)", errno))?;
        let child = Command::new("/proc/self/exe")
            .arg0("rlat")
            .arg(START_STOPPED)
            .args(arguments(std::process::id(), writer.as_raw_fd(), user))
            .arg("--")
            .args(command)
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .map_err(|error| failed("execve(2) of /proc/self/exe", errno_of(&error)))?;
        drop(writer);
        let mut launch = Self { child, report, command: name.clone(), started: false };
        // Where SIGCHLD is ignored, the kernel throws exit statuses away; where it has a handler, not.
        signal_hook::flag::register(SIGCHLD, Arc::new(AtomicBool::new(false)))
            .map_err(|error| failed("sigaction(2)", errno_of(&error)))?;
        match launch.wait_until_stopped() {
            Ok(WaitStatus::Stopped(..)) => Ok(launch),
            Ok(_) => Err(launch.read_failure()?.map_or_else(
                || failed("its process ended early: execve(2)", Errno::ECHILD),
                |failure| launch.explain(failure),
            )),
            Err(errno) => Err(failed("waitid(2)", errno)),
        }
    }

    /// Until it stops or ends; it stays to be waited for.
    fn wait_until_stopped(&self) -> nix::Result<WaitStatus> {
        let until = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        loop {
            match waitid(Id::Pid(self.process()), until) {
                Err(Errno::EINTR) => {}
                result => return result,
            }
        }
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The program's name, without folders, as it will be the name of its first thread.
    pub fn name(&self) -> String {
        let path = Path::new(&self.command);
        path.file_name().unwrap_or(&self.command).to_string_lossy().into_owned()
    }

    /// Lets the command begin, and waits until it has.
    ///
    /// # Errors
    /// [`Kind::NotFound`] and [`Kind::NotExecutable`] when there is no such program, or it cannot be
    /// executed; [`Kind::Permission`] when it may not become the user.
    pub fn start(&mut self) -> Result<()> {
        let failed = |errno| self.explain(Failure { call: "kill".to_owned(), errno });
        kill(self.process(), Signal::SIGCONT).map_err(failed)?;
        match self.read_failure()? {
            None => {
                self.started = true;
                Ok(())
            }
            Some(failure) => Err(self.explain(failure)),
        }
    }

    /// Whether it has begun.
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// Sends it a signal that rlat received. It may have ended.
    pub fn pass_on(&self, signal: Signal) {
        let _ = kill(self.process(), signal);
    }

    /// Waits for its end. Returns its exit status, or 128 plus the signal that killed it, as a shell does.
    ///
    /// # Errors
    /// As waitpid(2).
    pub fn wait(&mut self) -> Result<u8> {
        let status = self.child.wait().map_err(|error| {
            self.explain(Failure { call: "waitpid".to_owned(), errno: errno_of(&error) })
        })?;
        let code = status.code().or_else(|| Some(128 + status.signal()?));
        Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
    }

    fn process(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// What the child wrote before the pipe was closed: nothing, if it has become the command.
    fn read_failure(&mut self) -> Result<Option<Failure>> {
        let mut bytes = Vec::new();
        let read = self.report.read_to_end(&mut bytes);
        read.map_err(|error| {
            self.explain(Failure { call: "read".to_owned(), errno: errno_of(&error) })
        })?;
        Ok(Failure::parse(&bytes))
    }

    fn explain(&self, failure: Failure) -> Error {
        let Failure { call, errno } = failure;
        let has_folder = self.command.as_encoded_bytes().contains(&b'/');
        let (kind, cause, next) = match (call.as_str(), errno) {
            ("execve", Errno::ENOENT) if has_folder && Path::new(&self.command).exists() => (
                Kind::NotFound,
                Cause::Explained(errno, "the file is there, but not its interpreter".to_owned()),
                "see what its first line names, or `file` says of it",
            ),
            ("execve", Errno::ENOENT) => (
                Kind::NotFound,
                Cause::Errno(errno),
                if has_folder { "see that the path is right" } else { "see that it is in $PATH" },
            ),
            ("execve", _) => (
                Kind::NotExecutable,
                Cause::Errno(errno),
                "see that it is a program, and that the user may execute it: `ls -l`",
            ),
            ("setgroups" | "setgid" | "setuid", Errno::EPERM) => (
                Kind::Permission,
                Cause::Explained(errno, format!("{call}(2) needs CAP_SETUID and CAP_SETGID")),
                "run rlat as root, or leave --user out",
            ),
            _ => (
                Kind::Other,
                Cause::Explained(errno, format!("{call}(2) failed")),
                "see the manual page of that call for this error",
            ),
        };
        let object = shown(&self.command);
        Error { kind, step: Step::Start, object, cause, next: next.to_owned() }
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if !self.started {
            // SIGKILL is the one that a stopped process takes.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A program's name as part of a message, on one line.
fn shown(program: &OsStr) -> String {
    format!("{:?}", program.to_string_lossy())
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}
