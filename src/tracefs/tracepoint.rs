//! What tracefs says of one tracepoint: its number and its format.

use std::fs;
use std::path::PathBuf;

use nix::errno::Errno;

use super::refusal::locked_down;
use super::{Format, Found, Tracefs};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::escape::escape_path;
use crate::process::Privileges;

impl Tracefs {
    /// The number of tracepoint `category:name`, which `perf_event_open(2)` takes as its `config`.
    /// It is the same until the next boot only.
    ///
    /// # Errors
    ///
    /// [`Kind::Unsupported`] where the kernel has no such tracepoint, [`Kind::Permission`] where its
    /// file may not be read.
    pub fn tracepoint_id(&self, category: &str, name: &str) -> Result<u64> {
        let text = self.read(category, name, "id")?;
        let text = String::from_utf8_lossy(&text);
        text.trim().parse().map_err(|_| {
            let why = format!("its id is not a number: {:?}", text.trim());
            self.unreadable(category, name, "id", why)
        })
    }

    /// The layout of the record of tracepoint `category:name`.
    ///
    /// # Errors
    ///
    /// As [`tracepoint_id`](Self::tracepoint_id), and [`Kind::Other`] where the file is malformed.
    pub fn format(&self, category: &str, name: &str) -> Result<Format> {
        let text = self.read(category, name, "format")?;
        Format::parse(&text)
            .map_err(|error| self.unreadable(category, name, "format", error.to_string()))
    }

    fn read(&self, category: &str, name: &str, file: &str) -> Result<Vec<u8>> {
        fs::read(self.folder(category, name).join(file)).map_err(|error| {
            let errno = Errno::try_from(error).unwrap_or(Errno::EINVAL);
            let (kind, why, next) = match errno {
                Errno::ENOENT | Errno::ENOTDIR => self.missing(category, name, file),
                Errno::EPERM | Errno::EACCES => forbidden(errno),
                _ => (
                    Kind::Other,
                    format!("its `{file}` file cannot be read"),
                    "name another tracefs with --tracefs DIR".to_owned(),
                ),
            };
            failure(category, name, kind, Cause::Explained(errno, why), next)
        })
    }

    /// Looks which part of the path is missing: each has its own cause.
    fn missing(&self, category: &str, name: &str, file: &str) -> (Kind, String, String) {
        let events = self.root().join("events");
        let list = |folder: PathBuf| format!("`ls {}` lists what there is", escape_path(&folder));
        let (why, next) = if !events.exists() {
            let why = format!("there is no `events` folder in {}", escape_path(self.root()));
            (
                why,
                "see that tracefs is still mounted, and that lockdown does not close it".to_owned(),
            )
        } else if self.folder(category, name).exists() && self.how() != Found::Given {
            let why = format!("it has no `{file}` file: this kernel is built without perf events");
            (why, "use a kernel with CONFIG_PERF_EVENTS".to_owned())
        } else if self.how() == Found::Given {
            (format!("{} lacks it", escape_path(self.root())), list(events))
        } else if events.join(category).exists() {
            ("this kernel has no such tracepoint".to_owned(), list(events.join(category)))
        } else if category == "syscalls" {
            let why = "this kernel is built without tracepoints for system calls".to_owned();
            (why, "use a kernel with CONFIG_FTRACE_SYSCALLS".to_owned())
        } else {
            (format!("this kernel has no tracepoints of category {category}"), list(events))
        };
        (Kind::Unsupported, why, next)
    }

    fn unreadable(&self, category: &str, name: &str, file: &str, why: String) -> Error {
        let path = self.folder(category, name).join(file);
        let next = format!("see what it holds: `cat {}`", escape_path(&path));
        failure(category, name, Kind::Other, Cause::Text(why), next)
    }

    fn folder(&self, category: &str, name: &str) -> PathBuf {
        self.root().join("events").join(category).join(name)
    }
}

