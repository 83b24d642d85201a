//! Whose calls, which calls, and which descriptors: each option against dd, whose calls are known.
//!
//! dd makes its input descriptor 0 and its output descriptor 1. With `bs=1 count=N` it reads N times
//! from the one and writes N times to the other; what it reads while it starts is on others. Children
//! are in tests/follow.rs.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod requirements;

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::mount::MsFlags;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const RLAT: &str = env!("CARGO_BIN_EXE_rlat");

/// The number of calls in each map of a JSON result, by name.
fn counts(json: &[u8]) -> Vec<(String, u64)> {
    let lines = String::from_utf8(json.to_vec()).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["type"] == "map")
        .flat_map(|line| {
            let maps = line["data"].as_object().unwrap().clone();
            maps.into_iter().map(|(name, count)| (name, count.as_u64().unwrap()))
        })
        .collect()
}

/// What rlat counts of a command that it starts.
fn of_command(options: &[&str], command: &[&str]) -> Vec<(String, u64)> {
    let file = scratch("of_command.json");
    let ended = Command::new(RLAT)
        .args(options)
        .args(["-f", "json", "-o"])
        .arg(&file)
        .arg("--")
        .args(command)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(ended.success(), "{options:?} {command:?}");
    let result = fs::read(&file).unwrap();
    fs::remove_file(file).unwrap();
    counts(&result)
}

/// A measurement that runs until it is told to stop, its window open. It is killed when this is dropped.
struct Running(Option<Child>);

/// What it counted, and whether the kernel skipped its programs, as it may when others call bpf(2).
struct Counted {
    calls: u64,
    was_disturbed: bool,
}

impl Running {
    fn start(options: &[&str]) -> Self {
        Self::start_on("0", options)
    }

    /// The same for a descriptor other than 0.
    fn start_on(descriptor: &str, options: &[&str]) -> Self {
        let mut rlat = Command::new(RLAT)
            .args(["-d", "0", "-f", "json", "--fd", descriptor])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(rlat.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{options:?}");
        Self(Some(rlat))
    }

    fn calls(self) -> u64 {
        self.interrupt().calls
    }

    /// Ends it.
    fn interrupt(self) -> Counted {
        kill(Pid::from_raw(self.0.as_ref().unwrap().id() as i32), Signal::SIGINT).unwrap();
        self.at_its_end()
    }

    /// Waits until it ends by itself.
    fn at_its_end(mut self) -> Counted {
        let ended = self.0.take().unwrap().wait_with_output().unwrap();
        assert!(ended.status.success());
        let last = String::from_utf8(ended.stdout.clone()).unwrap();
        let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
        let missed = last["data"]["missed_runs"].as_object();
        Counted {
            calls: counts(&ended.stdout).into_iter().map(|(_, count)| count).sum(),
            was_disturbed: missed.is_some_and(|missed| missed.values().any(|runs| *runs != 0)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut rlat) = self.0.take() {
            let _ = rlat.kill();
            let _ = rlat.wait();
        }
    }
}

/// Measures until the kernel has skipped no program.
fn undisturbed<const N: usize>(measure: impl Fn() -> [Counted; N]) -> [u64; N] {
    for _ in 0..10 {
        let counted = measure();
        if !counted.iter().any(|counted| counted.was_disturbed) {
            return counted.map(|counted| counted.calls);
        }
    }
    panic!("the kernel skips programs again and again");
}

fn scratch(name: &str) -> PathBuf {
    let thread = std::thread::current().name().unwrap_or("test").to_owned();
    std::env::temp_dir().join(format!("rlat-{}-{thread}-{name}", std::process::id()))
}

fn dd(count: u32) -> Vec<String> {
    ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "status=none"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("count={count}")])
        .collect()
}

fn run_dd(program: &str, count: u32) {
    assert!(Command::new(program).args(&dd(count)[1..]).status().unwrap().success());
}

