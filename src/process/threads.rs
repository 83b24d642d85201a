//! The threads of a process, from `/proc/PID/task`.

use super::{Stat, Status};

/// The ids of the threads of process `pid`, ascending; empty when it has ended.
///
/// A leader that has ended before the other threads is among them, as a zombie.
pub fn tids(pid: u32) -> Vec<u32> {
    let Ok(folder) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut tids: Vec<u32> =
        folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    tids.sort_unstable();
    tids
}

/// A thread of process `pid` that has not ended: the leader where possible; `None` when all have.
///
/// What belongs to the whole process, its descriptors for one, `/proc` shows only under a thread
/// that lives: under a leader that has ended, it shows nothing.
pub fn live_tid(pid: u32) -> Option<u32> {
    let lives = |tid: &u32| Stat::read(*tid).is_ok_and(|stat| !stat.has_ended());
    if lives(&pid) { Some(pid) } else { tids(pid).into_iter().find(lives) }
}

/// Whether the process has children now that it, and no other, started. `false` also where the kernel does
/// not tell, without `CONFIG_PROC_CHILDREN`.
pub fn has_children(pid: u32) -> bool {
    let children = |tid: &u32| std::fs::read(format!("/proc/{pid}/task/{tid}/children"));
    tids(pid).iter().any(|tid| children(tid).is_ok_and(|list| !list.is_empty()))
}

/// The name of a thread, at most 15 bytes that the process chose; `None` when it has ended.
///
/// Bytes that are not UTF-8 become U+FFFD; control characters stay.
pub fn thread_name(pid: u32, tid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    // The newline at the end is not part of it; one before it is.
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The id of a thread in the PID namespace that it lives in: what the thread itself sees.
///
/// `None` when it has ended, and where the kernel does not tell (before Linux 4.1).
pub fn innermost_tid(pid: u32, tid: u32) -> Option<u32> {
    let status = std::fs::read(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    Status::parse(&status).innermost_tid()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::gettid;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn a_thread_is_listed_while_it_lives_and_has_its_own_name() {
        let pid = std::process::id();
        let (to_test, from_thread) = mpsc::channel();
        let (finish, until) = mpsc::channel::<()>();
        let worker = thread::spawn(move || {
            nix::sys::prctl::set_name(c"a) \xff\nb").unwrap();
            to_test.send(gettid().as_raw() as u32).unwrap();
            let _ = until.recv();
        });
        let tid = from_thread.recv().unwrap();
        assert!(tids(pid).contains(&tid));
        assert!(tids(pid).contains(&pid));
        assert_eq!(thread_name(pid, tid).as_deref(), Some("a) \u{fffd}\nb"));
        assert!(Stat::read(tid).is_ok());
        assert!(innermost_tid(pid, tid).is_some());
        drop(finish);
        worker.join().unwrap();
    }

    #[test]
    fn this_process_has_a_live_leader() {
        assert_eq!(live_tid(std::process::id()), Some(std::process::id()));
    }

    #[test]
    fn a_process_that_is_not_there_has_no_threads() {
        assert!(tids(u32::MAX).is_empty());
        assert_eq!(live_tid(u32::MAX), None);
        assert_eq!(thread_name(u32::MAX, 1), None);
        assert_eq!(innermost_tid(u32::MAX, 1), None);
    }
}
