//! How far the clocks of this process are from the kernel's own.
//!
//! A *time namespace* (Linux 5.6) moves `CLOCK_MONOTONIC` for the processes in it, as for a container that
//! was brought here from another host. A BPF program lives in none: `bpf_ktime_get_ns()` is the kernel's
//! own clock. So what a process in such a namespace reads has to be moved back before the two are compared.

use std::fs;
use std::sync::OnceLock;

/// What has to be taken from this process's `CLOCK_MONOTONIC`, in nanoseconds, to get the kernel's; 0 also
/// where that cannot be told. It never changes, and is looked for once.
///
/// ```
/// // As for most processes.
/// assert_eq!(rlat::process::monotonic_offset_ns(), 0);
/// ```
pub fn monotonic_offset_ns() -> i64 {
    static OFFSET: OnceLock<i64> = OnceLock::new();
    *OFFSET.get_or_init(|| look().unwrap_or(0))
}

fn look() -> Option<i64> {
    // The file tells of the namespace that children are born into. After execve(2), that is our own; not
    // so before, nor on kernels before 6.3.
    let own = fs::read_link("/proc/self/ns/time").ok()?;
    if own != fs::read_link("/proc/self/ns/time_for_children").ok()? {
        return None;
    }
    parse(&fs::read_to_string("/proc/self/timens_offsets").ok()?)
}

/// Reads `/proc/self/timens_offsets`: lines of a clock's name, seconds, and nanoseconds.
fn parse(text: &str) -> Option<i64> {
    let mut words =
        text.lines().find_map(|line| line.strip_prefix("monotonic "))?.split_whitespace();
    let seconds: i64 = words.next()?.parse().ok()?;
    let nanoseconds: i64 = words.next()?.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_nanoseconds_are_added() {
        let offsets = "monotonic         864         5\nboottime           1         0\n";
        assert_eq!(parse(offsets), Some(864_000_000_005));
        assert_eq!(parse("monotonic  -1 999999999\n"), Some(-1));
        assert_eq!(parse("monotonic\n"), None);
        assert_eq!(parse("boottime 1 0\n"), None);
        assert_eq!(parse("monotonic 9223372036854775807 0"), None);
    }
}
