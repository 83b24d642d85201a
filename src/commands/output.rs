//! Writing the result where it was asked for, or at least somewhere.

use std::io::{self, Write as _};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::write;

use crate::error::{Cause, Error, Kind, Result, Step};

/// Writes the result to standard output. If that cannot be, it goes to standard error, with the
/// reason behind it: nothing that was measured is lost.
///
/// # Errors
/// [`Kind::Other`] when standard output did not take all of it. Nothing is printed when the reader
/// took a part and left, as `head` does: it had what it wanted.
pub(super) fn write_result(text: &str) -> Result<()> {
    write_text(text, false)
}

/// As [`write_result`], for what follows something that was written: a reader that has left had that.
///
/// # Errors
/// As [`write_result`].
pub(super) fn write_more(text: &str) -> Result<()> {
    write_text(text, true)
}

fn write_text(text: &str, follows: bool) -> Result<()> {
    let Err((written, errno)) = write_all(io::stdout(), text.as_bytes()) else { return Ok(()) };
    let reader_left = errno == Errno::EPIPE && (written > 0 || follows);
    if !reader_left {
        let _ = io::stderr().write_all(text.as_bytes());
    }
    let what_now = if reader_left { QUIET } else { "the result is on standard error instead" };
    Err(Error {
        kind: Kind::Other,
        step: Step::Output,
        object: "standard output".to_owned(),
        cause: Cause::Errno(errno),
        next: what_now.to_owned(),
    })
}

/// The next step of an error that is not worth a message.
const QUIET: &str = "";

/// Whether the error is to end the program without a message.
pub(super) fn is_quiet(error: &Error) -> bool {
    error.step == Step::Output && error.next == QUIET
}

/// As `Write::write_all`, but tells how many bytes were written before the failure.
fn write_all(fd: impl AsFd, bytes: &[u8]) -> std::result::Result<(), (usize, Errno)> {
    let mut written = 0;
    while written < bytes.len() {
        match write(&fd, &bytes[written..]) {
            Ok(0) => return Err((written, Errno::EIO)),
            Ok(count) => written += count,
            Err(Errno::EINTR) => {}
            // Whoever shares the descriptor may have made it non-blocking.
            Err(Errno::EAGAIN) => {
                let mut ready = [PollFd::new(fd.as_fd(), PollFlags::POLLOUT)];
                let _ = poll(&mut ready, PollTimeout::NONE);
            }
            Err(errno) => return Err((written, errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    #[test]
    fn a_failing_write_tells_how_far_it_came() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(write_all(&full, b"numbers"), Err((0, Errno::ENOSPC)));
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(write_all(&writer, b"numbers"), Err((0, Errno::EPIPE)));
    }

    #[test]
    fn a_full_non_blocking_pipe_is_waited_for() {
        use nix::fcntl::{FcntlArg, OFlag, fcntl};
        let (mut reader, writer) = io::pipe().unwrap();
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let text = vec![b'x'; 1 << 18];
        let length = text.len();
        let all = std::thread::spawn(move || write_all(&writer, &text));
        let mut read = Vec::new();
        io::Read::read_to_end(&mut reader, &mut read).unwrap();
        assert_eq!(all.join().unwrap(), Ok(()));
        assert_eq!(read.len(), length);
    }
}
