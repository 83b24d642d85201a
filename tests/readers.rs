//! Whoever is to get the result may be gone, slow, or not there at all.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod documented;
mod requirements;
mod support;

use std::fs::{self, File};
use std::io::{Read as _, Write as _, pipe};
use std::process::{Child, Command, Stdio};

use ::rlat::process::{Activity, activity};
use documented::assert_documented;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, mkfifo};
use support::{Ended, Folder, RLAT, Report, Rlat, Workload, can_measure, rlat, until};

/// A shell's command with rlat as `"$0"`.
fn in_shell(script: &str, target: &Workload) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", script, RLAT, &target.pid.to_string()]);
    Rlat::spawn(command.stdout(Stdio::piped())).ended()
}

#[test]
fn an_output_that_takes_nothing_costs_no_result() {
    if !can_measure() {
        return;
    }
    let target = Workload::start(["reads", "1", "1"]);
    for (wrong, script) in [
        ("standard output is closed", r#""$0" -d 1ms "$1" >&-"#),
        ("standard output is full", r#""$0" -d 1ms "$1" >/dev/full"#),
        (
            "nobody reads standard output any more",
            r#"mkfifo "$2"; sleep 0 <"$2" & exec 3>"$2"; wait; exec "$0" -d 1ms "$1" >&3"#,
        ),
        ("the device of `-o` is full", r#""$0" -d 1ms -o /dev/full "$1""#),
    ] {
        let folder = Folder::new("fifo");
        let mut command = Command::new("sh");
        command.args(["-c", script, RLAT, &target.pid.to_string(), &folder.text("fifo")]);
        let ended = Rlat::spawn(command.stdout(Stdio::piped())).ended();
        assert_documented(wrong, ended.code, &ended.stderr);
        assert_eq!(Report::of(&ended.stderr).ledger.entered, 0, "{wrong}: {ended:#?}");
    }
    for (wrong, script) in [
        ("standard error is closed", r#"exec "$0" -d 1ms "$1" 2>&-"#),
        ("standard error is full", r#"exec "$0" -d 1ms "$1" 2>/dev/full"#),
    ] {
        let ended = in_shell(script, &target);
        assert_documented(wrong, ended.code, &ended.stderr);
        assert_eq!(Report::of(&ended.stdout).ledger.entered, 0, "{wrong}: {ended:#?}");
    }
}

/// Waits until rlat waits in that call.
fn wait_until_in(call: i64, rlat: u32) {
    until("rlat waits for a reader", || {
        let now = activity(rlat, rlat);
        matches!(now, Ok(Activity::InSyscall { number, .. }) if number == call).then_some(())
    });
}

#[test]
fn nobody_has_to_wait_for_a_reader() {
    if !can_measure() {
        return;
    }
    let target = Workload::start(["reads", "1", "1"]);
    let folder = Folder::new("fifo");
    let fifo = folder.text("fifo");
    mkfifo(fifo.as_str(), Mode::S_IRWXU).unwrap();
    let pid = target.pid.to_string();
    let rlat_to_fifo = Rlat::spawn(&mut rlat(["-d", "0", "-o", &fifo, &pid]));
    wait_until_in(libc::SYS_openat, rlat_to_fifo.pid());
    rlat_to_fifo.send(Signal::SIGTERM);
    let ended = rlat_to_fifo.ended();
    assert_documented("nobody opens the FIFO of `-o`: one signal", ended.code, &ended.stderr);

    let (_reader, mut full) = pipe().unwrap();
    fcntl(&full, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while full.write(b"x").is_ok() {}
    fcntl(&full, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    let mut rlat = Rlat::spawn(rlat(["-d", "0", &pid]).stdout(full));
    rlat.wait_for_window();
    rlat.send(Signal::SIGTERM);
    wait_until_in(libc::SYS_write, rlat.pid());
    rlat.send(Signal::SIGTERM);
    let ended = rlat.ended();
    assert_documented("nobody reads from the pipe: two signals", ended.code, &ended.stderr);
}

#[test]
fn a_slow_reader_gets_all() {
    if !can_measure() {
        return;
    }
    // Each is a line, so that the result is more than the pipe holds.
    let mut target = Workload::start(["input", "100"]);
    target.start_reading(100);
    let (mut reader, stdout) = pipe().unwrap();
    fcntl(&reader, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let mut rlat = Rlat::spawn(rlat(["-d", "0", &target.pid.to_string()]).stdout(stdout));
    rlat.wait_for_window();
    rlat.send(Signal::SIGTERM);
    let mut text = Vec::new();
    let mut byte = [0];
    while reader.read(&mut byte).unwrap() > 0 {
        text.extend(byte);
        if text.len() == 1 {
            wait_until_in(libc::SYS_write, rlat.pid());
        }
    }
    let ended = rlat.ended();
    assert_documented("a slow reader", ended.code, &ended.stderr);
    let report = Report::of(std::str::from_utf8(&text).unwrap());
    assert_eq!(report.in_flight().len(), 100, "{report}");
}

/// rlat at a terminal of script(1), which goes when that is killed.
struct Terminal {
    script: Child,
    rlat: Pid,
    folder: Folder,
}

impl Terminal {
    /// A shell's command comes before, and ends in `exec rlat` with these arguments. What rlat says is in a
    /// file, for there will be no terminal.
    fn of(before: &str, args: &str) -> Self {
        // When script(1) is gone, rlat's exit status comes to us.
        set_child_subreaper(true).unwrap();
        let folder = Folder::new("terminal");
        let stderr = folder.text("stderr");
        let command = format!("{before} exec {RLAT} {args} 2>{stderr}");
        let script = Command::new("script")
            .args(["--quiet", "--return", "--command", &command, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let said = || fs::read_to_string(&stderr).unwrap_or_default();
        until("the window is open", || said().starts_with("ready\n").then_some(()));
        let rlat = Pid::from_raw(support::child_of(script.id()) as i32);
        Self { script, rlat, folder }
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder.path("stderr")).unwrap()
    }

    fn resize(&self, rows: u32, columns: u32) {
        let terminal = fs::read_link(format!("/proc/{}/fd/1", self.rlat)).unwrap();
        let size = ["rows".to_owned(), rows.to_string(), "cols".to_owned(), columns.to_string()];
        let status = Command::new("stty").arg("-F").arg(terminal).args(size).status().unwrap();
        assert!(status.success());
    }

    fn hang_up(&mut self) {
        self.script.kill().unwrap();
        self.script.wait().unwrap();
    }

    /// The exit code, when it has ended after its terminal.
    fn code(&self) -> Option<i32> {
        let ended =
            until("it has ended", || match waitpid(self.rlat, Some(WaitPidFlag::WNOHANG)) {
                // It is script(1)'s child for a moment yet.
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => None,
                ended => Some(ended.unwrap()),
            });
        match ended {
            WaitStatus::Exited(_, code) => Some(code),
            _ => None,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = kill(self.rlat, Signal::SIGKILL);
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

fn has_terminals() -> bool {
    requirements::tool("script", "bsdutils") && requirements::tool("stty", "coreutils")
}

#[test]
fn a_terminal_of_any_size_is_drawn_on() {
    if !can_measure() || !has_terminals() {
        return;
    }
    let mut target = Workload::start(["reads", "10", "1"]);
    let mut terminal = Terminal::of("", &format!("--live -i 100ms -d 0 {}", target.pid));
    for (rows, columns) in [(1, 1), (2, 1000), (0, 0), (65_535, 65_535), (24, 80)] {
        terminal.resize(rows, columns);
        target.carry_out();
    }
    kill(terminal.rlat, Signal::SIGTERM).unwrap();
    // script(1) ends as what it has started.
    let code = support::wait_for(&mut terminal.script).unwrap().code();
    assert_documented("the terminal is resized", code, &terminal.said());
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    if !can_measure() || !has_terminals() {
        return;
    }
    let target = Workload::start(["reads", "1", "1"]);
    let pid = target.pid;
    let mut terminal = Terminal::of("", &format!("-d 0 {pid}"));
    terminal.hang_up();
    assert_documented("the terminal is gone", terminal.code(), &terminal.said());
    assert_eq!(Report::of(&terminal.said()).ledger.entered, 0);

    for options in ["--live", "-i 100ms"] {
        let mut terminal = Terminal::of("trap '' HUP;", &format!("{options} -d 0 {pid}"));
        terminal.hang_up();
        let wrong = "the terminal is gone, under nohup, `--live` or `-i`";
        assert_documented(wrong, terminal.code(), &terminal.said());
        assert_eq!(Report::of(&terminal.said()).ledger.entered, 0);
    }
}

/// A file on a full disk, and others, are in tests/output.rs.
#[test]
fn a_file_that_cannot_be_made_is_told_before_anything_is_measured() {
    if !can_measure() {
        return;
    }
    let folder = Folder::new("no-file");
    File::create(folder.path("file")).unwrap();
    let own = std::process::id().to_string();
    for (wrong, path) in [
        ("the folder of `-o` is not there", folder.text("none/file")),
        ("`-o` names a folder", folder.text("")),
    ] {
        let ended = Rlat::spawn(&mut rlat(["-o", &path, &own])).ended();
        assert_documented(wrong, ended.code, &ended.stderr);
    }
}
