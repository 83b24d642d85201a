//! What the kernel counts of our programs while the window is open, for `-v`.

use std::os::fd::OwnedFd;

use crate::loader::LoadedProgram;
use crate::loader::sys::{ProgInfo, enable_stats};
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

    /// Stops it, and says in a line for each program what was counted.
    pub(super) fn end<'a>(self, programs: impl Iterator<Item = &'a LoadedProgram>) -> Vec<String> {
        let why_not = self.counting.err().map(|errno| format!("not counted: {errno}"));
        let line = |program: &LoadedProgram| match program.info() {
            Ok(info) => {
                let runs = why_not.clone().unwrap_or_else(|| runs(&info));
                format!("program {}: {runs}; {}", program.name(), size(&info))
            }
            Err(errno) => format!("program {}: no more known: {errno}", program.name()),
        };
        programs.map(line).collect()
    }
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
