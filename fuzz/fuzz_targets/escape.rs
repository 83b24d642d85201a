//! Names of threads and files on their way to a terminal: nothing that it could obey is left.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rlat::escape::escape;

fuzz_target!(|name: &[u8]| {
    let escaped = escape(name);
    assert!(!escaped.chars().any(char::is_control));
    let is_plain = name.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'\\');
    assert!(!is_plain || escaped.as_bytes() == name);
});
