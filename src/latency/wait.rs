//! Waiting for the window's end, asleep.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{ClosedBy, Subject};
use crate::process::{Target, live_tid};

/// How often to look whether the process still lives, on kernels that do not tell by themselves
/// (before Linux 5.3).
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Sleeps until the window is to be closed, and says why.
///
/// The end of the subject's processes, where they were named, closes it; so does `deadline`, if there
/// is one, and `interrupt`, which becomes readable when a signal has come. `tick` is called at once
/// and then in the interval that comes with it, to show the progress.
///
/// # Errors
/// As poll(2).
pub fn wait(
    subject: &Subject,
    deadline: Option<Instant>,
    interrupt: BorrowedFd<'_>,
    mut tick: Option<(Duration, &mut dyn FnMut())>,
) -> nix::Result<ClosedBy> {
    let mut living: Vec<&Target> = subject.targets().iter().collect();
    let ends_with_targets = !living.is_empty();
    loop {
        let interval = tick.as_mut().map(|(interval, show)| {
            show();
            *interval
        });
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let look = living.iter().any(|target| target.pidfd().is_none()).then_some(LOOK_EVERY);
        let sleep = [interval, left, look].into_iter().flatten().min();

        let pidfds = living.iter().filter_map(|target| target.pidfd());
        let mut fds: Vec<PollFd<'_>> = std::iter::once(interrupt)
            .chain(pidfds)
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        match poll(&mut fds, timeout(sleep)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
        if fds[0].any().unwrap_or(false) {
            return Ok(ClosedBy::Signal);
        }
        living.retain(|target| !has_ended(target));
        if ends_with_targets && living.is_empty() {
            return Ok(ClosedBy::TargetEnd);
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(ClosedBy::Time);
        }
    }
}

fn has_ended(target: &Target) -> bool {
    let Some(pidfd) = target.pidfd() else { return live_tid(target.pid).is_none() };
    let mut fds = [PollFd::new(pidfd, PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// poll(2) counts whole milliseconds: round up, so as not to wake too early and spin.
fn timeout(sleep: Option<Duration>) -> PollTimeout {
    let Some(sleep) = sleep else { return PollTimeout::NONE };
    let millis = sleep.as_nanos().div_ceil(1_000_000);
    i32::try_from(millis).ok().and_then(|millis| millis.try_into().ok()).unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn timeouts_round_up_and_do_not_overflow() {
        assert_eq!(timeout(None), PollTimeout::NONE);
        assert_eq!(timeout(Some(Duration::ZERO)), PollTimeout::ZERO);
        assert_eq!(timeout(Some(Duration::from_nanos(1))), PollTimeout::from(1_u8));
        assert_eq!(timeout(Some(Duration::MAX)), PollTimeout::MAX);
    }

    #[test]
    fn time_and_signal_close_the_window() {
        let own = Subject::Processes(vec![Target::open(std::process::id()).unwrap()]);
        let (mut to, from) = UnixStream::pair().unwrap();
        let mut ticks = 0;
        let mut count = || ticks += 1;
        let tick: (Duration, &mut dyn FnMut()) = (Duration::from_millis(1), &mut count);
        let deadline = Some(Instant::now() + Duration::from_millis(20));
        assert_eq!(wait(&own, deadline, from.as_fd(), Some(tick)), Ok(ClosedBy::Time));
        assert!(ticks >= 2);

        std::io::Write::write_all(&mut to, b"x").unwrap();
        assert_eq!(wait(&own, None, from.as_fd(), None), Ok(ClosedBy::Signal));
    }

    #[test]
    fn the_targets_end_closes_the_window() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let subject = Subject::Processes(vec![Target::open(child.id()).unwrap()]);
        let (_to, from) = UnixStream::pair().unwrap();
        child.kill().unwrap();
        assert_eq!(wait(&subject, None, from.as_fd(), None), Ok(ClosedBy::TargetEnd));
        child.wait().unwrap();
    }
}
