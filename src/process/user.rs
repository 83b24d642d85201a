//! The user that a command runs as.

use std::ffi::CString;

use nix::errno::Errno;
use nix::unistd::{self, Gid, Uid, getgrouplist, setgid, setgroups, setuid};

use crate::error::{Cause, Error, Kind, Result, Step};
use crate::loader::sys::clear_ambient_capabilities;

/// The group of those who have none: `DEFAULT_OVERFLOWGID` in `include/linux/highuid.h`.
const NO_GROUP: u32 = 65_534;

/// A user and its groups, looked up before the command starts, so that the command does not have to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// All groups that the user is a member of.
    pub groups: Vec<u32>,
}

impl User {
    /// The user with that name or, where nobody has it, with that number. A number that no account has
    /// comes without groups: with group 65534 alone.
    ///
    /// ```
    /// use rlat::process::User;
    ///
    /// assert_eq!(User::find("root")?.uid, 0);
    /// assert_eq!(User::find("root")?, User::find("0")?);
    /// # Ok::<(), rlat::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kind::Usage`] when there is no such user, [`Kind::Other`] when the accounts cannot be read.
    pub fn find(name: &str) -> Result<Self> {
        let failed = |kind, cause| Error {
            kind,
            step: Step::Arguments,
            object: format!("--user {name:?}"),
            cause,
            next: "name an account, or the number of a user: `getent passwd` lists them".to_owned(),
        };
        let unreadable = |errno| failed(Kind::Other, Cause::Errno(errno));
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        let number = name.parse().ok().filter(|uid| is_number && *uid != u32::MAX);
        let by_name = unistd::User::from_name(name).map_err(unreadable)?;
        let account = match (by_name, number.map(Uid::from_raw)) {
            (Some(account), _) => Some(account),
            (None, Some(uid)) => unistd::User::from_uid(uid).map_err(unreadable)?,
            (None, None) => None,
        };
        let Some(account) = account else {
            let no_such_user = Cause::Text("there is no such user".to_owned());
            let uid = number.ok_or_else(|| failed(Kind::Usage, no_such_user))?;
            return Ok(Self { uid, gid: NO_GROUP, groups: vec![NO_GROUP] });
        };
        let name = CString::new(account.name).map_err(|_| unreadable(Errno::EINVAL))?;
        let groups = getgrouplist(&name, account.gid).map_err(unreadable)?;
        Ok(Self {
            uid: account.uid.as_raw(),
            gid: account.gid.as_raw(),
            groups: groups.into_iter().map(Gid::as_raw).collect(),
        })
    }

    /// Turns this process into one of the user, for good. Groups first: afterwards there is no right to.
    ///
    /// # Errors
    /// The system call that failed, and `EPERM` without the privilege to.
    pub(super) fn assume(&self) -> std::result::Result<(), (&'static str, Errno)> {
        let failed = |call| move |errno| (call, errno);
        // They would survive an execve(2) that changes no user, as from one that is not root.
        clear_ambient_capabilities().map_err(failed("prctl"))?;
        let groups: Vec<Gid> = self.groups.iter().copied().map(Gid::from_raw).collect();
        setgroups(&groups).map_err(failed("setgroups"))?;
        setgid(Gid::from_raw(self.gid)).map_err(failed("setgid"))?;
        setuid(Uid::from_raw(self.uid)).map_err(failed("setuid"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_an_account_has_no_groups() {
        let user = User::find("3999999999").unwrap();
        assert_eq!(user, User { uid: 3_999_999_999, gid: 65_534, groups: vec![65_534] });
    }

    #[test]
    fn who_is_not_there_is_a_usage_error() {
        for name in ["", "no such user", "-1", "+5", "4294967295", "4294967296", "1e3"] {
            let error = User::find(name).unwrap_err();
            assert_eq!(error.kind, Kind::Usage, "{name:?}: {error}");
        }
    }
}
