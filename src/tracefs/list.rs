//! Which tracepoints the kernel has.
//!
//! A tracepoint is a folder `events/CATEGORY/NAME`. It has an `id` file if perf_event_open(2) can
//! open it, and only then can it be traced; the kernel's own list, `available_events`, names the same
//! ones. The folders in `events/ftrace` are not tracepoints but records that the kernel's other tracers
//! write: some have an `id` all the same, and no program can be attached to any.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use nix::errno::Errno;

use super::{Glob, Tracefs};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::escape::escape_path;

/// The category that holds no tracepoints.
const NOT_TRACEPOINTS: &str = "ftrace";

/// A tracepoint's full name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracepointName {
    /// The folder under `events`, such as `syscalls`.
    pub category: String,
    /// The folder in it, such as `sys_enter_read`.
    pub name: String,
}

impl fmt::Display for TracepointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.category, self.name)
    }
}

impl Tracefs {
    /// All tracepoints, sorted by their full name, as `LC_ALL=C sort` does.
    ///
    /// # Errors
    ///
    /// [`Kind::Permission`] where a folder may not be read; a tracefs without any tracepoint is
    /// [`Kind::Unsupported`].
    pub fn tracepoints(&self) -> Result<Vec<TracepointName>> {
        let events = self.root().join("events");
        let mut found = Vec::new();
        for category in folder_names(&events)? {
            // Beside the folders there are files, such as `enable`.
            let folder = events.join(&category);
            if category == NOT_TRACEPOINTS || !folder.is_dir() {
                continue;
            }
            for name in folder_names(&folder)? {
                if folder.join(&name).join("id").is_file() {
                    found.push(TracepointName { category: category.clone(), name });
                }
            }
        }
        if found.is_empty() {
            return Err(Error {
                kind: Kind::Unsupported,
                step: Step::List,
                object: format!("tracepoints in {}", escape_path(&events)),
                cause: Cause::Text("none of them has an `id` file".to_owned()),
                next: "use a kernel with CONFIG_PERF_EVENTS".to_owned(),
            });
        }
        found.sort_by_cached_key(ToString::to_string);
        Ok(found)
    }
}

/// The names in a folder. The kernel's are identifiers of C; any that is not text is none of them.
fn folder_names(folder: &Path) -> Result<Vec<String>> {
    let entries: io::Result<Vec<_>> = fs::read_dir(folder).and_then(Iterator::collect);
    let names = |entries: Vec<fs::DirEntry>| {
        entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    entries.map(names).map_err(|error| {
        let errno = Errno::try_from(error).unwrap_or(Errno::EIO);
        let kind = match errno {
            Errno::EACCES | Errno::EPERM => Kind::Permission,
            _ => Kind::Other,
        };
        Error {
            kind,
            step: Step::List,
            object: format!("tracepoints in {}", escape_path(folder)),
            cause: Cause::Explained(errno, "the folder cannot be read".to_owned()),
            next: "run as root, or name another tracefs with --tracefs DIR".to_owned(),
        }
    })
}

/// Which tracepoints a user asks for: `tracepoint:CATEGORY:NAME` as bpftrace writes it, with `t` for
/// `tracepoint` as there, `CATEGORY:NAME`, or `NAME` in any category. Category and name are each a
/// [`Glob`].
///
/// ```
/// use rlat::tracefs::{TracepointName, TracepointPattern};
///
/// let name = TracepointName { category: "syscalls".into(), name: "sys_exit_read".into() };
/// for pattern in ["tracepoint:syscalls:sys_*_read", "sys*:*read", "sys_exit_read", "tracepoint:*"] {
///     assert!(TracepointPattern::parse(pattern).matches(&name));
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracepointPattern {
    category: Option<Glob>,
    name: Glob,
}

impl TracepointPattern {
    /// Reads a pattern. Any text is one.
    pub fn parse(text: &str) -> Self {
        match without_provider(text).split_once(':') {
            Some((category, name)) => {
                Self { category: Some(Glob::new(category)), name: Glob::new(name) }
            }
            None => Self { category: None, name: Glob::new(without_provider(text)) },
        }
    }

    /// Whether the tracepoint is among those asked for.
    pub fn matches(&self, tracepoint: &TracepointName) -> bool {
        let category = self.category.as_ref();
        category.is_none_or(|category| category.matches(&tracepoint.category))
            && self.name.matches(&tracepoint.name)
    }
}

/// The pattern without the word that tells bpftrace what sort of probe is meant.
pub(super) fn without_provider(text: &str) -> &str {
    ["tracepoint:", "t:"].iter().find_map(|word| text.strip_prefix(word)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracefs::scratch::Folder;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    fn with_tracepoints(names: &[&str]) -> (Folder, Tracefs) {
        let folder = Folder::new();
        for name in names {
            let path = folder.0.join("events").join(name);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("id"), "1\n").unwrap();
        }
        let tracefs = Tracefs::open(Some(&folder.0)).unwrap();
        (folder, tracefs)
    }

    fn listed(tracefs: &Tracefs) -> Vec<String> {
        tracefs.tracepoints().unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn folders_with_an_id_are_listed_by_full_name() {
        let (folder, tracefs) =
            with_tracepoints(&["b/z", "b/a", "a_b/x", "a/y", "a1/x", "ftrace/print"]);
        let events = folder.0.join("events");
        fs::write(events.join("enable"), "0\n").unwrap();
        fs::write(events.join("b/filter"), "").unwrap();
        fs::create_dir(events.join("b/without_id")).unwrap();
        fs::create_dir(events.join(OsStr::from_bytes(b"no\xfftext"))).unwrap();
        assert_eq!(listed(&tracefs), ["a1:x", "a:y", "a_b:x", "b:a", "b:z"]);
    }

    #[test]
    fn a_tracefs_without_tracepoints_says_so() {
        let (folder, tracefs) = with_tracepoints(&["ftrace/print"]);
        assert_eq!(tracefs.tracepoints().unwrap_err().kind, Kind::Unsupported);
        fs::remove_dir_all(folder.0.join("events")).unwrap();
        assert_eq!(tracefs.tracepoints().unwrap_err().errno(), Some(Errno::ENOENT));
    }

    #[test]
    fn the_running_kernel_lists_the_same_ones_itself() {
        let tracefs = match Tracefs::open(None) {
            Ok(tracefs) => tracefs,
            Err(error) => {
                assert!(std::env::var_os("RLAT_REQUIRE_BPF").is_none(), "{error}");
                eprintln!("skipped: {error}");
                return;
            }
        };
        let kernels = fs::read_to_string(tracefs.root().join("available_events")).unwrap();
        let mut kernels: Vec<_> = kernels.lines().map(str::to_owned).collect();
        let mut ours = listed(&tracefs);
        kernels.sort();
        ours.sort();
        assert_eq!(ours, kernels);
    }

    #[test]
    fn a_pattern_may_leave_out_what_is_clear() {
        let name = TracepointName { category: "sched".into(), name: "sched_switch".into() };
        let matches = |pattern| TracepointPattern::parse(pattern).matches(&name);
        for pattern in
            ["sched_switch", "sched:sched_switch", "t:sched:*", "tracepoint:sched_s*", "*:*", "*"]
        {
            assert!(matches(pattern), "{pattern}");
        }
        for pattern in
            ["", ":", "sched", "sched:", ":sched_switch", "kprobe:sched_switch", "sched:*:*"]
        {
            assert!(!matches(pattern), "{pattern}");
        }
    }
}
