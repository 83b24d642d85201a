//! The PID namespace that a process lives in, in the form that BPF programs compare with.
//!
//! `bpf_get_current_pid_tgid()` gives the ids of the *initial* PID namespace, the outermost one of
//! the machine. For a process in any other, say in a container, `bpf_get_ns_current_pid_tgid(dev,
//! ino)` (Linux 5.7) gives the ids that the process itself sees, if it lives in the namespace with
//! that device and inode. This works wherever this program runs, above that namespace or in it.

use std::io;

use nix::errno::Errno;
use nix::sys::stat::{FileStat, major, minor, stat};

use super::Status;
use crate::error::{Cause, Error, Kind, Result, Step};

/// Inode of the initial PID namespace: `PROC_PID_INIT_INO` in `include/linux/proc_ns.h`.
const INITIAL_INODE: u64 = 0xEFFF_FFFC;

/// Bits of the minor number in the kernel's `dev_t`: `MINORBITS` in `include/linux/kdev_t.h`.
const MINOR_BITS: u32 = 20;

/// Where a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PidNamespace {
    /// In the initial namespace: its ids are those that the kernel itself uses.
    Initial,
    /// In another one.
    Other {
        /// The namespace's device as the kernel has it, `major << 20 | minor`.
        ///
        /// What stat(2) gives is encoded otherwise, for the sake of old programs, and from minor
        /// 256 on the two differ. The helper compares with the kernel's own `s_dev`.
        dev: u64,
        /// The namespace's inode.
        ino: u64,
    },
}

impl PidNamespace {
    /// The namespace of process `pid`, whose leader's status is `status`.
    ///
    /// # Errors
    ///
    /// [`Kind::Permission`] where the kernel does not show the namespace and it cannot be concluded,
    /// [`Kind::NoProcess`] when the process has ended.
    pub(super) fn of(pid: u32, status: &Status) -> Result<Self> {
        let error = |kind, cause, next: &str| Error {
            kind,
            step: Step::Target,
            object: format!("process {pid}"),
            cause,
            next: next.to_owned(),
        };
        let identity = match stat(format!("/proc/{pid}/ns/pid").as_str()) {
            Ok(identity) => identity,
            // The kernel has no PID namespaces (CONFIG_PID_NS), so that there is but one.
            Err(Errno::ENOENT) if own() == Err(Errno::ENOENT) => return Ok(Self::Initial),
            // The link needs ptrace access; that it leads to our own namespace does not.
            Err(Errno::EACCES | Errno::EPERM) if shares_ours(status) => own()
                .map_err(|errno| error(Kind::Other, Cause::Errno(errno), "mount a whole /proc"))?,
            Err(errno @ (Errno::EACCES | Errno::EPERM)) => {
                let why =
                    "it lives in another PID namespace, and to see which one needs ptrace access";
                return Err(error(
                    Kind::Permission,
                    Cause::Explained(errno, why.to_owned()),
                    "run as root, or give CAP_SYS_PTRACE",
                ));
            }
            Err(errno @ (Errno::ENOENT | Errno::ESRCH)) => {
                return Err(error(
                    Kind::NoProcess,
                    Cause::Explained(errno, "it has just ended".to_owned()),
                    "`ps -e` lists the processes",
                ));
            }
            Err(errno) => {
                return Err(error(
                    Kind::Other,
                    Cause::Explained(errno, format!("stat(2) of /proc/{pid}/ns/pid failed")),
                    "see whether /proc is mounted as usual: `mount -t proc`",
                ));
            }
        };
        Ok(Self::from_stat(&identity))
    }

    /// The namespace of this process; the initial one where the kernel knows no other.
    pub fn own() -> Self {
        own().map_or(Self::Initial, |identity| Self::from_stat(&identity))
    }

    fn from_stat(identity: &FileStat) -> Self {
        if identity.st_ino == INITIAL_INODE {
            return Self::Initial;
        }
        Self::Other { dev: kernel_dev(identity.st_dev), ino: identity.st_ino }
    }
}

