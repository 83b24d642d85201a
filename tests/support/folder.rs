//! Folders for what a test writes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A new folder, which goes away with all that is in it when this is dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        // Tests of one process run at the same time.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("rlat-test-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// The same as text, for arguments.
    pub(crate) fn text(&self, name: impl AsRef<Path>) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// What is in it, sorted.
    pub(crate) fn names(&self) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A copy of what rlat looks for in a tracefs, which everybody may read.
pub(crate) struct TracefsCopy(Folder);

impl TracefsCopy {
    /// With all that a measurement of read() looks for.
    pub(crate) fn whole() -> Self {
        let syscalls = [("syscalls", "sys_enter_read"), ("syscalls", "sys_exit_read")];
        let copy = Self::with(&syscalls);
        copy.add("sched", "sched_process_exit");
        copy
    }

    /// With these tracepoints, by category and name.
    pub(crate) fn with(tracepoints: &[(&str, &str)]) -> Self {
        let copy = Self(Folder::new("copy-of-tracefs"));
        for (category, name) in tracepoints {
            copy.add(category, name);
        }
        copy
    }

    fn add(&self, category: &str, name: &str) {
        let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/format");
        let event = self.event(category, name);
        fs::create_dir_all(&event).unwrap();
        let format = fs::read_to_string(formats.join(name)).unwrap();
        let id = format.lines().find_map(|line| line.strip_prefix("ID: ")).unwrap().to_owned();
        fs::write(event.join("format"), format).unwrap();
        fs::write(event.join("id"), id + "\n").unwrap();
    }

    fn event(&self, category: &str, name: &str) -> PathBuf {
        self.0.path("events").join(category).join(name)
    }

    /// Gives the result of read() another name than kernels do.
    pub(crate) fn rename_result(&self) {
        let format = self.event("syscalls", "sys_exit_read").join("format");
        let renamed = fs::read_to_string(&format).unwrap().replace(" ret;", " result;");
        fs::write(&format, renamed).unwrap();
    }

    /// The option that names it.
    pub(crate) fn option(&self) -> String {
        format!("--tracefs={}", self.0.0.display())
    }
}
