//! Whether the kernel preempts itself.

use std::fs;

use nix::sys::utsname::uname;

/// Whether the kernel runs with full preemption; `None` where it cannot be told.
pub(super) fn is_full() -> Option<bool> {
    // Only with debugfs: see sched_dynamic_show() in kernel/sched/debug.c.
    if let Ok(modes) = fs::read_to_string("/sys/kernel/debug/sched/preempt") {
        return of_modes(&modes);
    }
    let version = uname().ok()?.version().to_string_lossy().into_owned();
    let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    of_version(&version, &command_line)
}

/// The chosen one of the modes is in brackets: `none voluntary (full)`.
fn of_modes(modes: &str) -> Option<bool> {
    let chosen = modes.split_once('(')?.1.split_once(')')?.0;
    Some(chosen == "full")
}

/// The version of a kernel says how it was built (`scripts/mkcompile_h`): with `PREEMPT_DYNAMIC`, the
/// mode is chosen when it boots, and only the command line tells.
fn of_version(version: &str, command_line: &str) -> Option<bool> {
    let has = |word: &str| version.split_whitespace().any(|one| one == word);
    if has("PREEMPT_RT") || has("PREEMPT") {
        return Some(true);
    }
    if !has("PREEMPT_DYNAMIC") {
        return Some(false);
    }
    let mut modes =
        command_line.split_whitespace().filter_map(|word| word.strip_prefix("preempt="));
    modes.next_back().map(|mode| mode == "full")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        assert_eq!(of_modes("none voluntary (full) \n"), Some(true));
        assert_eq!(of_modes("(none) voluntary full lazy\n"), Some(false));
        assert_eq!(of_modes(""), None);
    }

    #[test]
    fn versions() {
        let dynamic = "#1 SMP PREEMPT_DYNAMIC Debian 6.12.9-1";
        assert_eq!(of_version(dynamic, "quiet"), None);
        assert_eq!(of_version(dynamic, "preempt=full quiet"), Some(true));
        assert_eq!(of_version(dynamic, "preempt=full preempt=none"), Some(false));
        assert_eq!(of_version("#1 SMP PREEMPT_RT Debian 6.1.1-1", ""), Some(true));
        assert_eq!(of_version("#1 SMP PREEMPT Mon", ""), Some(true));
        assert_eq!(of_version("#1 SMP Debian 5.10.1-1", "preempt=full"), Some(false));
    }
}