#[test]
fn each_system_call_is_counted_in_a_map_of_its_own() {
    if !requirements::bpf() {
        return;
    }
    let dd = dd(300);
    let dd: Vec<&str> = dd.iter().map(String::as_str).collect();
    let found = of_command(&["-e", "read,write", "--fd", "0", "--fd", "1"], &dd);
    assert_eq!(found, [("@read_calls".to_owned(), 300), ("@write_calls".to_owned(), 300)]);
    let found = of_command(&["-e", "read,write", "--fd", "1"], &dd);
    assert_eq!(found, [("@read_calls".to_owned(), 0), ("@write_calls".to_owned(), 300)]);
    let found = of_command(&["-e", "@write", "--fd", "1"], &dd);
    assert_eq!(found[0], ("@write_calls".to_owned(), 300));
    assert!(found.len() > 1 && found[1..].iter().all(|(_, count)| *count == 0), "{found:?}");
}

#[test]
fn calls_are_chosen_by_what_they_return() {
    if !requirements::bpf() {
        return;
    }
    let file = scratch("ten bytes");
    fs::write(&file, "0123456789").unwrap();
    let input = format!("if={}", file.display());
    let command = ["dd", &input, "of=/dev/null", "bs=1", "status=none"];
    for (which, count) in [("any", 11), ("ok", 11), ("zero", 1), ("error", 0)] {
        let found = of_command(&["--fd", "0", "--ret", which], &command);
        assert_eq!(found, [("@calls".to_owned(), count)], "{which}");
    }
    fs::remove_file(file).unwrap();
}

#[test]
fn the_whole_system_is_measured_and_all_threads_of_a_name() {
    if !requirements::bpf() {
        return;
    }
    // A name that nobody else has, of the 15 bytes that the kernel keeps.
    let folder = scratch("bin");
    fs::create_dir(&folder).unwrap();
    let program = folder.join("rlat-named-dd");
    symlink("/bin/dd", &program).unwrap();
    let program = program.to_str().unwrap();

    let (named, all) = (Running::start(&["--comm", "rlat-named-dd"]), Running::start(&["--all"]));
    run_dd(program, 200);
    run_dd("dd", 50);
    assert_eq!(named.calls(), 200);
    // Others may read from their descriptor 0 meanwhile.
    assert!(all.calls() >= 250);
    fs::remove_dir_all(folder).unwrap();
}

/// A descriptor that nobody else reads from.
const OWN: &str = "917";

#[test]
fn the_whole_system_is_measured_exactly() {
    if !requirements::bpf() || !requirements::tool("python3", "python3") {
        return;
    }
    let script = "import os, sys
os.dup2(os.open('/dev/zero', os.O_RDONLY), 917)
for _ in range(int(sys.argv[1])): os.read(917, 1)";
    let calls = undisturbed(|| {
        let all = Running::start_on(OWN, &["--all"]);
        let mut readers = ["30", "400", "5000"]
            .map(|calls| Command::new("python3").args(["-c", script, calls]).spawn().unwrap());
        assert!(readers.iter_mut().all(|reader| reader.wait().unwrap().success()));
        [all.interrupt()]
    });
    assert_eq!(calls, [5430]);
}

/// A control group of our own, in a mount that only this thread and what it starts see.
struct ControlGroup {
    mount: PathBuf,
    group: PathBuf,
}

impl ControlGroup {
    fn create() -> Option<Self> {
        let mount = scratch("cgroup2");
        fs::create_dir(&mount).unwrap();
        let mounted = unshare(CloneFlags::CLONE_NEWNS).and_then(|()| {
            let none = None::<&str>;
            nix::mount::mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
            nix::mount::mount(Some("cgroup2"), &mount, Some("cgroup2"), MsFlags::empty(), none)
        });
        let group = mount.join(format!("rlat-test-{}", std::process::id()));
        let own = Self { mount, group };
        let created = mounted.map_err(io::Error::from).and_then(|()| {
            fs::create_dir(&own.group)?;
            fs::create_dir(own.inner())?;
            fs::create_dir(own.beside())
        });
        match created {
            Ok(()) => Some(own),
            Err(error) => {
                requirements::skip(format!("no control group can be made here: {error}"));
                None
            }
        }
    }

    /// One that is in it.
    fn inner(&self) -> PathBuf {
        self.group.join("inner")
    }

