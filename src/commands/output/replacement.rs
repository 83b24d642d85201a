//! A file that is replaced as a whole: nobody ever sees a half of it, and what was there before stays if
//! something fails.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Seek as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::write_all;

/// The rights of a new file, and the most that an old one keeps: others may read it.
const RIGHTS: u32 = 0o644;

/// How many names are tried for the temporary file.
const MOST_NAMES: u32 = 100;

/// A file to be replaced, or made.
///
/// The new one is written beside it under another name, and takes its name when all is written. A
/// symbolic link is itself replaced: what it leads to stays as it is.
pub(super) struct Replacement {
    path: PathBuf,
    rights: u32,
    /// What has been written so far.
    begun: Option<Temporary>,
}

impl Replacement {
    /// The file at `path`, where `there` is now. That a file can be made beside it is tried: better to
    /// know before the measurement than behind it.
    pub(super) fn of(path: &Path, there: Option<&Metadata>) -> io::Result<Self> {
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(Errno::EISDIR.into());
        }
        if path.file_name().is_none() {
            return Err(Errno::ENOENT.into());
        }
        let rights = there.map_or(RIGHTS, |there| there.permissions().mode() & RIGHTS);
        let replacement = Self { path: path.to_owned(), rights, begun: None };
        replacement.temporary().map(drop)?;
        Ok(replacement)
    }

    /// Writes more of the new file, under its other name. If rlat is killed, that is what is left.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let temporary = match self.begun.take() {
            Some(temporary) => temporary,
            None => self.temporary().map_err(|error| errno(&error))?,
        };
        let temporary = self.begun.insert(temporary);
        write_all(&temporary.file, bytes).map_err(|(_, errno)| errno)?;
        temporary.whole += bytes.len() as u64;
        Ok(())
    }

    /// Gives the new file its name. When that fails, nothing has changed there.
    pub(super) fn put_in_place(&mut self) -> Result<(), Errno> {
        let Some(temporary) = &mut self.begun else { return Ok(()) };
        // A full disk may come out only when the bytes are written for good.
        temporary.file.sync_all().map_err(|error| errno(&error))?;
        fs::rename(&temporary.path, &self.path).map_err(|error| errno(&error))?;
        temporary.is_renamed = true;
        self.begun = None;
        Ok(())
    }

    /// Removes the new file, and copies there what had been appended to it in whole pieces.
    pub(super) fn give_up(&mut self, mut to: impl Write) {
        let Some(temporary) = self.begun.take() else { return };
        let mut file = &temporary.file;
        let copied =
            file.rewind().and_then(|()| io::copy(&mut file.take(temporary.whole), &mut to));
        if copied.is_err() {
            // Better a stray file than lost numbers.
            temporary.keep();
        }
    }

    /// Where the file is, or will be.
    pub(super) fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// A new file in the same folder: to take a name, a file has to be on the same file system.
    fn temporary(&self) -> io::Result<Temporary> {
        let folder = self.folder();
        let mut number = 0;
        loop {
            let path = folder.join(format!(".rlat-{}-{number}.tmp", std::process::id()));
            // With O_EXCL, nothing that somebody else put there is opened, and no link followed.
            let opened = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(self.rights)
                .custom_flags(OFlag::O_NOFOLLOW.bits())
                .open(&path);
            match opened {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    if number == MOST_NAMES {
                        return Err(error);
                    }
                }
                opened => {
                    return opened.map(|file| Temporary {
                        file,
                        path,
                        whole: 0,
                        is_renamed: false,
                    });
                }
            }
        }
    }
}

/// A file that goes away with this, unless it has got another name by then.
struct Temporary {
    file: File,
    path: PathBuf,
    /// So many bytes are pieces that were written in whole.
    whole: u64,
    is_renamed: bool,
}

impl Temporary {
    fn keep(mut self) {
        self.is_renamed = true;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
