//! `/proc/self/mountinfo`: a line is one mount at most, and whole filesystems are found among them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rlat::tracefs::{mount_points, mounts};

fuzz_target!(|data: &[u8]| {
    let all = mounts(data);
    assert!(all.len() <= data.split(|&byte| byte == b'\n').count());
    for point in mount_points(data, "tracefs") {
        assert!(all.iter().any(|mount| mount.mount_point == point));
    }
});
