//! rlat: how long do the read() calls of a process take?

use std::process::ExitCode;
use std::time::Instant;

use rlat::{cli, commands};

fn main() -> ExitCode {
    let started = Instant::now();
    match cli::parse() {
        Ok(cli) => ExitCode::from(commands::run(&cli, started)),
        // Help comes here, too, with exit code 0; but not if it could not be printed.
        Err(error) => match error.print() {
            Ok(()) => ExitCode::from(error.exit_code() as u8),
            Err(_) => ExitCode::FAILURE,
        },
    }
}

/// Says that there is no stack to walk. A panic of the standard library would print a backtrace, and link
/// 200 KB for it that read DWARF; with this, link-time optimization leaves them out of the static file.
// SAFETY: as the name that libunwind gives it asks for, it takes two words and returns an _Unwind_Reason_Code,
// of which 0 is _URC_NO_REASON. It does nothing else.
#[cfg(rlat_static)]
#[expect(unsafe_code, reason = "to name a symbol is unsafe in itself")]
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace(_callback: usize, _argument: usize) -> i32 {
    0
}
