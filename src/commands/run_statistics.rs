//! What the kernel counts of our programs while the window is open, for `-v`, and how long the end takes.

use std::os::fd::OwnedFd;
use std::time::Instant;

use super::say;
use crate::loader::LoadedProgram;
use crate::loader::sys::{ProgInfo, enable_stats};
use crate::process::Status;
use crate::report::numbers::{grouped, time};

/// The kernel counts as long as this lives: all BPF programs of the host, each run of which takes some
/// ns longer then.
pub(super) struct RunStatistics {
    counting: nix::Result<OwnedFd>,
}

impl RunStatistics {
    /// Lets it count.
    pub(super) fn begin() -> Self {
        Self { counting: enable_stats() }
    }

    /// Stops it, and says for each program what was counted.
    fn end(self, programs: &[&LoadedProgram]) {
        let why_not = self.counting.err().map(|errno| format!("not counted: {errno}"));
        for program in programs {
            let name = program.name();
            match program.info() {
                Ok(info) => {
                    let runs = why_not.clone().unwrap_or_else(|| runs(&info));
                    say(&format!("program {name}: {runs}; {}", size(&info)));
                }
                Err(errno) => say(&format!("program {name}: no more known: {errno}")),
            }
        }
    }
}

/// Detaches all programs; with `-v`, for which there are statistics, it says how long each step of the end
/// took. `closing` is when the window was to be closed, and the result has been written.
pub(super) fn let_go<A>(
    attached: A,
    programs: impl Fn(&A) -> Vec<&LoadedProgram>,
    statistics: Option<RunStatistics>,
    closing: Instant,
) {
    let Some(statistics) = statistics else { return };
    let since = |moment: Instant| time(moment.elapsed().as_nanos());
    say(&format!("the result was written {} after the window closed", since(closing)));
    statistics.end(&programs(&attached));
    let before_detaching = Instant::now();
    drop(attached);
    say(&format!("detached in {}", since(before_detaching)));
    if let Some(kib) = Status::read_own().ok().and_then(|status| status.peak_memory_kib) {
        say(&format!("peak memory: {kib} KiB"));
    }
    say(&format!("all was done {} after the window closed", since(closing)));
}

fn runs(info: &ProgInfo) -> String {
    match info.runs {
        0 => "0 runs".to_owned(),
        runs => {
            let each = time(u128::from(info.run_ns / runs));
            format!("{} runs of {each} (the mean, with what counting takes)", grouped(runs))
        }
    }
}

/// Instructions as the kernel has them, and as the verifier saw them on all paths.
fn size(info: &ProgInfo) -> String {
    let instructions = info.xlated_bytes / 8;
    let native = info.jited_bytes;
    let verified = info
        .verified_insns
        .map_or_else(String::new, |count| format!(", {} verified on all paths", grouped(count)));
    format!("{instructions} instructions{verified}, {native} bytes of native code")
}
