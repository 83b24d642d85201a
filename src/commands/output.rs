//! Writing the result where it was asked for, or at least somewhere.

mod replacement;

use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat, makedev};
use nix::unistd::write;

use crate::error::{Cause, Error, Kind, Result, Step};
use crate::escape::{escape, printable};
use replacement::Replacement;

/// Where the result goes.
pub(super) struct Output {
    place: Place,
    /// Its name in messages.
    name: String,
    /// Whether a part of the result has been written.
    has_begun: bool,
}

enum Place {
    /// Standard output.
    Standard,
    /// Standard error, where the result is all that is written.
    StandardError,
    /// What is no regular file and therefore cannot be replaced: a pipe, a terminal, standard error.
    Open(File),
    /// A file that appears when it is complete.
    Beside(Replacement),
}

impl Output {
    /// Standard output, or what that path leads to. A pipe with a name is waited for until somebody
    /// reads from it. Beside a command standard output is the command's, and standard error ours.
    ///
    /// # Errors
    /// [`Kind::Usage`] when the path is none that a result could be written to. Nothing has changed
    /// there then, nor has it otherwise.
    pub(super) fn open(path: Option<&Path>, beside_command: bool) -> Result<Self> {
        let Some(path) = path else {
            let (place, name) = if beside_command {
                (Place::StandardError, "standard error")
            } else {
                (Place::Standard, "standard output")
            };
            return Ok(Self::new(place, name.to_owned()));
        };
        let name = escape(path.as_os_str().as_encoded_bytes());
        let place = Self::place(path).map_err(|error| unusable(&name, &error))?;
        Ok(Self::new(place, name))
    }

    fn new(place: Place, name: String) -> Self {
        Self { place, name, has_begun: false }
    }

    fn place(path: &Path) -> io::Result<Place> {
        let Some(there) = whats_there(path)? else {
            return Replacement::of(path, None).map(Place::Beside);
        };
        // /dev/stdout leads here; and so does the name of a file that the shell has opened for us.
        if is_same(&there, io::stdout().as_fd()) {
            return Ok(Place::Standard);
        }
        if is_same(&there, io::stderr().as_fd()) {
            return Ok(Place::Open(io::stderr().as_fd().try_clone_to_owned()?.into()));
        }
        let kind = there.file_type();
        if kind.is_file() {
            return Replacement::of(path, Some(&there)).map(Place::Beside);
        }
        if kind.is_block_device() {
            return Err(Errno::ENOTSUP.into());
        }
        let is_link = fs::symlink_metadata(path)?.is_symlink();
        if is_link && !is_of_the_system(path) {
            return Err(Errno::ELOOP.into());
        }
        let no_link = if is_link { OFlag::empty() } else { OFlag::O_NOFOLLOW };
        let no_terminal_of_ours = OFlag::O_NOCTTY;
        let flags = (no_link | no_terminal_of_ours).bits();
        // A folder is refused here.
        File::options().write(true).custom_flags(flags).open(path).map(Place::Open)
    }

    /// The folder in which a file is made and replaced, if one is.
    pub(super) fn folder(&self) -> Option<&Path> {
        match &self.place {
            Place::Beside(replacement) => Some(replacement.folder()),
            Place::Standard | Place::StandardError | Place::Open(_) => None,
        }
    }

    /// Writes a part of the result that others follow. Where the result is to be a file that is complete,
    /// it waits beside the file's place, and not in memory.
    ///
    /// # Errors
    /// As [`write_result`](Self::write_result); then the parts before are on standard error, too.
    pub(super) fn write_part(&mut self, text: &str) -> Result<()> {
        self.write(text)
    }

    /// Writes what is only for the moment.
    ///
    /// # Errors
    /// [`Kind::Other`] when not all of it was taken.
    pub(super) fn draw(&mut self, text: &str) -> Result<()> {
        self.try_to_write(text.as_bytes())
            .map_err(|(_, errno)| self.failed(errno, ON_STANDARD_ERROR))
    }

    /// Writes the whole result, or what is left of it. If that cannot be, it goes to standard error,
    /// with the reason behind it: nothing that was measured is lost.
    ///
    /// # Errors
    /// [`Kind::Other`] when not all of it was taken. Nothing is printed when a reader took a part and
    /// left, as `head` does: it had what it wanted.
    pub(super) fn write_result(&mut self, text: &str) -> Result<()> {
        self.write(text)?;
        let Place::Beside(file) = &mut self.place else { return Ok(()) };
        let Err(errno) = file.put_in_place() else { return Ok(()) };
        file.give_up(io::stderr());
        Err(self.failed(errno, ON_STANDARD_ERROR))
    }