/// Why a file may not be read: by its mode, or since lockdown closes all of tracefs.
fn forbidden(errno: Errno) -> (Kind, String, String) {
    let (why, next) = if errno == Errno::EPERM && locked_down(&Privileges::read()) {
        (
            "lockdown is at confidentiality (/sys/kernel/security/lockdown), which closes tracefs",
            "boot without `lockdown=confidentiality`",
        )
    } else {
        ("this user may not read it in tracefs", "run as root, or give CAP_DAC_READ_SEARCH")
    };
    (Kind::Permission, why.to_owned(), next.to_owned())
}

fn failure(category: &str, name: &str, kind: Kind, cause: Cause, next: String) -> Error {
    Error { kind, step: Step::Tracepoint, object: format!("{category}:{name}"), cause, next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracefs::scratch::Folder;

    /// A copy of the tracefs of a kernel, with one tracepoint.
    fn copy() -> (Folder, Tracefs) {
        let folder = Folder::new();
        let tracepoint = folder.0.join("events/syscalls/sys_exit_read");
        fs::create_dir_all(&tracepoint).unwrap();
        fs::write(tracepoint.join("id"), "841\n").unwrap();
        let format = include_bytes!("../../tests/data/format/sys_exit_read");
        fs::write(tracepoint.join("format"), format).unwrap();
        let tracefs = Tracefs::open(Some(&folder.0)).unwrap();
        (folder, tracefs)
    }

    #[test]
    fn a_copy_gives_id_and_format() {
        let (_folder, tracefs) = copy();
        assert_eq!(tracefs.tracepoint_id("syscalls", "sys_exit_read").unwrap(), 841);
        assert_eq!(tracefs.format("syscalls", "sys_exit_read").unwrap().id, 841);
    }

    #[test]
    fn what_is_not_there_is_unsupported() {
        let (folder, tracefs) = copy();
        let error = tracefs.tracepoint_id("syscalls", "sys_exit_frob").unwrap_err();
        assert_eq!((error.kind, error.errno()), (Kind::Unsupported, Some(Errno::ENOENT)));
        assert_eq!(error.object, "syscalls:sys_exit_frob");
        fs::remove_dir_all(folder.0.join("events")).unwrap();
        let error = tracefs.format("syscalls", "sys_exit_read").unwrap_err();
        assert!(error.to_string().contains("no `events` folder"), "{error}");
    }

    #[test]
    fn a_malformed_file_is_named() {
        let (folder, tracefs) = copy();
        let tracepoint = folder.0.join("events/syscalls/sys_exit_read");
        fs::write(tracepoint.join("id"), "x").unwrap();
        fs::write(tracepoint.join("format"), "name: y\nID: 1\n\tfield:z;\n").unwrap();
        let error = tracefs.tracepoint_id("syscalls", "sys_exit_read").unwrap_err();
        assert_eq!(error.kind, Kind::Other);
        assert!(error.to_string().contains("not a number: \"x\""), "{error}");
        let error = tracefs.format("syscalls", "sys_exit_read").unwrap_err();
        assert!(error.to_string().contains("in line 3"), "{error}");
    }

    #[test]
    fn the_running_kernel_is_told_apart_from_a_copy() {
        let tracefs = match Tracefs::open(None) {
            Ok(tracefs) => tracefs,
            Err(error) => {
                assert!(std::env::var_os("RLAT_REQUIRE_BPF").is_none(), "{error}");
                eprintln!("skipped: {error}");
                return;
            }
        };
        let id = tracefs.tracepoint_id("sched", "sched_process_exit").unwrap();
        assert_eq!(tracefs.format("sched", "sched_process_exit").unwrap().id, id);
        let error = tracefs.tracepoint_id("sched", "sched_frob").unwrap_err();
        assert!(error.to_string().contains("no such tracepoint"), "{error}");
        let error = tracefs.tracepoint_id("frob", "frob").unwrap_err();
        assert!(error.to_string().contains("category frob"), "{error}");
    }
}
