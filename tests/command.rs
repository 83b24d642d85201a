//! `rlat -- CMD`: the command runs as it would without rlat, and every call of it is counted.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod held;
mod requirements;
mod support;

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use held::Held;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use support::{Ended, RLAT, Report, Rlat, can_measure, rlat, send, until};

/// Ends with status 5 at SIGUSR1, and tells which other signals it gets.
const TELLS_SIGNALS: &str = "trap 'exit 5' USR1
for signal in INT TERM HUP; do trap \"echo got $signal >&2\" $signal; done
echo process $$ >&2
while :; do sleep 0.02; done";

/// The process of that script, which is to be gone after the test.
struct Shell(u32);

impl Shell {
    /// rlat, and the command that it has started.
    fn under(rlat: &mut Command) -> (Rlat, Self) {
        let mut rlat = Rlat::spawn(rlat.stdout(Stdio::null()));
        let command = rlat.said("process ").parse().unwrap();
        (rlat, Self(command))
    }

    fn end(&self) {
        send(Signal::SIGUSR1, self.0);
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0 as i32), Signal::SIGKILL);
    }
}

fn run<const N: usize>(args: [&str; N]) -> Ended {
    Rlat::spawn(rlat(args).stdout(Stdio::piped())).ended()
}

fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A file of this test alone, which does not exist yet.
fn scratch(name: &str) -> PathBuf {
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_file(&path);
    path
}

/// How many processes have that argument.
fn processes_with(argument: &str) -> usize {
    let has =
        |cmdline: Vec<u8>| cmdline.split(|&byte| byte == 0).any(|one| one == argument.as_bytes());
    let processes = fs::read_dir("/proc").unwrap();
    let cmdlines = processes.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    cmdlines.filter(|cmdline| has(cmdline.clone())).count()
}

#[test]
fn every_call_is_counted_from_the_very_first_one() {
    if !can_measure() || !requirements::tool("strace", "strace") {
        return;
    }
    let reads = |calls: u64| {
        let count = format!("count={calls}");
        let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "status=none", &count];
        let ended = Rlat::spawn(rlat(["--"]).args(dd)).ended();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let ledger = Report::of(&ended.stderr).ledger;
        assert_eq!(ledger.entered, ledger.recorded);

        let table = scratch(&format!("strace-{calls}"));
        output(
            Command::new("strace")
                .args(["-f", "-c", "-e", "trace=read", "-o"])
                .arg(&table)
                .args(dd),
        );
        let table = fs::read_to_string(table).unwrap();
        let row = table.lines().find(|line| line.ends_with(" read")).unwrap();
        let by_strace: u64 = row.split_ascii_whitespace().nth(3).unwrap().parse().unwrap();
        assert_eq!(ledger.recorded, by_strace);
        ledger.recorded
    };
    // To start dd takes some read() calls as well: of its libraries.
    assert_eq!(reads(1000) - reads(0), 1000);
}

#[test]
fn a_descriptor_of_the_command_can_be_measured_alone() {
    if !can_measure() {
        return;
    }
    let ended = run(["--fd", "0", "--", "sh", "-c", "dd bs=1 count=77 status=none </dev/zero"]);
    assert_eq!(Report::of(&ended.stderr).ledger.recorded, 0, "dd is a child of sh");
    let ended =
        run(["--fd", "0", "--", "sh", "-c", "exec dd bs=1 count=77 status=none </dev/zero"]);
    assert_eq!(Report::of(&ended.stderr).ledger.recorded, 77, "{ended:#?}");
    assert_eq!(ended.stdout.len(), 77);
}

#[test]
fn input_output_arguments_and_surroundings_are_the_commands_own() {
    if !can_measure() {
        return;
    }
    let ended = run(["--", "printf", "%s,", "-v", "--", "a b", "", "-d"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "-v,--,a b,,-d,"), "{ended:#?}");
    Report::of(&ended.stderr);

    let mut cat = rlat(["--", "cat"]);
    cat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut cat = cat.spawn().unwrap();
    cat.stdin.take().unwrap().write_all(b"\0\xff\n").unwrap();
    assert_eq!(cat.wait_with_output().unwrap().stdout, b"\0\xff\n");

    assert_eq!(output(rlat(["--", "/usr/bin/env"]).env_clear().env("A", "b")), "A=b\n");
    assert_eq!(output(rlat(["--", "pwd"]).current_dir("/usr")), "/usr\n");

    let same = |args: &[&str]| {
        let without = output(Command::new(args[0]).args(&args[1..]));
        assert_eq!(output(rlat(["--"]).args(args)), without);
    };
    same(&["ls", "-l", "/proc/self/fd/0"]);
    same(&["sh", "-c", "cd /proc/self/fd; echo *"]);
}

