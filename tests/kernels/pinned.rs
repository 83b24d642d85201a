//! Who runs on which CPU.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use rlat::process::tids;

/// The CPUs that this thread may use, which are all that are online unless somebody took some away.
pub(crate) fn allowed() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap()).collect()
}

/// Lets all threads of a process run on that CPU alone; 0 is the thread that calls this.
pub(crate) fn pin(pid: u32, cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu).unwrap();
    let threads = if pid == 0 { vec![0] } else { tids(pid) };
    for tid in threads {
        sched_setaffinity(Pid::from_raw(tid as i32), &only).unwrap();
    }
}
