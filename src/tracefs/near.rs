//! What somebody may have meant who asked for a tracepoint that is not there.
//!
//! Names differ between architectures and versions (arm64 has no `sys_enter_open`, only
//! `sys_enter_openat`), and people mistype. So a name is near if it holds what was asked for, or
//! becomes it by a few keystrokes.

use std::collections::BTreeSet;

use super::TracepointName;
use super::list::without_provider;

/// More are no help.
const MOST: usize = 5;
/// No tracepoint's name is longer, so what is asked for was not meant as one.
const LONGEST: usize = 100;
/// One keystroke in so many characters may be wrong.
const CHARACTERS_PER_SLIP: usize = 5;

/// At most five names near to what matched nothing, the nearest first; with their category if the
/// pattern has one.
///
/// ```
/// use rlat::tracefs::{TracepointName, near_names};
///
/// let all = ["sys_enter_openat", "sys_enter_read", "sys_exit_openat"]
///     .map(|name| TracepointName { category: "syscalls".into(), name: name.into() });
/// assert_eq!(near_names("sys_enter_open", &all), ["sys_enter_openat"]);
/// assert_eq!(near_names("t:syscall:sys_enter_raed", &all), ["syscalls:sys_enter_read"]);
/// ```
pub fn near_names(pattern: &str, all: &[TracepointName]) -> Vec<String> {
    let asked = without_provider(pattern);
    if asked.len() > LONGEST {
        return Vec::new();
    }
    // What was typed as it is; of a glob that matches nothing, the letters may still be near to some.
    let plain: String = asked.chars().filter(|character| !"*?[]!^".contains(*character)).collect();
    if plain.is_empty() {
        return Vec::new();
    }
    let with_category = plain.contains(':');
    let own_name = plain.rsplit(':').next().unwrap_or(&plain);
    let mut near: Vec<(usize, String)> = Vec::new();
    for tracepoint in all {
        let candidate =
            if with_category { tracepoint.to_string() } else { tracepoint.name.clone() };
        let slips = strsim::damerau_levenshtein(&plain, &candidate);
        let holds_it = !own_name.is_empty() && tracepoint.name.contains(own_name);
        if holds_it || slips <= plain.len().div_ceil(CHARACTERS_PER_SLIP) {
            near.push((slips, candidate));
        }
    }
    // Somebody may have given a category alone.
    let categories: BTreeSet<&str> = all.iter().map(|one| one.category.as_str()).collect();
    let meant = plain.trim_end_matches(':');
    near.extend(categories.contains(meant).then(|| (0, format!("{meant}:*"))));
    near.sort();
    near.dedup();
    near.into_iter().take(MOST).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kernel() -> Vec<TracepointName> {
        [
            "sched:sched_switch",
            "sched:sched_process_exit",
            "syscalls:sys_enter_open_tree",
            "syscalls:sys_enter_openat",
            "syscalls:sys_enter_openat2",
            "syscalls:sys_enter_read",
            "syscalls:sys_enter_readv",
            "syscalls:sys_exit_openat",
        ]
        .iter()
        .filter_map(|text| text.split_once(':'))
        .map(|(category, name)| TracepointName { category: category.into(), name: name.into() })
        .collect()
    }

    fn near(pattern: &str) -> Vec<String> {
        near_names(pattern, &kernel())
    }

    #[test]
    fn names_that_hold_what_was_asked_for_come_by_how_much_longer_they_are() {
        let expected = ["sys_enter_openat", "sys_enter_openat2", "sys_enter_open_tree"];
        assert_eq!(near("sys_enter_open"), expected);
        assert_eq!(near("tracepoint:syscalls:sys_enter_open")[0], "syscalls:sys_enter_openat");
        assert_eq!(near("switch"), ["sched_switch"]);
    }

    #[test]
    fn slips_are_forgiven() {
        assert_eq!(near("sys_enter_raed")[0], "sys_enter_read");
        assert_eq!(near("syscall:sys_enter_read")[0], "syscalls:sys_enter_read");
        assert_eq!(near("sched_swich*"), ["sched_switch"]);
    }

    #[test]
    fn a_category_alone_is_understood() {
        assert_eq!(near("sched")[0], "sched:*");
        assert_eq!(near("tracepoint:sched:")[0], "sched:*");
    }

    #[test]
    fn what_is_like_nothing_has_no_near_names() {
        for pattern in ["", "*?", ":", "::", "quite_another_thing", &"x".repeat(1 << 20)] {
            assert_eq!(near(pattern), [""; 0], "{pattern:.20}");
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(pattern: String) {
            prop_assert!(near(&pattern).len() <= MOST);
        }
    }
}
