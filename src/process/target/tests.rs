//! Tests of [`Target`], on processes started for them.

use super::*;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::gettid;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn sleeper() -> Child {
    Command::new("sleep").arg("60").spawn().unwrap()
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_secs(10), "not in 10 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn readable(pidfd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).unwrap() == 1
}

#[test]
fn a_child_is_found_and_its_pidfd_tells_its_end() {
    let mut child = sleeper();
    wait_until("exec", || thread_name(child.id(), child.id()).as_deref() == Some("sleep"));
    let target = Target::open(child.id()).unwrap();
    assert_eq!((target.pid, target.requested, target.threads), (child.id(), child.id(), 1));
    assert_eq!(target.name, "sleep");
    if let Some(pidfd) = target.pidfd() {
        assert!(!readable(pidfd));
        child.kill().unwrap();
        wait_until("pidfd readable", || readable(pidfd));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_id_that_nobody_has_is_no_process() {
    let mut child = sleeper();
    child.kill().unwrap();
    child.wait().unwrap();
    for id in [child.id(), 0, u32::MAX, i32::MAX as u32] {
        let error = Target::open(id).unwrap_err();
        assert_eq!((error.kind, error.errno()), (Kind::NoProcess, Some(Errno::ESRCH)), "{id}");
    }
}

#[test]
fn a_zombie_has_already_ended() {
    let mut child = sleeper();
    child.kill().unwrap();
    wait_until("zombie", || Stat::read(child.id()).is_ok_and(|stat| stat.has_ended()));
    let error = Target::open(child.id()).unwrap_err();
    child.wait().unwrap();
    assert_eq!(error.kind, Kind::NoProcess);
    assert!(error.to_string().contains("already ended"), "{error}");
}

#[test]
fn the_id_of_a_thread_leads_to_its_process() {
    let (to_test, from_thread) = mpsc::channel();
    let (finish, until) = mpsc::channel::<()>();
    let worker = std::thread::spawn(move || {
        to_test.send(gettid().as_raw() as u32).unwrap();
        let _ = until.recv();
    });
    let tid = from_thread.recv().unwrap();
    let target = Target::open(tid).unwrap();
    drop(finish);
    worker.join().unwrap();
    assert_eq!((target.pid, target.requested), (std::process::id(), tid));
    assert!(target.threads >= 2);
}

#[test]
fn a_process_whose_leader_has_ended_is_alive() {
    // Python ends its main thread with the bare exit(2), which ends no other thread.
    let script = "import threading, time, ctypes\n\
                  threading.Thread(target=time.sleep, args=(60,)).start()\n\
                  ctypes.CDLL(None).pthread_exit(None)\n";
    let child = Command::new("python3").args(["-c", script]).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: no python3");
        return;
    };
    let pid = child.id();
    wait_until("end of leader", || Stat::read(pid).is_ok_and(|stat| stat.has_ended()));
    if live_tid(pid).is_some() {
        let target = Target::open(pid);
        let input = super::super::descriptor_target(pid, 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(target.unwrap().pid, pid);
        assert!(input.is_some());
    } else {
        child.wait().unwrap();
        eprintln!("skipped: python3 has ended as a whole");
    }
}

#[test]
fn a_thread_of_the_kernel_is_refused() {
    let Some(id) = (2..200).find(|&id| Stat::read(id).is_ok_and(|stat| stat.is_kernel_thread()))
    else {
        eprintln!("skipped: no kernel thread to be seen, as in a container");
        return;
    };
    let error = Target::open(id).unwrap_err();
    assert_eq!(error.kind, Kind::Usage);
    assert!(error.to_string().contains("makes no system calls"));
}

#[test]
fn what_is_hidden_is_a_matter_of_permission() {
    let own = std::process::id();
    assert!(exists(own));
    assert!(!exists(0));
    let error = unreadable(own, io::Error::from_raw_os_error(Errno::ENOENT as i32));
    assert_eq!(error.kind, Kind::Permission);
    let error = unreadable(own, io::Error::from_raw_os_error(Errno::EPERM as i32));
    assert!(error.to_string().contains("hidepid"));
}
