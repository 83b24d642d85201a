//! The workload as the tests see it: its orders, its reports, its input.

use std::io::{PipeWriter, Write as _, pipe};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use ::rlat::process::{Activity, activity};
use nix::sys::signal::Signal;

use super::lines::Lines;
use super::rlat::RLAT;
use super::{send, until, wait_for};

/// The program of `tests/support/workload/`, to be given its arguments.
pub(crate) fn workload() -> Command {
    Command::new(workload_path())
}

pub(crate) fn workload_path() -> PathBuf {
    let path = PathBuf::from(RLAT).with_file_name("examples").join("workload");
    assert!(path.exists(), "{} is missing: `cargo build --examples` builds it", path.display());
    path
}

/// A running workload. It ends when this is dropped.
pub(crate) struct Workload {
    child: Child,
    /// The id of the process, as the tests see it.
    pub(crate) pid: u32,
    input: Option<PipeWriter>,
    orders: UnixStream,
    reports: Lines,
}

impl Workload {
    /// Starts it, and returns when it is ready for its first order.
    pub(crate) fn start<const N: usize>(args: [&str; N]) -> Self {
        let mut workload = Self::spawn(workload().args(args));
        workload.wait_until_ready();
        workload
    }

    /// Starts it by a command that becomes the workload, or starts it.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let (theirs, input) = pipe().unwrap();
        let (orders, socket) = UnixStream::pair().unwrap();
        let child = command.stdin(theirs).stdout(OwnedFd::from(socket)).spawn().unwrap();
        // The command would go on holding the workload's ends of pipe and socket.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Self {
            pid: child.id(),
            child,
            input: Some(input),
            reports: Lines::of(orders.try_clone().unwrap()),
            orders,
        }
    }

    pub(crate) fn wait_until_ready(&mut self) {
        self.reports.take("ready");
    }

    /// Gives an order, and does not wait.
    pub(crate) fn order(&self) {
        (&self.orders).write_all(b"!").unwrap();
    }

    /// Gives an order, and waits until it is carried out.
    pub(crate) fn carry_out(&mut self) {
        self.order();
        self.reports.take("done");
    }

    /// Waits for a report that begins so, and returns the number in it.
    pub(crate) fn report(&mut self, beginning: &str) -> u64 {
        self.reports.take(beginning).trim().parse().unwrap_or(0)
    }

    /// Lets its threads read, and returns their ids when each of them waits in a read() now.
    pub(crate) fn start_reading(&mut self, threads: usize) -> Vec<u32> {
        self.order();
        let tids: Vec<u32> = (0..threads).map(|_| self.report("thread ") as u32).collect();
        for tid in &tids {
            self.wait_until_in_read(*tid);
        }
        tids
    }

    /// Waits until the thread waits in a read() of standard input.
    pub(crate) fn wait_until_in_read(&self, tid: u32) {
        until("a thread is in read()", || {
            matches!(
                activity(self.pid, tid),
                Ok(Activity::InSyscall { number: libc::SYS_read, args: [0, ..], .. })
            )
            .then_some(())
        });
    }

    /// Gives it something to read.
    pub(crate) fn write(&self, bytes: &[u8]) {
        self.input.as_ref().expect("the input has not ended").write_all(bytes).unwrap();
    }

    /// Lets its readers find the end of what there is to read.
    pub(crate) fn end_input(&mut self) {
        self.input = None;
    }

    pub(crate) fn kill(&mut self) {
        send(Signal::SIGKILL, self.pid);
    }

    /// Lets it end by itself, and does not wait.
    pub(crate) fn dismiss(&self) {
        self.orders.shutdown(Shutdown::Write).unwrap();
    }

    /// Lets it end by itself, and waits.
    pub(crate) fn end(mut self) {
        self.dismiss();
        assert!(wait_for(&mut self.child).unwrap().success());
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
