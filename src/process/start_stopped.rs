//! The other half of [`Launch`](super::Launch): the process that waits until it may become the command.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, raise};
use nix::unistd::{close, getppid};

use super::user::User;

/// The name of the command that rlat is started with for this.
pub(super) const START_STOPPED: &str = "start-stopped";

/// What the process is told by the rlat that started it.
#[derive(Clone, Debug)]
pub struct StartStopped {
    /// The process that started it, and that it must not outlive before it is the command.
    pub parent: u32,
    /// The descriptor to write a failure to.
    pub report: RawFd,
    /// Who to become.
    pub user: Option<User>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// The arguments of `rlat start-stopped` up to the command; `cli` has the same names.
pub(super) fn arguments(parent: u32, report: RawFd, user: Option<&User>) -> Vec<String> {
    let mut arguments = vec![format!("--parent={parent}"), format!("--report={report}")];
    if let Some(User { uid, gid, groups }) = user {
        let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
        arguments.push(format!("--uid={uid}"));
        arguments.push(format!("--gid={gid}"));
        arguments.push(format!("--groups={}", groups.join(",")));
    }
    arguments
}

/// The system call that stands between the process and the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) call: String,
    pub(super) errno: Errno,
}

impl Failure {
    fn new(call: &str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self { call: call.to_owned(), errno }
    }

    /// As `execve 2`.
    fn text(&self) -> String {
        format!("{} {}", self.call, self.errno as i32)
    }

    /// `None` where nothing was written.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let (call, errno) = text.split_once(' ')?;
        Some(Self { call: call.to_owned(), errno: Errno::from_raw(errno.parse().ok()?) })
    }
}

impl StartStopped {
    /// Stops; when it is continued, becomes the command. Returns only on failure, with the exit code
    /// of a shell; it is the parent that tells the user.
    pub fn run(&self) -> u8 {
        // Opened anew, the descriptor gets closed by execve(2). The one that was passed would not.
        let opened = File::options().write(true).open(format!("/proc/self/fd/{}", self.report));
        let (Ok(mut report), Ok(())) = (opened, close(self.report)) else {
            return Self::NOT_STARTED;
        };
        let Err(failure) = self.become_command();
        let _ = report.write_all(failure.text().as_bytes());
        Self::NOT_STARTED
    }

    const NOT_STARTED: u8 = 126;

    fn become_command(&self) -> Result<std::convert::Infallible, Failure> {
        set_pdeathsig(Signal::SIGKILL).map_err(Failure::new("prctl"))?;
        // It may have ended before it was asked for.
        if getppid().as_raw() as u32 != self.parent {
            return Err(Failure::new("getppid")(Errno::ESRCH));
        }
        raise(Signal::SIGSTOP).map_err(Failure::new("kill"))?;

        // From here on it is measured: no more than has to be.
        set_pdeathsig(None).map_err(Failure::new("prctl"))?;
        if let Some(user) = &self.user {
            user.assume().map_err(|(call, errno)| Failure::new(call)(errno))?;
        }
        let program = self.command.first().cloned().unwrap_or_default();
        let error = Command::new(program).args(self.command.iter().skip(1)).exec();
        Err(Failure::new("execve")(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EINVAL))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_read_back() {
        let failure = Failure { call: "execve".to_owned(), errno: Errno::ENOENT };
        assert_eq!(failure.text(), "execve 2");
        assert_eq!(Failure::parse(b"execve 2"), Some(failure));
        assert_eq!(Failure::parse(b""), None);
    }
}