/// From stat(2)'s encoding of a device to the kernel's.
fn kernel_dev(st_dev: u64) -> u64 {
    major(st_dev) << MINOR_BITS | minor(st_dev)
}

/// The namespace of this process, which it may always look at.
fn own() -> nix::Result<FileStat> {
    stat("/proc/self/ns/pid")
}

/// Whether the process with that status lives in the PID namespace of this one.
///
/// `NSpid` begins at the namespace of `/proc`. A single number therefore means: in that very one.
fn shares_ours(status: &Status) -> bool {
    let alone = |status: &Status| status.namespace_tids.len() == 1;
    alone(status) && Status::read_own().is_ok_and(|own: Status| alone(&own))
}

/// Whether `/proc` was mounted for the PID namespace of this process; an error where even this
/// cannot be told.
///
/// With another one's, as after `unshare --pid` without `--mount-proc`, the numbers that a user
/// reads with `ps` are not those that system calls take.
pub(super) fn proc_is_ours() -> io::Result<bool> {
    let link = std::fs::read_link("/proc/self")?;
    let same_id = link.to_str() == Some(std::process::id().to_string().as_str());
    Ok(same_id && Status::read_own()?.namespace_tids.len() <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::makedev;
    use std::process::{Command, Stdio};

    #[test]
    fn the_device_is_encoded_as_the_kernel_does() {
        assert_eq!(kernel_dev(makedev(0, 4)), 4);
        assert_eq!(kernel_dev(makedev(8, 1)), 0x80_0001);
        // Here stat(2) has bits of the minor number above those of the major one.
        assert_eq!(makedev(0, 0x1_2345), 0x1230_0045);
        assert_eq!(kernel_dev(makedev(0, 0x1_2345)), 0x1_2345);
    }

    #[test]
    fn this_process_is_where_its_inode_says() {
        let status = Status::read_own().unwrap();
        let namespace = PidNamespace::of(std::process::id(), &status).unwrap();
        match own().unwrap().st_ino {
            INITIAL_INODE => assert_eq!(namespace, PidNamespace::Initial),
            inode => assert!(matches!(namespace, PidNamespace::Other { ino, .. } if ino == inode)),
        }
        assert!(shares_ours(&status));
        assert!(proc_is_ours().unwrap());
    }

    #[test]
    fn a_status_from_a_nested_namespace_is_not_ours() {
        assert!(!shares_ours(&Status::parse(b"NSpid:\t70\t1\n")));
        assert!(!shares_ours(&Status::default()));
    }

    #[test]
    fn a_child_in_a_new_namespace_is_found_there() {
        // unshare(1) forks: its child is process 1 of the new namespace and tells us by closing stdout.
        let unshare = Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "sh", "-c", "echo up; exec sleep 60"])
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut unshare) = unshare else {
            eprintln!("skipped: no unshare(1)");
            return;
        };
        let mut line = String::new();
        let stdout = unshare.stdout.take().unwrap();
        io::BufRead::read_line(&mut io::BufReader::new(stdout), &mut line).unwrap();
        if line.is_empty() {
            unshare.wait().unwrap();
            eprintln!("skipped: unshare(1) may not make a PID namespace");
            return;
        }
        let children = format!("/proc/{0}/task/{0}/children", unshare.id());
        let child = std::fs::read_to_string(children).unwrap_or_default().trim().parse();
        let result = child.map(|child| PidNamespace::of(child, &Status::read(child).unwrap()));
        unshare.kill().unwrap();
        unshare.wait().unwrap();
        match result {
            Ok(namespace) => {
                let namespace = namespace.unwrap();
                assert!(matches!(namespace, PidNamespace::Other { .. }), "{namespace:?}");
            }
            Err(_) => eprintln!("skipped: no CONFIG_PROC_CHILDREN"),
        }
    }
}
