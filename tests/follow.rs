//! `--follow`: the calls of children are counted from their first one, and of nobody else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod held;
mod requirements;
mod support;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use ::rlat::process::{Activity, activity};
use held::Held;
use nix::sys::signal::Signal;
use support::{Ledger, Lines, Report, Rlat, can_measure, child_of, rlat, send, until, wait_for};

/// A file of three bytes, which dash's `read` takes in three calls.
fn three_bytes(name: &str) -> String {
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    fs::write(&path, "ab\n").unwrap();
    path.to_str().unwrap().to_owned()
}

/// Measures the command with its children, and what it calls on standard input if `fd` is that.
fn follow(options: &[&str], command: &[&str]) -> Report {
    let ended = Rlat::spawn(rlat(["--follow"]).args(options).arg("--").args(command)).ended();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let report = Report::of(&ended.stderr);
    assert_eq!(report.ledger.recorded, report.ledger.entered, "{report}");
    report
}

fn by_strace(command: &[&str]) -> u64 {
    let table =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("strace-{}", std::process::id()));
    let strace = ["-f", "-c", "-e", "trace=read", "-o"];
    let status = Command::new("strace").args(strace).arg(&table).args(command).status().unwrap();
    assert!(status.success());
    let table = fs::read_to_string(table).unwrap();
    let row = table.lines().find(|line| line.ends_with(" read")).unwrap();
    row.split_ascii_whitespace().nth(3).unwrap().parse().unwrap()
}

#[test]
fn all_of_a_script_is_counted_and_nobody_else() {
    if !can_measure() || !requirements::tool("strace", "strace") {
        return;
    }
    let script = "dd if=/dev/zero of=/dev/null bs=1 count=1000 status=none
        (dd if=/dev/zero of=/dev/null bs=1 count=500 status=none; sh -c 'dd bs=1 count=30 status=none' </dev/zero >/dev/null) &
        wait";
    let command = ["sh", "-c", script];
    let mut stranger = Command::new("dd");
    stranger.args(["if=/dev/zero", "of=/dev/null", "bs=1", "status=none"]);
    let mut stranger = stranger.spawn().unwrap();
    let report = follow(&[], &command);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!(report.ledger.recorded, by_strace(&command), "{report}");
    assert!(report.ledger.recorded > 1530, "{report}");
}

#[test]
fn each_of_500_short_children_is_counted_and_leaves_room() {
    if !can_measure() || !requirements::tool("bpftool", "bpftool") {
        return;
    }
    let file = three_bytes("storm");
    let script = format!(
        "i=0; while [ $i -lt 500 ]; do (read x <{file}) & i=$((i + 1)); done; wait
         echo process $$ >&2; kill -STOP $$"
    );
    let mut rlat =
        Rlat::spawn(&mut rlat(["-v", "--follow", "--fd", "0", "--", "sh", "-c", &script]));
    let members = members_of(&mut rlat);
    let command = rlat.said("process ").parse().unwrap();
    // The kernel frees what has ended some time later, and does not tell of each. Seldom, since it is
    // bpf(2) that is asked.
    until("the members that have ended are gone", || {
        thread::sleep(Duration::from_millis(100));
        (members() < 250).then_some(())
    });
    send(Signal::SIGCONT, command);
    let ended = rlat.ended();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let report = Report::of(&ended.stderr);
    assert_eq!(report.ledger.recorded, 1500, "{report}");
}

/// Counts the members of the family that this rlat follows: its program at the end of a task has no
/// other map.
fn members_of(rlat: &mut Rlat) -> impl Fn() -> usize + use<> {
    let said = rlat.said("program rlat_free: id ");
    let program = said.split(',').next().unwrap().to_owned();
    let bpftool = |args: [&str; 5]| {
        let output = Command::new("bpftool").args(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = bpftool(["--json", "prog", "show", "id", &program]);
    let (_, map) = shown.split_once("\"map_ids\":[").unwrap();
    let map = map.split(']').next().unwrap().to_owned();
    move || bpftool(["--json", "map", "dump", "id", &map]).matches("\"key\":").count()
}

#[test]
fn threads_of_children_are_counted() {
    if !can_measure() || !requirements::tool("python3", "python3") {
        return;
    }
    let script = "
import os, threading
os.dup2(os.open('/dev/zero', os.O_RDONLY), 77)
def reads():
    for _ in range(100): os.read(77, 1)
for _ in range(5):
    if os.fork() == 0:
        threads = [threading.Thread(target=reads) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        os._exit(0)
for _ in range(5): os.wait()
reads()
";
    let report = follow(&["--fd", "77"], &["python3", "-c", script]);
    assert_eq!(report.ledger.recorded, 5 * 4 * 100 + 100, "{report}");
}

/// A shell that runs what it reads, byte by byte, from standard input.
struct Shell(Child);

impl Shell {
    fn start() -> Self {
        let shell = Command::new("sh").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let shell = Self(shell);
        Self::wait_until_in_read(shell.pid());
        shell
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn run(&mut self, line: &str) {
        self.0.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    fn wait_until_in_read(pid: u32) {
        until("it is in read()", || {
            let now = activity(pid, pid);
            let in_read = matches!(now, Ok(Activity::InSyscall { number: libc::SYS_read, .. }));
            in_read.then_some(())
        });
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn children_of_a_process_are_counted_from_their_first_call() {
    if !can_measure() || !requirements::tool("python3", "python3") {
        return;
    }
    let script = "
import os, signal
os.dup2(os.open('/dev/zero', os.O_RDONLY), 77)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print('ready', flush=True)
signal.sigwait([signal.SIGUSR1])
def reads(calls):
    for _ in range(calls): os.read(77, 1)
def child(work):
    if os.fork() == 0:
        work()
        os._exit(0)
def grandparent():
    reads(100)
    child(lambda: reads(50))
    os.wait()
for _ in range(3): child(grandparent)
for _ in range(3): os.wait()
reads(7)
";
    for (options, calls) in [(&["--follow"][..], 3 * (100 + 50) + 7), (&[], 7)] {
        let mut python = Command::new("python3");
        let mut python = python.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        Lines::of(python.stdout.take().unwrap()).take("ready");
        let pid = python.id().to_string();
        let mut command = rlat(["-v", "-d", "0", "--fd", "77"]);
        let rlat = Rlat::with_open_window(command.args(options).arg(&pid));
        send(Signal::SIGUSR1, python.id());
        assert!(wait_for(&mut python).unwrap().success());
        let report = rlat.result();
        let all = Ledger { entered: calls, recorded: calls, ..Ledger::default() };
        assert_eq!(report.ledger, all, "{report}");
    }
}

#[test]
fn a_child_that_hangs_is_listed() {
    if !can_measure() {
        return;
    }
    for before_the_window in [true, false] {
        let mut shell = Shell::start();
        let pid = shell.pid().to_string();
        let mut held = Held::start(&mut rlat(["-v", "-d", "0", "--follow", &pid]));
        if !before_the_window {
            held.release();
        }
        shell.run("cat\n");
        let cat = child_of(shell.pid());
        Shell::wait_until_in_read(cat);
        held.release();
        let report = held.interrupt();
        let (before, entered, so_far) =
            if before_the_window { (1, 0, "more than ") } else { (0, 1, "") };
        assert_eq!((report.ledger.before, report.ledger.in_flight), (before, 1), "{report}");
        assert!(report.ledger.entered >= entered, "{report}");
        let listed = format!("thread {cat} (cat), {so_far}");
        assert!(report.in_flight().iter().any(|line| line.starts_with(&listed)), "{report}");
    }
}
