//! `/proc/PID/status`: whatever it says, it is read, and no line is worth more than its number.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rlat::process::Status;

fuzz_target!(|data: &[u8]| {
    let status = Status::parse(data);
    assert!(status.innermost_tid().is_none_or(|tid| status.namespace_tids.contains(&tid)));
    assert!(status.namespace_tids.len() <= data.len());
});
