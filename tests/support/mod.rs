//! Starting what is measured and what measures, and reading what they say.

// Each file of tests needs a part of it, and a failure in any part fails the test.
#![allow(dead_code, unused_imports, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod folder;
mod hogs;
mod lines;
mod measured;
mod refusing;
mod report;
mod rlat;
mod strace;

use std::fs;
use std::io;
use std::process::Child;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) use folder::{Folder, TracefsCopy};
pub(crate) use hogs::Hogs;
pub(crate) use lines::Lines;
pub(crate) use measured::{Workload, workload, workload_path};
pub(crate) use refusing::{Call, behind_filter, refused, unprivileged, with_privileges};
pub(crate) use report::{Ledger, Report};
pub(crate) use rlat::{Ended, RLAT, Rlat, rlat};
pub(crate) use strace::strace_counts;

use crate::requirements;

/// After that, something hangs. No measure of speed: it is there so that a test fails, and does not hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Whether rlat can measure here. If not, the reason is printed.
pub(crate) fn can_measure() -> bool {
    static REFUSAL: OnceLock<Option<String>> = OnceLock::new();
    if std::env::var_os("RLAT_REQUIRE_BPF").is_some() {
        return true; // The test fails where it cannot.
    }
    let refusal = REFUSAL.get_or_init(|| {
        let own = std::process::id().to_string();
        let tried = rlat(["-d", "1ms", &own]).output().unwrap();
        // Permission, or something that the kernel lacks. Anything else is for the tests to find.
        matches!(tried.status.code(), Some(3 | 4))
            .then(|| String::from_utf8_lossy(&tried.stderr).lines().next().unwrap().to_owned())
    });
    refusal.as_ref().is_none_or(requirements::skip)
}

/// Looks again and again until there is something, for what cannot be waited for otherwise.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(since.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn send(signal: Signal, process: u32) {
    kill(Pid::from_raw(process as i32), signal).unwrap();
}

/// Waits until the process has a child, and returns the id of its first one.
pub(crate) fn child_of(parent: u32) -> u32 {
    until("the process has a child", || {
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
        children.split_ascii_whitespace().next()?.parse().ok()
    })
}

/// Waits until a process that the test has started has ended.
pub(crate) fn wait_for(child: &mut Child) -> io::Result<std::process::ExitStatus> {
    until("the process has ended", || child.try_wait().transpose())
}