    /// Writes what can be made again, so that it need not be saved: an object file, a listing.
    ///
    /// # Errors
    /// [`Kind::Other`] when not all of it was taken, without a message when its reader has left.
    pub(super) fn write_repeatable(&mut self, bytes: &[u8]) -> Result<()> {
        self.try_to_write(bytes)
            .map_err(|(_, errno)| errno)
            .and_then(|()| match &mut self.place {
                Place::Beside(file) => file.put_in_place(),
                _ => Ok(()),
            })
            .map_err(|errno| {
                let quiet = errno == Errno::EPIPE;
                self.failed(errno, if quiet { QUIET } else { "write it elsewhere" })
            })
    }

    /// Writes bytes to the place. When it takes only a part of them, says how many, and why.
    fn try_to_write(&mut self, bytes: &[u8]) -> std::result::Result<(), (usize, Errno)> {
        match &mut self.place {
            Place::Standard if is_closed(io::stdout()) => Err((0, Errno::EBADF)),
            Place::Standard => write_all(io::stdout(), bytes),
            Place::StandardError => write_all(io::stderr(), bytes),
            Place::Open(file) => write_all(&*file, bytes),
            // What was written to a file that is gone again does not count.
            Place::Beside(file) => file.append(bytes).map_err(|errno| (0, errno)),
        }
    }

    fn write(&mut self, text: &str) -> Result<()> {
        let Err((written, errno)) = self.try_to_write(text.as_bytes()) else {
            self.has_begun = true;
            return Ok(());
        };
        let reader_left = errno == Errno::EPIPE && (written > 0 || self.has_begun);
        if let Place::Beside(file) = &mut self.place {
            file.give_up(io::stderr());
        }
        if !reader_left {
            let _ = io::stderr().write_all(text.as_bytes());
        }
        Err(self.failed(errno, if reader_left { QUIET } else { ON_STANDARD_ERROR }))
    }

    fn failed(&self, errno: Errno, next: &str) -> Error {
        Error {
            kind: Kind::Other,
            step: Step::Output,
            object: self.name.clone(),
            cause: Cause::Errno(errno),
            next: next.to_owned(),
        }
    }
}

/// Writes to standard output what a user can ask for again, so that it need not be saved.
///
/// # Errors
/// [`Kind::Other`] when standard output did not take all of it, without a message when its reader
/// has left.
pub(super) fn write_listing(text: &str) -> Result<()> {
    write_all(io::stdout(), printable(text).as_bytes()).map_err(|(_, errno)| match errno {
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

/// What the path leads to; nothing when it, or what a link there leads to, does not exist.
fn whats_there(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(there) => Ok(Some(there)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the name is one that only root and the kernel give: in /dev itself, such as /dev/log, or in /proc,
/// where /dev/fd leads.
fn is_of_the_system(path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
    folder.is_some_and(|folder| folder == Path::new("/dev") || folder.starts_with("/proc"))
}

fn is_same(there: &Metadata, fd: BorrowedFd<'_>) -> bool {
    fstat(fd).is_ok_and(|open| (open.st_dev, open.st_ino) == (there.dev(), there.ino()))
}

fn unusable(name: &str, error: &io::Error) -> Error {
    let errno = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    let is_the_machines = matches!(
        errno,
        Errno::ENOSPC | Errno::EDQUOT | Errno::EIO | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE
    );
    Error {
        kind: if is_the_machines { Kind::Other } else { Kind::Usage },
        step: Step::Output,
        object: name.to_owned(),
        cause: match errno {
            Errno::ENOTSUP => Cause::Text("it is a block device".to_owned()),
            Errno::ELOOP => Cause::Explained(
                errno,
                "a symbolic link to a pipe or a device is followed in /dev and /proc only"
                    .to_owned(),
            ),
            _ => Cause::Errno(errno),
        },
        next: "give -o a file, new or old, in a folder that can be written to, or a pipe"
            .to_owned(),
    }
}

/// The next step of an error that cost no numbers.
const ON_STANDARD_ERROR: &str = "the result is on standard error instead";
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
