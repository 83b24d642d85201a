//! Threads that want every CPU for themselves, so that whatever is measured gets preempted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// They go on until this is dropped.
pub(crate) struct Hogs {
    enough: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// One on each CPU that this process may use, and never on another one.
    pub(crate) fn on_all_cpus() -> Self {
        let own_thread = Pid::from_raw(0);
        let allowed = sched_getaffinity(own_thread).unwrap();
        let enough = Arc::new(AtomicBool::new(false));
        let threads = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap()).map(|cpu| {
            let enough = Arc::clone(&enough);
            thread::spawn(move || {
                let mut only = CpuSet::new();
                only.set(cpu).unwrap();
                sched_setaffinity(own_thread, &only).unwrap();
                while !enough.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        });
        let threads = threads.collect();
        Self { enough, threads }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