#[test]
fn signals_are_blocked_and_ignored_as_rlat_found_them() {
    if !can_measure() {
        return;
    }
    let signals = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"];
    let changed = ["--ignore-signal=INT,HUP,CHLD,USR2", "--block-signal=USR1,TERM"];
    let without = output(Command::new("env").args(changed).args(signals));
    assert!(without.contains("SigBlk:\t0000000000004200"), "{without}");
    let with = output(Command::new("env").args(changed).args([RLAT, "--"]).args(signals));
    assert_eq!(with, without);
}

#[test]
fn the_exit_status_is_the_commands() {
    if !can_measure() {
        return;
    }
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
    ] {
        let ended = run(["--", "sh", "-c", script]);
        assert_eq!(ended.code, Some(code), "{script}: {ended:#?}");
        Report::of(&ended.stderr);
    }
    // Where a parent ignores SIGCHLD, the kernel would not keep it.
    let mut ignoring = Command::new("env");
    ignoring.args(["--ignore-signal=CHLD", RLAT, "--", "sh", "-c", "exit 9"]);
    assert_eq!(Rlat::spawn(&mut ignoring).ended().code, Some(9));
}

#[test]
fn what_cannot_be_executed_has_the_codes_of_a_shell() {
    if !can_measure() {
        return;
    }
    let script = scratch("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    for (command, code, why) in [
        (
            "no-such-command",
            127,
            "ENOENT: No such file or directory\n  next: see that it is in $PATH",
        ),
        ("/no/such/command", 127, "next: see that the path is right"),
        ("", 127, "ENOENT"),
        (script, 127, "the file is there, but not its interpreter"),
        ("/etc/passwd", 126, "EACCES: Permission denied"),
        ("/", 126, "EACCES: Permission denied"),
    ] {
        let ended = run(["--", command]);
        assert_eq!(ended.code, Some(code), "{ended:#?}");
        // The tracing was open before the command could be tried.
        let said = format!("ready\nrlat: cannot start {command:?}: ");
        assert!(ended.stderr.starts_with(&said), "{ended:#?}");
        assert!(ended.stderr.contains(why), "{ended:#?}");
        assert!(!ended.stderr.contains("ledger"), "{ended:#?}");
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn a_command_and_a_process_exclude_each_other() {
    for args in [&["1", "--", "true"][..], &["--all", "--", "true"], &["--user", "root", "1"]] {
        assert_eq!(
            Command::new(RLAT).args(args).output().unwrap().status.code(),
            Some(2),
            "{args:?}"
        );
    }
}

#[test]
fn the_window_can_close_before_the_command_ends() {
    if !can_measure() {
        return;
    }
    let (mut rlat, command) =
        Shell::under(&mut rlat(["-d", "50ms", "--", "sh", "-c", TELLS_SIGNALS]));
    rlat.said("ledger: ");
    rlat.send(Signal::SIGTERM);
    rlat.said("got TERM");
    command.end();
    let ended = rlat.ended();
    assert_eq!(ended.code, Some(5), "{ended:#?}");
}

#[test]
fn what_rlat_is_told_the_command_is_told_too() {
    if !can_measure() {
        return;
    }
    for (signal, name) in [(Signal::SIGTERM, "TERM"), (Signal::SIGHUP, "HUP")] {
        let (mut rlat, command) = Shell::under(&mut rlat(["--", "sh", "-c", TELLS_SIGNALS]));
        rlat.send(signal);
        rlat.said(&format!("got {name}"));
        rlat.said("ledger: ");
        command.end();
        let ended = rlat.ended();
        assert_eq!(ended.code, Some(5), "{ended:#?}");
        assert!(!ended.stderr.contains("got"), "{ended:#?}");
    }
}

#[test]
fn an_interrupt_of_the_terminal_reaches_the_command_once() {
    if !can_measure() {
        return;
    }
    let (mut rlat, command) =
        Shell::under(rlat(["--", "sh", "-c", TELLS_SIGNALS]).process_group(0));
    killpg(Pid::from_raw(rlat.pid() as i32), Signal::SIGINT).unwrap();
    rlat.said("got INT");
    rlat.said("ledger: ");
    command.end();
    let ended = rlat.ended();
    assert_eq!(ended.code, Some(5), "{ended:#?}");
    assert!(!ended.stderr.contains("got"), "{ended:#?}");
}

#[test]
fn a_second_signal_ends_rlat_and_leaves_the_command() {
    if !can_measure() {
        return;
    }
    let (mut rlat, command) = Shell::under(&mut rlat(["--", "sh", "-c", TELLS_SIGNALS]));
    rlat.send(Signal::SIGTERM);
    rlat.said("ledger: ");
    rlat.send(Signal::SIGTERM);
    until("rlat has ended", || {
        fs::read(format!("/proc/{}/cmdline", rlat.pid())).ok()?.is_empty().then_some(())
    });
    command.end(); // It is there to be sent to.
    let ended = rlat.ended();
    assert_eq!(ended.code, Some(143), "{ended:#?}");
}

#[test]
fn a_command_runs_as_the_user_that_was_named_and_with_no_more_privilege() {
    if !can_measure() {
        return;
    }
    let status = ["grep", "-E", "^(Uid|Gid|Groups|Cap(Prm|Eff|Amb)):", "/proc/self/status"];
    for (user, uid, gid) in [("nobody", 65_534, 65_534), ("12345", 12_345, 65_534)] {
        let status = output(rlat(["--user", user, "--"]).args(status));
        let expected = format!(
            "Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{gid}\t{gid}\t{gid}\t{gid}\nGroups:\t{gid} \n\
             CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapAmb:\t0000000000000000\n"
        );
        assert_eq!(status, expected);
    }
    // All of an account's groups, as id(1) finds them.
    for user in ["root", "daemon"] {
        let sorted = |text: String| {
            let mut groups: Vec<u32> =
                text.split_ascii_whitespace().map(|group| group.parse().unwrap()).collect();
            groups.sort_unstable();
            groups
        };
        let expected = output(Command::new("id").args(["-G", user]));
        let groups = output(&mut rlat(["--user", user, "--", "id", "-G"]));
        assert_eq!(sorted(groups), sorted(expected), "{user}");
    }
}

/// Capabilities that are *ambient* outlive execve(2), and a change from one user to another.
#[test]
fn ambient_capabilities_do_not_reach_the_command() {
    if !can_measure() || !requirements::tool("setpriv", "util-linux") {
        return;
    }
    let caps = "+sys_admin,+setuid,+setgid,+dac_read_search,+dac_override";
    let mut rlat = Command::new("setpriv");
    rlat.args(["--reuid", "daemon", "--clear-groups", "--inh-caps", caps, "--ambient-caps", caps]);
    rlat.args([RLAT, "--user", "nobody", "--", "grep", "-E", "^(Uid|Cap(Prm|Eff|Amb)):"]);
    let status = output(rlat.arg("/proc/self/status"));
    assert_eq!(
        status,
        "Uid:\t65534\t65534\t65534\t65534\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
         CapAmb:\t0000000000000000\n"
    );
}

#[test]
fn a_user_that_is_not_there_and_one_that_may_not_be() {
    if !can_measure() || !requirements::tool("setpriv", "util-linux") {
        return;
    }
    let ended = run(["--user", "no such user", "--", "true"]);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    assert!(ended.stderr.contains("--user \"no such user\": there is no such user"), "{ended:#?}");

    let mut unprivileged = Command::new("setpriv");
    unprivileged.args([
        "--bounding-set",
        "-setuid,-setgid",
        RLAT,
        "--user",
        "nobody",
        "--",
        "true",
    ]);
    let ended = Rlat::spawn(&mut unprivileged).ended();
    assert_eq!(ended.code, Some(3), "{ended:#?}");
    assert!(ended.stderr.contains("needs CAP_SETUID and CAP_SETGID"), "{ended:#?}");
}

#[test]
fn when_rlat_fails_before_the_start_nothing_of_the_command_stays() {
    let marker = format!("never-{}", std::process::id());
    let empty = scratch("empty-tracefs");
    fs::create_dir_all(&empty).unwrap();
    let file = scratch("touched");
    let command = [OsStr::new("--"), "touch".as_ref(), file.as_os_str(), marker.as_ref()];
    let ended = Rlat::spawn(rlat(["--tracefs"]).arg(&empty).args(command)).ended();
    assert!(matches!(ended.code, Some(3 | 4)), "{ended:#?}");
    assert!(!file.exists());
    assert_eq!(processes_with(&marker), 0);
}

#[test]
fn when_rlat_is_killed_before_the_start_so_is_what_waits() {
    if !can_measure() {
        return;
    }
    let marker = format!("killed-{}", std::process::id());
    let file = scratch("not-touched");
    let held = Held::start(rlat(["-v", "--", "touch"]).arg(&file).arg(&marker));
    assert_eq!(processes_with(&marker), 2);
    drop(held); // which kills it
    until("the stopped process is gone", || (processes_with(&marker) == 0).then_some(()));
    assert!(!file.exists());
}

/// The signal that kills what waits must not follow it into the command.
#[test]
fn when_rlat_is_killed_after_the_start_the_command_lives() {
    if !can_measure() {
        return;
    }
    let (mut rlat, command) = Shell::under(&mut rlat(["--", "sh", "-c", TELLS_SIGNALS]));
    rlat.send(Signal::SIGKILL);
    until("rlat has ended", || {
        fs::read(format!("/proc/{}/cmdline", rlat.pid())).ok()?.is_empty().then_some(())
    });
    send(Signal::SIGTERM, command.0);
    rlat.said("got TERM");
    command.end();
    rlat.ended();
}
