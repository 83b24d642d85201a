//! What a name of a system call cannot be, and what somebody may have meant with one that is not there.

use super::syscall::{GROUPS, NEVER_RETURN};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::tracefs::Tracefs;

/// More are no help.
const MOST: usize = 5;
/// One keystroke in so many characters may be wrong, and one in any case.
const CHARACTERS_PER_SLIP: usize = 4;
/// Longer ones were not meant as a name.
const LONGEST: usize = 64;
/// The category of the tracepoints of system calls, and how those at the entry begin.
const ENTRIES: (&str, &str) = ("syscalls", "sys_enter_");
/// What else the name of a call has before it, in other tools.
const PREFIXES: [&str; 8] = [
    "tracepoint:",
    "syscalls:",
    "__x64_",
    "__arm64_",
    "sys_enter_",
    "sys_exit_",
    "__se_sys_",
    "sys_",
];

/// Looks at names and groups without asking the kernel.
///
/// # Errors
/// [`Kind::Usage`] for what cannot be a name, a group that there is not, and a call that never returns.
pub(super) fn require_names(names: &[String]) -> Result<()> {
    for name in names {
        let is_group = GROUPS.iter().any(|(group, _)| group == name);
        if NEVER_RETURN.contains(&name.as_str()) {
            let next = "name another system call";
            return Err(usage(name, "it never returns, so that there is no latency", next));
        }
        if name.starts_with('@') && !is_group {
            return Err(no_group(name));
        }
        if !is_group && !is_name(name) {
            return Err(no_name(name));
        }
    }
    Ok(())
}

/// The error for a name that this kernel has no tracepoint of: with near names, if it has any. `error` is
/// what looking for it gave.
pub(super) fn explain(tracefs: &Tracefs, name: &str, error: Error) -> Error {
    let Ok(all) = tracefs.tracepoints() else { return error };
    let known = all.iter().filter(|tracepoint| tracepoint.category == ENTRIES.0);
    let known: Vec<&str> =
        known.filter_map(|tracepoint| tracepoint.name.strip_prefix(ENTRIES.1)).collect();
    if error.kind != Kind::Unsupported || known.is_empty() || known.contains(&name) {
        return error;
    }
    let near = near_names(name, known.into_iter());
    let near = if near.is_empty() { String::new() } else { format!("; near: {}", near.join(", ")) };
    Error {
        kind: Kind::Unsupported,
        step: Step::Arguments,
        object: format!("--syscall {name}"),
        cause: Cause::Text(format!("this kernel has no such system call to trace{near}")),
        next: "`rlat list 'sys_enter_*'` lists those that it has".to_owned(),
    }
}

/// The error for a name whose number is not known here, of the `known` ones.
pub(super) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let near = near_names(name, known);
    let near = if near.is_empty() { String::new() } else { format!("; near: {}", near.join(", ")) };
    Error {
        kind: Kind::Unsupported,
        step: Step::Arguments,
        object: format!("--syscall {name}"),
        cause: Cause::Text(format!("the number of such a system call is not known here{near}")),
        next: "on the raw tracepoints calls are known by number: see --attach tracepoint"
            .to_owned(),
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.len() <= LONGEST && name.bytes().all(is_part)
}

fn no_name(name: &str) -> Error {
    let why = if name.is_empty() { "a name in it is empty" } else { "that is no name of a call" };
    let shown: String = name.chars().take(LONGEST).collect();
    let near = near_names(name, known_groups_and_members());
    let near = near.first().map_or_else(String::new, |near| format!("; near: {near}"));
    let next = "give names such as read,pread64 or groups such as @read, with a comma between them";
    usage(&format!("{shown:?}"), &format!("{why}{near}"), next)
}

fn no_group(name: &str) -> Error {
    let shown: String = name.chars().take(LONGEST).collect();
    let groups = GROUPS.map(|(group, _)| group);
    let near = near_names(name, groups.into_iter());
    let near = near.first().map_or_else(String::new, |near| format!("; near: {near}"));
    usage(
        &if is_name(&shown[1..]) { shown } else { format!("{shown:?}") },
        &format!("there is no such group{near}"),
        &format!("the groups are {}", groups.join(", ")),
    )
}

