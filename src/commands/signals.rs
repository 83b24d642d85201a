//! The first signal ends the measurement, the second one the program.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;

use crate::error::{Cause, Error, Kind, MORE_FILES, Result, Step};
use crate::process::Status;

/// Turns the first SIGINT, SIGTERM or SIGHUP into something to poll for. The second one exits at once
/// with 128 plus its number, as a shell would report it, whatever rlat is waiting for then.
pub(super) struct Signals {
    wake: UnixStream,
    /// The number of the one that has come and was not taken, or 0.
    came: Arc<AtomicUsize>,
}

impl Signals {
    /// # Errors
    /// [`Kind::Other`] when there are no more descriptors.
    pub(super) fn install() -> Result<Self> {
        Self::try_to_install().map_err(|error| Error {
            kind: Kind::Other,
            step: Step::Signals,
            object: "SIGINT, SIGTERM and SIGHUP".to_owned(),
            cause: Cause::Errno(Errno::try_from(error).unwrap_or(Errno::EIO)),
            next: MORE_FILES.to_owned(),
        })
    }

    /// A signal that comes meanwhile is kept back: it would find a part of what is to be done, and wake
    /// nobody.
    fn try_to_install() -> io::Result<Self> {
        let mut caught = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            caught.add(signal);
        }
        let before = caught.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let installed = Self::register();
        before.thread_set_mask()?;
        installed
    }

    fn register() -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        let seen_one = Arc::new(AtomicBool::new(false));
        let came = Arc::new(AtomicUsize::new(0));
        let ignored = Status::read_own().ok().and_then(|status| status.ignored_signals);
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // nohup(1) has SIGHUP ignored. (A shell does that to SIGINT for jobs in the background,
            // which whoever sends one by hand does not expect.)
            if signal == SIGHUP && ignored.is_some_and(|mask| mask & 1 << (signal - 1) != 0) {
                continue;
            }
            // In this order: the exit looks at the flag before this signal sets it.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&seen_one))?;
            flag::register(signal, Arc::clone(&seen_one))?;
            flag::register_usize(signal, Arc::clone(&came), signal as usize)?;
            pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(Self { wake, came })
    }

    /// Readable from the first signal on.
    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The signal that has come, if one has. Each is given once.
    pub(super) fn take(&self) -> Option<Signal> {
        i32::try_from(self.came.swap(0, Ordering::SeqCst)).ok()?.try_into().ok()
    }
}