    /// One that is not, with a name that begins like its own.
    fn beside(&self) -> PathBuf {
        self.group.with_extension("beside")
    }

    /// Runs dd in that group.
    fn run_dd(group: &Path, count: u32) {
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).arg(group.join("cgroup.procs")).args(dd(count));
        assert!(shell.status().unwrap().success());
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        for group in [self.inner(), self.beside(), self.group.clone()] {
            let _ = fs::remove_dir(group);
        }
        let _ = nix::mount::umount(&self.mount);
        let _ = fs::remove_dir(&self.mount);
    }
}

#[test]
fn a_control_group_is_measured_with_those_below_it_and_nobody_else() {
    if !requirements::bpf() {
        return;
    }
    let Some(cgroup) = ControlGroup::create() else { return };
    let (group, inner) = (cgroup.group.clone(), cgroup.inner());
    let calls = undisturbed(|| {
        let measured =
            [&group, &inner].map(|group| Running::start(&["--cgroup", group.to_str().unwrap()]));
        ControlGroup::run_dd(&group, 200);
        ControlGroup::run_dd(&inner, 50);
        ControlGroup::run_dd(&cgroup.beside(), 30);
        run_dd("dd", 70);
        measured.map(Running::interrupt)
    });
    assert_eq!(calls, [250, 50]);
}

/// A process of which three threads read, each on its own, and the first one does not.
const THREADS: &str = "import os, sys, threading
os.dup2(os.open('/dev/zero', os.O_RDONLY), 917)
go = threading.Event()
def reads(calls):
    print(threading.get_native_id(), flush=True)
    go.wait()
    for _ in range(calls): os.read(917, 1)
threads = [threading.Thread(target=reads, args=[calls]) for calls in (10, 200, 3000)]
for thread in threads:
    thread.start()
    if sys.stdin.readline() != 'next\\n': os._exit(1)
go.set()
for thread in threads: thread.join()";

#[test]
fn single_threads_of_a_process_are_measured() {
    if !requirements::bpf() || !requirements::tool("python3", "python3") {
        return;
    }
    let calls = undisturbed(|| {
        let mut python = Command::new("python3")
            .args(["-c", THREADS])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut orders = python.stdin.take().unwrap();
        let mut lines = BufReader::new(python.stdout.take().unwrap()).lines();
        let mut tids = Vec::new();
        for next in ["next\n", "next\n", ""] {
            tids.push(lines.next().unwrap().unwrap());
            orders.write_all(next.as_bytes()).unwrap();
        }
        let first = python.id().to_string();
        let several = format!("{},{}", tids[0], tids[2]);
        let measured =
            [&first, &tids[1], &several].map(|tids| Running::start_on(OWN, &["--tid", tids]));
        orders.write_all(b"next\n").unwrap();
        assert!(python.wait().unwrap().success());
        // Each ends with its threads.
        measured.map(Running::at_its_end)
    });
    assert_eq!(calls, [0, 200, 3010]);
}

#[test]
fn several_processes_are_measured_and_one_thread() {
    if !requirements::bpf() {
        return;
    }
    // Two shells that become dd when they are told, by their own descriptor 3.
    let waiting = || {
        Command::new("sh")
            .args(["-c", "kill -STOP $$; exec \"$@\"", "sh"])
            .args(dd(70))
            .spawn()
            .unwrap()
    };
    let mut shells = [waiting(), waiting(), waiting()];
    for shell in &shells {
        let stat = format!("/proc/{}/stat", shell.id());
        while !fs::read_to_string(&stat).unwrap().contains(") T ") {
            std::thread::yield_now();
        }
    }
    let ids = shells.each_ref().map(|shell| shell.id().to_string());
    let both = Running::start(&["-p", &format!("{},{}", ids[0], ids[1])]);
    let one = Running::start(&["--tid", &ids[2]]);
    for shell in &mut shells {
        kill(Pid::from_raw(shell.id() as i32), Signal::SIGCONT).unwrap();
    }
    for shell in &mut shells {
        assert!(shell.wait().unwrap().success());
    }
    assert_eq!([both, one].map(|measured| measured.at_its_end().calls), [140, 70]);
}
