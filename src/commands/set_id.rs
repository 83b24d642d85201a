//! A file that gives its owner's rights to everybody is not run.

use nix::unistd::{getresgid, getresuid};

use crate::error::{Cause, Error, Kind, Result, Step};

/// Refuses to run for a user with another one's rights, which the file's set-user-ID or set-group-ID bit
/// would give: `-- CMD` would run with them, and so would `-o`.
///
/// # Errors
/// [`Kind::Permission`].
pub(super) fn refuse() -> Result<()> {
    let same_user = getresuid().is_ok_and(|ids| ids.real == ids.effective);
    let same_group = getresgid().is_ok_and(|ids| ids.real == ids.effective);
    if same_user && same_group {
        return Ok(());
    }
    Err(Error {
        kind: Kind::Permission,
        step: Step::Arguments,
        object: "the rights of another user or group".to_owned(),
        cause: Cause::Text(
            "rlat's file has the set-user-ID or set-group-ID bit, or was started by a file that has"
                .to_owned(),
        ),
        next: "`chmod ug-s` the file, and run it as root, or give it capabilities with setcap(8)"
            .to_owned(),
    })
}
