//! The process that makes system calls and times them: this program, started once more and pinned to one
//! CPU. It is given orders through a socket, and answers with how long the calls took.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::Instant;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, getppid, read};

/// The command that makes this program such a process; the number of a CPU follows it. A program that
/// uses [`Caller`] must call [`be_caller`] when it is started so.
pub const CALLER: &str = "calibration-caller";

/// Calls of one run: few, so that many runs are disturbed by nobody; and many, so that the clock's own
/// cost does not matter.
pub const CALLS: u32 = 1_000;

/// Which call to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Call {
    /// read(0, buf, 1) of /dev/zero.
    Read = b'r',
    /// getppid().
    Getppid = b'p',
}

/// That process, seen from here. It ends when this is dropped, or when this process ends.
#[derive(Debug)]
pub struct Caller {
    child: Child,
    orders: UnixStream,
}

impl Caller {
    /// Starts it on that CPU.
    ///
    /// # Errors
    /// As open(2) of /dev/zero, socketpair(2), fork(2) and execve(2) of /proc/self/exe.
    pub fn start(cpu: usize) -> io::Result<Self> {
        let (orders, theirs) = UnixStream::pair()?;
        let child = Command::new("/proc/self/exe")
            .arg0("rlat")
            .args([CALLER, &cpu.to_string()])
            .stdin(File::open("/dev/zero")?)
            .stdout(OwnedFd::from(theirs))
            // Ctrl-C is not for it.
            .process_group(0)
            .spawn()?;
        Ok(Self { child, orders })
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it make [`CALLS`] calls, and returns how long one took, in ns.
    ///
    /// # Errors
    /// `UnexpectedEof` when it has ended; as sendto(2) and recvfrom(2).
    pub fn nanos_per(&self, call: Call) -> io::Result<f64> {
        (&self.orders).write_all(&[call as u8])?;
        let mut nanos = [0; 8];
        (&self.orders).read_exact(&mut nanos)?;
        Ok(u64::from_ne_bytes(nanos) as f64 / f64::from(CALLS))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process itself: at each order a run of calls, and how long they took together. Returns when there
/// are no more orders.
///
/// # Errors
/// As sched_setaffinity(2), and as the calls themselves.
pub fn be_caller(cpu: usize) -> io::Result<()> {
    pin(cpu)?;
    // From a socket the standard library receives by recvfrom(2): all calls of read(2) are counted ones.
    let mut orders = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let stdin = io::stdin();
    let mut order = [0];
    while orders.read(&mut order)? == 1 {
        let begun = Instant::now();
        if order[0] == Call::Read as u8 {
            for _ in 0..CALLS {
                read(&stdin, &mut [0])?;
            }
        } else {
            for _ in 0..CALLS {
                std::hint::black_box(getppid());
            }
        }
        let nanos = begun.elapsed().as_nanos() as u64;
        orders.write_all(&nanos.to_ne_bytes())?;
    }
    Ok(())
}

/// The CPUs that this process may use, in order.
///
/// # Errors
/// As sched_getaffinity(2).
pub fn allowed_cpus() -> nix::Result<Vec<usize>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu) == Ok(true)).collect())
}

/// Lets this thread run on that CPU only.
///
/// # Errors
/// `EINVAL` when there is no such CPU, or it is not allowed.
pub fn pin(cpu: usize) -> nix::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &only)
}
