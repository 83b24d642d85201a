//! The process that makes system calls: this program, started once more and pinned to one CPU.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::Instant;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, getppid, read};

/// The argument that makes this program the process that makes calls.
pub(crate) const CALLER: &str = "caller";

/// The fastest of many short runs counts: somebody else had the CPU during the others.
const RUNS: usize = 60;
const CALLS: u64 = 1_000;

/// Which call to make.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    /// read(fd, buf, 1) of /dev/zero.
    Read = b'r' as isize,
    /// getppid().
    Getppid = b'p' as isize,
}

/// That process, seen from here.
pub(crate) struct Caller {
    child: Child,
    orders: UnixStream,
}

impl Caller {
    pub(crate) fn start(cpu: usize) -> Self {
        let (orders, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([CALLER, &cpu.to_string()])
            .stdin(OwnedFd::from(theirs))
            .spawn()
            .unwrap();
        Self { child, orders }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn nanos_per(&self, call: Call) -> f64 {
        let run = || {
            (&self.orders).write_all(&[call as u8]).unwrap();
            let mut nanos = [0; 8];
            (&self.orders).read_exact(&mut nanos).unwrap();
            u64::from_ne_bytes(nanos)
        };
        let fastest = (0..RUNS).map(|_| run()).min().unwrap();
        fastest as f64 / CALLS as f64
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// At each order: [`CALLS`] calls, and how long they took together.
pub(crate) fn be_caller() {
    pin(std::env::args().nth(2).unwrap().parse().unwrap());
    // From a socket the standard library receives by recvfrom(2): all calls of read(2) are counted ones.
    let mut orders = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().unwrap());
    let zero = File::open("/dev/zero").unwrap();
    let mut order = [0];
    while matches!(orders.read(&mut order), Ok(1)) {
        let started = Instant::now();
        if order[0] == Call::Read as u8 {
            for _ in 0..CALLS {
                read(&zero, &mut [0]).unwrap();
            }
        } else {
            for _ in 0..CALLS {
                std::hint::black_box(getppid());
            }
        }
        let nanos = started.elapsed().as_nanos() as u64;
        orders.write_all(&nanos.to_ne_bytes()).unwrap();
    }
}

/// The CPUs that this process may use.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap()).collect()
}

pub(crate) fn pin(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();
}
