//! Telling whoever waits for it that the window is open.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::RawFd;
use std::os::unix::fs::OpenOptionsExt as _;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::close;

use super::say;
use crate::error::{Cause, Error, Kind, Result, Step};

/// The line: the first one of a measurement on standard error, and all that the descriptor gets.
const LINE: &str = "ready";

/// Who is told.
pub(super) struct Ready {
    also: Option<File>,
}

impl Ready {
    /// Takes the inherited descriptor over, if there is one. To be called before anything is opened,
    /// so that the number is not one of ours.
    ///
    /// It is opened anew by its name in /proc, which needs no trust in a bare number, and closed under
    /// that number, so that nobody waits for more on it.
    ///
    /// # Errors
    /// [`Kind::Usage`] when it is not open, or nothing that can be written to by name: a socket.
    pub(super) fn claim(number: Option<u32>) -> Result<Self> {
        let Some(number) = number else { return Ok(Self { also: None }) };
        let opened = OpenOptions::new()
            // Another one may have written to the file before us.
            .append(true)
            // A pipe that nobody reads any more would block the opening.
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(format!("/proc/self/fd/{number}"));
        let file = opened.map_err(|error| unusable(number, error))?;
        close(number as RawFd).map_err(|errno| unusable(number, errno.into()))?;
        Ok(Self { also: Some(file) })
    }

    /// Tells them. Where nobody listens, the measurement goes on all the same.
    pub(super) fn tell(self) {
        let line = format!("{LINE}\n");
        let _ = io::stderr().write_all(line.as_bytes());
        let told = self.also.map_or(Ok(()), |mut file| file.write_all(line.as_bytes()));
        if let Err(error) = told {
            say(&format!("rlat: note: \"{LINE}\" could not be written to --ready-fd: {error}"));
        }
    }
}

fn unusable(number: u32, error: io::Error) -> Error {
    let errno = Errno::try_from(error).unwrap_or(Errno::EIO);
    let why = match errno {
        Errno::ENOENT => Some("no such descriptor is open"),
        Errno::ENXIO => Some("it is a socket, or a pipe that nobody reads"),
        _ => None,
    };
    Error {
        kind: Kind::Usage,
        step: Step::Arguments,
        object: format!("--ready-fd {number}"),
        cause: why.map_or(Cause::Errno(errno), |why| Cause::Explained(errno, why.to_owned())),
        next: format!("open it for rlat, as in `rlat --ready-fd {number} 1234 {number}>fifo`"),
    }
}
