//! The descriptors of a process, from `/proc/PID/fd`; see `proc_pid_fd(5)`.

use std::io;
use std::path::PathBuf;

use super::live_tid;

/// What descriptor `fd` of process `pid` is: a path, or such as `pipe:[4711]` or `socket:[12]`.
///
/// `None` where it is not open or this process may not look (it needs ptrace access to `pid`).
/// Bytes that are not UTF-8 become U+FFFD.
///
/// ```
/// let file = std::fs::File::open("/dev/null")?;
/// let fd = std::os::fd::AsRawFd::as_raw_fd(&file) as u32;
/// let target = rlat::process::descriptor_target(std::process::id(), fd);
/// assert_eq!(target.as_deref(), Some("/dev/null"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn descriptor_target(pid: u32, fd: u32) -> Option<String> {
    let target = std::fs::read_link(folder(pid)?.join(fd.to_string())).ok()?;
    Some(target.to_string_lossy().into_owned())
}

/// Whether descriptor `fd` of process `pid` is open; `None` where it could not be told, because
/// the process has ended or this one may not look.
pub fn is_open(pid: u32, fd: u32) -> Option<bool> {
    let folder = folder(pid)?;
    match std::fs::symlink_metadata(folder.join(fd.to_string())) {
        Ok(_) => Some(true),
        // The process may also have ended in between: then the folder is gone as well.
        Err(error) if error.kind() == io::ErrorKind::NotFound => folder.exists().then_some(false),
        Err(_) => None,
    }
}

/// How many of the descriptors of process `pid` are io_uring instances; `None` where this process
/// may not look, or `pid` has ended.
pub fn io_uring_count(pid: u32) -> Option<usize> {
    let descriptors = std::fs::read_dir(folder(pid)?).ok()?.flatten();
    let is_ring = |link: PathBuf| link.as_os_str() == "anon_inode:[io_uring]";
    Some(descriptors.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(is_ring)).count())
}

/// The folder of descriptors, under a thread that lives: all threads share them, save for the rare
/// one that has called `unshare(CLONE_FILES)`.
fn folder(pid: u32) -> Option<PathBuf> {
    Some(PathBuf::from(format!("/proc/{pid}/task/{}/fd", live_tid(pid)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn descriptors_of_a_child_are_seen() {
        let mut cat =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        assert!(descriptor_target(cat.id(), 0).unwrap().starts_with("pipe:["));
        assert_eq!(descriptor_target(cat.id(), 1).as_deref(), Some("/dev/null"));
        assert_eq!(is_open(cat.id(), 0), Some(true));
        assert_eq!(is_open(cat.id(), 999), Some(false));
        assert_eq!(io_uring_count(cat.id()), Some(0));
        assert_eq!(descriptor_target(cat.id(), 999), None);
        drop(cat.stdin.take());
        cat.wait().unwrap();
        assert_eq!(is_open(cat.id(), 0), None);
    }
}
