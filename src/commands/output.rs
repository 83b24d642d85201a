//! Writing the result where it was asked for, or at least somewhere.

use std::io::{self, Write as _};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat, makedev};
use nix::unistd::write;

use crate::error::{Cause, Error, Kind, Result, Step};

/// Writes the result to standard output. If that cannot be, it goes to standard error, with the
/// reason behind it: nothing that was measured is lost.
///
/// # Errors
/// [`Kind::Other`] when standard output did not take all of it. Nothing is printed when the reader
/// took a part and left, as `head` does: it had what it wanted.
pub(super) fn write_result(text: &str) -> Result<()> {
    let written = if is_closed(io::stdout()) {
        Err((0, Errno::EBADF))
    } else {
        write_all(io::stdout(), text.as_bytes())
    };
    let Err((written, errno)) = written else { return Ok(()) };
    if errno == Errno::EPIPE && written > 0 {
        return Err(refused(errno, QUIET));
    }
    let _ = io::stderr().write_all(text.as_bytes());
    Err(refused(errno, "the result is on standard error instead"))
}

/// Writes to standard output what a user can ask for again, so that it need not be saved.
///
/// # Errors
/// [`Kind::Other`] when standard output did not take all of it, without a message when its reader
/// has left.
pub(super) fn write_listing(text: &str) -> Result<()> {
    write_all(io::stdout(), text.as_bytes()).map_err(|(_, errno)| match errno {
        Errno::EPIPE => refused(errno, QUIET),
        _ => refused(errno, "write it elsewhere"),
    })
}

fn refused(errno: Errno, next: &str) -> Error {
    Error {
        kind: Kind::Other,
        step: Step::Output,
        object: "standard output".to_owned(),
        cause: Cause::Errno(errno),
        next: next.to_owned(),
    }
}

/// Writes the result to standard error, since standard output is that of the command.
///
/// # Errors
/// [`Kind::Other`] when it did not take all of it.
pub(super) fn write_result_beside_command(text: &str) -> Result<()> {
    write_all(io::stderr(), text.as_bytes()).map_err(|(_, errno)| Error {
        kind: Kind::Other,
        step: Step::Output,
        object: "standard error".to_owned(),
        cause: Cause::Errno(errno),
        next: "let standard error lead to where it can be written".to_owned(),
    })
}

/// The next step of an error that is not worth a message.
const QUIET: &str = "";

/// Whether the error is to end the program without a message.
pub(super) fn is_quiet(error: &Error) -> bool {
    error.step == Step::Output && error.next == QUIET
}

/// Whether the descriptor was closed when the program began. Rust's runtime then opens /dev/null in its
/// place, for reading and writing, which nobody does who wants the output to vanish.
fn is_closed(fd: impl AsFd) -> bool {
    const DEV_NULL: u64 = makedev(1, 3);
    let is_null = fstat(&fd).is_ok_and(|stat| {
        SFlag::from_bits_truncate(stat.st_mode).contains(SFlag::S_IFCHR) && stat.st_rdev == DEV_NULL
    });
    let flags = fcntl(&fd, FcntlArg::F_GETFL).map(OFlag::from_bits_truncate);
    is_null && flags.is_ok_and(|flags| flags & OFlag::O_ACCMODE == OFlag::O_RDWR)
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
    fn what_the_runtime_put_in_the_place_of_a_closed_descriptor_is_known() {
        let open = |read| OpenOptions::new().read(read).write(true).open("/dev/null").unwrap();
        assert!(is_closed(open(true)));
        assert!(!is_closed(open(false)));
        assert!(!is_closed(OpenOptions::new().read(true).write(true).open("/dev/full").unwrap()));
    }

    #[test]
    fn a_full_non_blocking_pipe_is_waited_for() {
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
