//! Which CPUs there are and can be.
//!
//! *Possible* CPUs are those that may come online as long as this kernel runs; it decides at boot,
//! and sizes everything that exists once a CPU by it. *Online* ones run tasks now. Either list may
//! have gaps: `0-3,8` are five CPUs with numbers up to 8.
//! Source: Documentation/admin-guide/cputopology.rst.

use std::fs;
use std::io;

use nix::errno::Errno;

use crate::error::{Cause, Error, Kind, MORE_FILES, Result, Step};

/// How many regions are needed so that each possible CPU has one at its own number: the highest
/// number plus one.
///
/// # Errors
/// When /sys is not mounted, or its file holds no list.
pub fn possible_count() -> Result<u32> {
    let cpus = read("/sys/devices/system/cpu/possible")?;
    Ok(cpus.last().map_or(1, |last| last + 1))
}

/// How many CPUs are online and how many are possible; without the numbers of gaps.
///
/// # Errors
/// As [`possible_count`].
pub fn online_and_possible() -> Result<(usize, usize)> {
    let count = |list: &str| Ok(read(&format!("/sys/devices/system/cpu/{list}"))?.len());
    Ok((count("online")?, count("possible")?))
}

/// The first CPU that is online, to open perf events on: 0 may not be.
///
/// # Errors
/// As [`possible_count`].
pub fn first_online() -> Result<u32> {
    let cpus = read("/sys/devices/system/cpu/online")?;
    Ok(cpus.first().copied().unwrap_or(0))
}

fn read(path: &str) -> Result<Vec<u32>> {
    let failed = |cause| {
        let next = match cause {
            Cause::Errno(Errno::EMFILE | Errno::ENFILE) => MORE_FILES,
            _ => "mount sysfs: `mount -t sysfs sysfs /sys`",
        };
        let object = format!("one region for each CPU in {path}");
        Error { kind: Kind::Other, step: Step::Map, object, cause, next: next.to_owned() }
    };
    let text = fs::read_to_string(path).map_err(|error| failed(io_cause(&error)))?;
    parse(&text).ok_or_else(|| failed(Cause::Text(format!("{text:?} is not a list of CPUs"))))
}

fn io_cause(error: &io::Error) -> Cause {
    error
        .raw_os_error()
        .map_or_else(|| Cause::Text(error.to_string()), |code| Cause::Errno(Errno::from_raw(code)))
}

/// No kernel can be configured for more (`CONFIG_NR_CPUS`), so a larger number is not a list of
/// CPUs, and memory is not spent on it.
const MOST_CPUS: u32 = 1 << 16;

/// Reads `0-3,8`: numbers and ranges, ascending, as the kernel prints a CPU mask.
fn parse(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let ascending = first <= last && cpus.last().is_none_or(|before| *before < first);
        if !ascending || last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_and_gaps() {
        assert_eq!(parse("0\n"), Some(vec![0]));
        assert_eq!(parse("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        for bad in ["", "\n", "a", "3-1", "0-", "2,1", "0-4294967295", "1,1"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn this_machines_lists_are_read() {
        assert!(first_online().unwrap() < possible_count().unwrap());
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: String) {
            let _ = parse(&text);
        }

        #[test]
        fn what_the_kernel_prints_is_read_back(cpus in prop::collection::btree_set(0_u32..300, 1..9)) {
            let text = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(parse(&text), Some(cpus.into_iter().collect()));
        }
    }
}
