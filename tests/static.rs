//! The static file of `scripts/build-static` where there is nothing else: the whole point of it.
//!
//! `tests/kernels/run` also starts it as the first process of a virtual machine.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{chdir, pivot_root};
use support::{Ledger, RLAT, Report, Workload, can_measure};

/// Where `scripts/build-static` puts it, for this architecture.
fn static_file() -> Option<PathBuf> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let built = Path::new(RLAT).parent()?.parent()?.join(target).join("release/rlat");
    if built.exists() {
        return Some(built);
    }
    let why = format!("{} is missing: scripts/build-static makes it", built.display());
    assert!(std::env::var_os("RLAT_REQUIRE_STATIC").is_none(), "{why}");
    eprintln!("skipped: {why}");
    None
}

/// An empty folder, and in it the file, /proc and /sys.
struct Root(PathBuf);

impl Root {
    fn new(name: &str, file: &Path) -> Self {
        let root = std::env::temp_dir().join(format!("rlat-test-{name}-{}", std::process::id()));
        for folder in ["proc", "sys", "old"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::copy(file, root.join("rlat")).unwrap();
        Self(root)
    }

    /// Mounts both, in a mount namespace of the calling thread alone.
    fn mount(&self) -> io::Result<()> {
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS)?;
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        for (kind, folder) in [("proc", "proc"), ("sysfs", "sys")] {
            mount(Some(kind), &self.0.join(folder), Some(kind), MsFlags::empty(), none)?;
        }
        Ok(())
    }

    /// Makes it the root of the calling thread, and lets go of what was there before.
    fn become_everything(&self) -> io::Result<()> {
        let none = None::<&str>;
        mount(Some(&self.0), &self.0, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)?;
        pivot_root(&self.0, &self.0.join("old"))?;
        chdir("/")?;
        umount2("/old", MntFlags::MNT_DETACH)?;
        Ok(())
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lets the workload make 100 calls while `rlat`, with the last arguments of a measurement to come, runs
/// without any environment; each of them is counted.
fn counts_all(mut rlat: Command) {
    let mut workload = Workload::start(["reads", "100", "1"]);
    rlat.env_clear().args(["-v", "-d", "0", &workload.pid.to_string()]);
    let rlat = support::Rlat::with_open_window(&mut rlat);
    workload.carry_out();
    let report = rlat.interrupt();
    let all = Ledger { entered: 100, recorded: 100, ..Ledger::default() };
    assert_eq!(report.ledger, all, "{report}");
}

#[test]
fn without_any_environment_it_measures() {
    let Some(file) = static_file().filter(|_| can_measure()) else { return };
    counts_all(Command::new(file));
}

#[test]
fn in_an_empty_folder_with_proc_and_sys_it_measures() {
    let Some(file) = static_file().filter(|_| can_measure()) else { return };
    let root = Root::new("chroot", &file);
    // The namespace is that of one thread, and ends with it.
    thread::scope(|scope| {
        let measure = scope.spawn(|| {
            root.mount().unwrap();
            let mut chroot = Command::new("/usr/sbin/chroot");
            chroot.arg(&root.0).arg("/rlat");
            counts_all(chroot);
        });
        measure.join().unwrap();
    });
}

/// Runs a command that finds /proc as its own PID namespace has it, which only a process of that namespace can
/// mount.
#[allow(unsafe_code)]
fn in_own_proc(command: &mut Command) -> Output {
    let mount_proc = || {
        let none = None::<&str>;
        mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none).map_err(io::Error::from)
    };
    // SAFETY: between fork and exec it makes one system call, and takes no lock and no memory.
    unsafe { command.pre_exec(mount_proc) };
    // There is no /dev/null for it.
    command.stdin(Stdio::inherit()).output().unwrap()
}

/// As in a container that has been made from `scratch`: its own processes, and one file.
#[test]
fn in_a_container_of_nothing_else_it_measures_what_it_starts() {
    let Some(file) = static_file().filter(|_| can_measure()) else { return };
    let root = Root::new("container", &file);
    let output: Output = thread::scope(|scope| {
        let measure = scope.spawn(|| {
            root.mount().unwrap();
            root.become_everything().unwrap();
            unshare(
                CloneFlags::CLONE_NEWPID
                    | CloneFlags::CLONE_NEWNET
                    | CloneFlags::CLONE_NEWIPC
                    | CloneFlags::CLONE_NEWUTS,
            )
            .unwrap();
            in_own_proc(Command::new("/rlat").env_clear().args(["--", "/rlat", "check"]))
        });
        measure.join().unwrap()
    });
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let answers = String::from_utf8(output.stdout).unwrap();
    assert!(
        answers.lines().any(|line| line.split_whitespace().eq(["measurement", "yes"])),
        "{answers}"
    );
    let report = Report::of(&stderr);
    assert_eq!(report.ledger.lost, 0, "{report}");
    assert!(report.ledger.recorded > 0, "{report}");
}

/// Builds a file from C, and returns what `scripts/check-static` says of it: nothing, if it may be handed out.
fn verdict(folder: &Path, source: &str, options: &[&str]) -> String {
    let (code, file) = (folder.join("it.c"), folder.join("it"));
    fs::write(&code, source).unwrap();
    let compile = |command: &mut Command| {
        let output = command.args(options).arg(&code).arg("-o").arg(&file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    compile(Command::new("cc").args(["-Os", "-s"]));
    let mut check =
        Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/check-static"));
    let output = check.arg(&file).arg("/built/here/").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.success(), said.is_empty(), "{said}");
    said
}

#[test]
fn a_file_that_needs_something_or_tells_of_its_builder_is_refused() {
    let tools = requirements::tool("cc", "Debian's package gcc")
        && requirements::tool("readelf", "Debian's package binutils");
    if !tools {
        return;
    }
    let folder = std::env::temp_dir().join(format!("rlat-test-refused-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let plain = "int main(void) { return 0; }";
    let calling = "int puts(const char *); int main(void) { return puts(\"\"); }";
    let with = |text: &str| format!("const char *volatile text = \"{text}\"; {plain}");
    let large = format!("char space[1258291] = {{1}}; {plain}");
    for (source, options, expected) in [
        (plain, &["-static-pie"][..], ""),
        (plain, &[], "it has an interpreter"),
        (calling, &["-shared", "-fPIC"], "it needs a library"),
        (plain, &["-static"], "it cannot be placed at any address"),
        (&with("/built/here/main.rs"), &["-static-pie"], "it has the path /built/here/ inside"),
        (&with("/home/somebody/main.rs"), &["-static-pie"], "it has the path /home/ inside"),
        (&large, &["-static-pie"], "and 1258291 are the most"),
    ] {
        let said = verdict(&folder, source, options);
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
