//! Finding tracefs, or mounting it for this process alone.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::statfs::{TRACEFS_MAGIC, statfs};

use super::mount_points;
use super::refusal::{Refusal, refused_copy, refused_folder};
use crate::error::Result;
use crate::escape::escape_path;
use crate::loader::sys::mount_detached;
use crate::process::{Lockdown, exceeds_its_user};

/// Where tracefs is looked for first: its own mount point, and where debugfs mounts it.
const CANONICAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// An open tracefs.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    how: Found,
    /// A private mount lives as long as this descriptor.
    mount: RefCell<Option<OwnedFd>>,
}

/// How a [`Tracefs`] was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The user named the folder. It may be a copy of a tracefs.
    Given,
    /// It was mounted already.
    Mounted,
    /// This process mounted it, attached to no folder, so that nobody else sees it.
    Private,
}

impl fmt::Display for Tracefs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = escape_path(&self.root);
        match self.how {
            Found::Given => write!(f, "given: {root}"),
            Found::Mounted => write!(f, "mounted at {root}"),
            Found::Private => write!(f, "private mount"),
        }
    }
}

impl Tracefs {
    /// Takes the folder `explicit` as it is if it has an `events` folder, and else looks for tracefs:
    /// at the usual places, then wherever else it is mounted. Where it is mounted nowhere, it is
    /// mounted for this process alone (Linux 5.2): nothing on the host changes.
    ///
    /// ```no_run
    /// let tracefs = rlat::tracefs::Tracefs::open(None)?;
    /// let id = tracefs.tracepoint_id("syscalls", "sys_enter_read")?;
    /// let fd = tracefs.format("syscalls", "sys_enter_read")?.field("fd").map(|field| field.offset);
    /// # Ok::<(), rlat::error::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Kind::Permission`](crate::error::Kind::Permission) where it is there and may not be read,
    /// or may not be mounted, and where rlat's file has capabilities and the given folder is no tracefs;
    /// [`Kind::Unsupported`](crate::error::Kind::Unsupported) where the kernel
    /// has none, or the given folder is not one.
    pub fn open(explicit: Option<&Path>) -> Result<Self> {
        if let Some(folder) = explicit {
            // Whatever it holds is read, and shown if it is not understood; see SECURITY.md.
            if exceeds_its_user() && !is_tracefs(folder) {
                return Err(refused_copy(folder));
            }
            return match list_events(folder) {
                Ok(()) => Ok(Self {
                    root: folder.to_owned(),
                    how: Found::Given,
                    mount: RefCell::default(),
                }),
                Err(errno) => Err(refused_folder(folder, errno)),
            };
        }
        let mountinfo = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let candidates = CANONICAL.map(PathBuf::from).into_iter();
        let candidates = candidates.chain(mount_points(&mountinfo, "tracefs"));
        search(candidates, mount_unless_locked_down).map_err(Refusal::into_error)
    }

    /// The folder that holds `events`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it has tracepoints of that category, such as `syscalls`.
    pub fn has_category(&self, category: &str) -> bool {
        self.root.join("events").join(category).is_dir()
    }

    /// Unmounts a private mount. Nothing can be asked any more then.
    pub fn let_go(&self) {
        drop(self.mount.take());
    }

    /// How it was come by.
    pub fn how(&self) -> Found {
        self.how
    }
}

/// Takes the first usable candidate, else what `mount` gives.
///
/// What stood in the way of a tracefs that is mounted tells more than why no second one could be:
/// so it is what is reported.
fn search(
    candidates: impl Iterator<Item = PathBuf>,
    mount: impl FnOnce() -> nix::Result<OwnedFd>,
) -> std::result::Result<Tracefs, Refusal> {
    let mut first_refusal = None;
    for root in candidates.filter(|path| is_tracefs(path)) {
        match list_events(&root) {
            Ok(()) => return Ok(Tracefs { root, how: Found::Mounted, mount: RefCell::default() }),
            Err(errno) => {
                first_refusal.get_or_insert(Refusal::Events { root, errno });
            }
        }
    }
    mount_private(mount).map_err(|refusal| first_refusal.unwrap_or(refusal))
}

