//! Files that a user names: programs as text, and object files.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use nix::errno::Errno;

use crate::confinement::as_its_user;
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::escape::escape;

/// No file of programs comes near this many bytes; a device that never ends does.
const MOST_BYTES: u64 = 1 << 28;

/// All bytes of a file.
///
/// # Errors
/// [`Kind::Usage`] when it cannot be read, or is too large to be meant.
pub(super) fn read(path: &Path, step: Step) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // What is wrong with a file is shown with the line: not to somebody who could not read it otherwise.
    let opened = as_its_user(|| File::open(path));
    let read = opened.and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        let errno = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        return Err(refused(path, step, Cause::Errno(errno), "give a file that can be read"));
    }
    if bytes.len() as u64 > MOST_BYTES {
        let cause = Cause::Text("it has more than 256 MiB".to_owned());
        return Err(refused(path, step, cause, "give a file of programs"));
    }
    Ok(bytes)
}

/// The error that a file is not what was asked for.
pub(super) fn refused(path: &Path, step: Step, cause: Cause, next: &str) -> Error {
    Error { kind: Kind::Usage, step, object: shown(path), cause, next: next.to_owned() }
}

/// A file's name in messages.
pub(super) fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes())
}