/// Names that need no kernel to be known.
fn known_groups_and_members() -> impl Iterator<Item = &'static str> {
    GROUPS.into_iter().flat_map(|(group, members)| members.iter().copied().chain([group]))
}

/// At most five names near to what was asked for, the nearest first.
fn near_names<'a>(asked: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let asked = plain(asked);
    if asked.is_empty() || asked.len() > LONGEST {
        return Vec::new();
    }
    let most_slips = (asked.chars().count() / CHARACTERS_PER_SLIP).max(1);
    let mut near: Vec<(usize, &str)> = known
        .map(|name| (strsim::damerau_levenshtein(&asked, name), name))
        .filter(|(slips, name)| *slips <= most_slips || (asked.len() > 2 && name.contains(&asked)))
        .collect();
    near.sort_unstable();
    near.dedup();
    // If it is spelt right but for what stands around it, that is what was meant.
    let is_exact = near.first().is_some_and(|(slips, _)| *slips == 0);
    near.into_iter().map(|(_, name)| name).take(if is_exact { 1 } else { MOST }).collect()
}

/// What was asked for as the kernel's tracepoints would spell it.
fn plain(asked: &str) -> String {
    let lower = asked.trim().trim_end_matches("()").to_ascii_lowercase();
    let name = PREFIXES
        .iter()
        .fold(lower.as_str(), |name, prefix| name.strip_prefix(prefix).unwrap_or(name));
    name.chars().filter(|character| !"*?[]".contains(*character)).collect()
}

fn usage(name: &str, why: &str, next: &str) -> Error {
    Error {
        kind: Kind::Usage,
        step: Step::Arguments,
        object: format!("--syscall {name}"),
        cause: Cause::Text(why.to_owned()),
        next: next.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KNOWN: [&str; 9] = [
        "read",
        "readv",
        "pread64",
        "preadv",
        "write",
        "openat",
        "openat2",
        "newuname",
        "sendfile64",
    ];

    fn near(asked: &str) -> Vec<&'static str> {
        near_names(asked, KNOWN.into_iter())
    }

    #[test]
    fn slips_cases_and_the_prefixes_of_other_tools_are_understood() {
        assert_eq!(near("raed"), ["read"]);
        for asked in
            ["Read", "READ", "sys_read", "sys_enter_read", "__x64_sys_read", " read", "read()"]
        {
            assert_eq!(near(asked), ["read"], "{asked}");
        }
        assert_eq!(near("tracepoint:syscalls:sys_enter_read"), ["read"]);
        assert_eq!(near("pread"), ["preadv", "read", "pread64"]);
        assert_eq!(near("open"), ["openat", "openat2"]);
        assert_eq!(near("uname"), ["newuname"]);
        assert_eq!(near("sendfile"), ["sendfile64"]);
        assert_eq!(near("foo_bar"), [""; 0]);
        assert_eq!(near(&"x".repeat(1 << 20)), [""; 0]);
    }

    #[test]
    fn what_cannot_be_a_call_is_a_matter_of_usage() {
        let refused = |name: &str| match require_names(&["read".to_owned(), name.to_owned()]) {
            Err(error) if error.kind == Kind::Usage => error.to_string(),
            other => panic!("{name}: {other:?}"),
        };
        assert!(refused("").contains("a name in it is empty"));
        assert!(refused("@raed").contains("there is no such group; near: @read"));
        assert!(refused("exit_group").contains("it never returns"));
        assert!(refused("read write").contains("no name of a call"));
        assert!(refused("@a\nb").contains(r#""@a\nb""#));
        for name in ["../read", "a\nb", "read*", " read", "@", "é", &"x".repeat(65)] {
            assert!(!refused(name).contains("a\nb"), "{name}");
        }
        assert!(require_names(&["read", "@sync", "raed", "Read"].map(str::to_owned)).is_ok());
    }

    proptest! {
        #[test]
        fn no_input_panics(name: String) {
            let _ = require_names(&[name.clone(), format!("@{name}")]);
            prop_assert!(near(&name).len() <= MOST);
        }
    }
}
