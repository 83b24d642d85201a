//! What a test needs of the machine, and what happens where that is missing: the test says why it is
//! skipped, and passes. With `RLAT_REQUIRE_BPF=1`, as in CI, it fails instead.

#![allow(dead_code)] // Each file of tests needs a part of it.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use rlat::loader::{Answer, Feature, probe};

/// Whether this process may use bpf(2) here. If not, the reason is printed.
pub(crate) fn bpf() -> bool {
    match probe(Feature::MmapableArray) {
        Answer::Yes => true,
        Answer::No => skip("this kernel has no arrays that can be mapped"),
        Answer::CouldNotTell(errno) => skip(format!("bpf(2) is not to be had here: {errno}")),
    }
}

/// Whether that program is installed. If not, the reason is printed.
pub(crate) fn tool(name: &str, package: &str) -> bool {
    let version =
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match version {
        Ok(_) => true,
        Err(error) => skip(format!("{name} does not start ({error}): install {package}")),
    }
}

/// Says why a test ends before it has shown anything; always `false`.
pub(crate) fn skip(why: impl Display) -> bool {
    assert!(std::env::var_os("RLAT_REQUIRE_BPF").is_none(), "RLAT_REQUIRE_BPF is set, but {why}");
    // Not by eprintln!, which is captured while a test passes.
    let _ = writeln!(io::stderr(), "skipped: {why}");
    false
}