fn mount_private(
    mount: impl FnOnce() -> nix::Result<OwnedFd>,
) -> std::result::Result<Tracefs, Refusal> {
    let mount = mount().map_err(|errno| Refusal::Mount { errno })?;
    // A mount that is attached nowhere has no path but that of its descriptor.
    let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
    match list_events(&root) {
        Ok(()) => Ok(Tracefs { root, how: Found::Private, mount: RefCell::new(Some(mount)) }),
        Err(errno) => Err(Refusal::Events { root, errno }),
    }
}

/// Mounts tracefs for this process alone, but not where lockdown closes it.
///
/// It would be of no use there, and do harm: a tracefs that is mounted under such a lockdown has no
/// files that hold it, and Linux 6.12 and 6.18 were seen to crash when the last mount of it goes away
/// (in `tracefs_destroy_inode`).
fn mount_unless_locked_down() -> nix::Result<OwnedFd> {
    if Lockdown::read() == Some(Lockdown::Confidentiality) {
        return Err(Errno::EPERM);
    }
    mount_detached(c"tracefs")
}

/// Whether a tracefs is mounted there: the folder exists on kernels without one, too.
fn is_tracefs(path: &Path) -> bool {
    statfs(path).is_ok_and(|filesystem| filesystem.filesystem_type() == TRACEFS_MAGIC)
}

/// Whether `events` can be read; for anybody but root it usually cannot.
fn list_events(root: &Path) -> nix::Result<()> {
    match fs::read_dir(root.join("events")) {
        Ok(_) => Ok(()),
        Err(error) => Err(Errno::try_from(error).unwrap_or(Errno::EIO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::tracefs::scratch::Folder;

    #[test]
    fn a_given_folder_with_events_is_taken_as_it_is() {
        let folder = Folder::new();
        fs::create_dir(folder.0.join("events")).unwrap();
        let tracefs = Tracefs::open(Some(&folder.0)).unwrap();
        assert_eq!((tracefs.root(), tracefs.how()), (folder.0.as_path(), Found::Given));
        assert_eq!(tracefs.to_string(), format!("given: {}", folder.0.display()));
    }

    #[test]
    fn a_given_folder_without_events_is_refused_and_no_other_is_looked_for() {
        let folder = Folder::new();
        let error = Tracefs::open(Some(&folder.0)).unwrap_err();
        assert_eq!((error.kind, error.errno()), (Kind::Unsupported, Some(Errno::ENOENT)));
        fs::write(folder.0.join("events"), "").unwrap();
        let error = Tracefs::open(Some(&folder.0)).unwrap_err();
        assert_eq!((error.kind, error.errno()), (Kind::Unsupported, Some(Errno::ENOTDIR)));
    }

    #[test]
    fn an_empty_mount_point_is_not_tracefs() {
        let folder = Folder::new();
        fs::create_dir(folder.0.join("events")).unwrap();
        let refusal = search([folder.0.clone()].into_iter(), || Err(Errno::ENODEV)).unwrap_err();
        assert!(matches!(refusal, Refusal::Mount { errno: Errno::ENODEV }));
    }

    #[test]
    fn a_private_mount_works_and_nobody_else_sees_it() {
        let mountinfo = || fs::read("/proc/self/mountinfo").unwrap();
        let before = mount_points(&mountinfo(), "tracefs");
        let tracefs = match search(std::iter::empty(), mount_unless_locked_down) {
            Ok(tracefs) => tracefs,
            Err(refusal) => {
                let error = refusal.into_error();
                assert!(std::env::var_os("RLAT_REQUIRE_BPF").is_none(), "{error}");
                eprintln!("skipped: {error}");
                return;
            }
        };
        assert_eq!(tracefs.how(), Found::Private);
        assert!(is_tracefs(tracefs.root()));
        assert_eq!(mount_points(&mountinfo(), "tracefs"), before);
    }
}
