//! What a measuring rlat may still do, that this is enough for all of its ways, and that none of it reaches
//! a command.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod documented;
mod requirements;
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use documented::assert_documented;
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use rlat::loader::kernel_version;
use rlat::process::{Status, unprivileged_bpf_disabled};
use support::{Ended, Ledger, RLAT, Rlat, Workload, can_measure, child_of, rlat, send, until};

const BPF: u64 = 1 << 39;
/// `CAP_SYS_PTRACE` and `CAP_DAC_READ_SEARCH`.
const ALWAYS: u64 = 1 << 19 | 1 << 2;

/// The lines of /proc/PID/status about privileges, without those that not every kernel has.
fn privileges(pid: u32) -> Vec<(String, String)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let known = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"];
    let lines = status.lines().filter_map(|line| line.split_once(":\t"));
    let of_these = lines.filter(|(key, _)| known.contains(key));
    of_these.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn wait_until_confined(pid: u32) {
    until("rlat is confined", || (Status::read(pid).ok()?.seccomp == Some(2)).then_some(()));
}

/// A folder that goes away with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("rlat-{}-{name}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_measuring_rlat_has_given_up_what_it_does_not_need() {
    if !can_measure() {
        return;
    }
    let is_root = geteuid().is_root();
    let mut calls = Workload::start(["reads", "500", "1"]);
    let mut hangs = Workload::start(["input", "2"]);
    let rlat = Rlat::measure_with(&["-p", &format!("{},{}", calls.pid, hangs.pid)]);
    wait_until_confined(rlat.pid());
    for (key, value) in privileges(rlat.pid()) {
        let number = u64::from_str_radix(&value, 16).unwrap();
        match key.as_str() {
            "CapPrm" | "CapEff" if is_root => {
                assert_eq!(number & !BPF, ALWAYS, "{key}");
                // Kernels before 5.19 want it for each bpf(2), if that is not for everybody.
                let version = kernel_version().unwrap();
                let is_answered = version >= (5, 19) && unprivileged_bpf_disabled() != Some(0);
                assert_eq!(number & BPF == 0, is_answered, "{version:?}");
            }
            "CapInh" | "CapAmb" => assert_eq!(number, 0, "{key}"),
            "CapBnd" if is_root => assert_eq!(number, 0, "{key}"),
            "NoNewPrivs" => assert_eq!(number, 1),
            "Seccomp" => assert_eq!(number, 2),
            _ => {}
        }
    }
    // The result is as exact as ever, and what is in flight is found with what it waits for.
    calls.carry_out();
    hangs.start_reading(2);
    let report = rlat.interrupt();
    let ledger = Ledger { entered: 502, recorded: 500, in_flight: 2, ..Ledger::default() };
    assert_eq!(report.ledger, ledger, "{report}");
    assert_eq!(report.in_flight().len(), 2, "{report}");
    assert!(report.in_flight().iter().all(|call| call.contains("pipe:[")), "{report}");
}

/// Runs rlat under strace(1), until its window is open and it is confined.
fn traced(log: &Path, arguments: &[&str]) -> (Rlat, u32) {
    let mut strace = Command::new("strace");
    strace.arg("-o").arg(log).arg(RLAT).args(arguments);
    let mut rlat = Rlat::spawn(strace.stdout(Stdio::piped()));
    rlat.wait_for_window();
    let pid = child_of(rlat.pid());
    wait_until_confined(pid);
    (rlat, pid)
}

/// The calls that were refused behind the one that installed the filter.
fn refused(log: &Path) -> Vec<String> {
    let log = fs::read_to_string(log).unwrap();
    let (_, behind) = log.split_once("seccomp(SECCOMP_SET_MODE_FILTER").expect(&log);
    behind.lines().filter(|line| line.contains("= -1 EPERM")).map(ToOwned::to_owned).collect()
}

fn require_strace() -> bool {
    can_measure() && requirements::tool("strace", "Debian's package strace")
}

#[test]
fn no_call_is_refused_that_a_measurement_makes() {
    if !require_strace() {
        return;
    }
    let folder = Folder::new("calls");
    let file = folder.0.join("result");
    let file = file.to_str().unwrap();
    let log = folder.0.join("log");
    let ways: [&[&str]; 7] = [
        &[],
        &["-v"],
        &["-i", "100ms", "-o", file, "-f", "json"],
        &["-i", "100ms", "-f", "csv"],
        &["--follow", "-o", file],
        &["--attach", "raw", "--live"],
        &["--ret", "error", "--linear", "0,100,10"],
    ];
    for way in ways {
        let mut workload = Workload::start(["input", "2"]);
        workload.start_reading(2);
        let pid = workload.pid.to_string();
        let (rlat, traced) = traced(&log, &[way, &["-d", "0", &pid]].concat());
        workload.write(b".");
        send(Signal::SIGTERM, traced);
        let ended = rlat.ended();
        assert_eq!(ended.code, Some(0), "{way:?}: {ended:#?}");
        assert_eq!(refused(&log), [""; 0], "{way:?}");
    }
}

#[test]
fn no_call_is_refused_that_hints_and_a_time_limit_take() {
    if !require_strace() {
        return;
    }
    let folder = Folder::new("hints");
    let log = folder.0.join("log");
    let workload = Workload::start(["input", "1"]);
    let (rlat, _) = traced(&log, &["-d", "500ms", "-e", "fsync", &workload.pid.to_string()]);
    let ended = rlat.ended();
    assert!(ended.stderr.contains("hint: "), "{ended:#?}");
    assert_eq!(refused(&log), [""; 0]);
}

#[test]
fn no_call_is_refused_that_a_survey_or_a_command_takes() {
    if !require_strace() {
        return;
    }
    let folder = Folder::new("command");
    let log = folder.0.join("log");
    let workload = Workload::start(["input", "1"]);
    let (rlat, traced_pid) = traced(&log, &["survey", "-d", "0", &workload.pid.to_string()]);
    send(Signal::SIGINT, traced_pid);
    assert_eq!(rlat.ended().code, Some(0));
    assert_eq!(refused(&log), [""; 0]);

    // The signal is passed on to the command, and its exit status is waited for.
    let waits = "trap 'exit 5' TERM; while :; do sleep 0.01; done";
    for extra in [&[][..], &["-v"]] {
        let command = ["--", "sh", "-c", waits];
        let (rlat, traced_pid) = traced(&log, &[extra, &command].concat());
        send(Signal::SIGTERM, traced_pid);
        let ended = rlat.ended();
        assert_eq!(ended.code, Some(5), "{ended:#?}");
        assert_eq!(refused(&log), [""; 0]);
    }
}

#[test]
fn a_file_is_written_in_a_folder_that_only_capabilities_open() {
    if !can_measure() || !geteuid().is_root() {
        return;
    }
    let folder = Folder::new("anothers");
    std::os::unix::fs::chown(&folder.0, Some(65_534), Some(65_534)).unwrap();
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o1700)).unwrap();
    let file = folder.0.join("result");
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::chown(&file, Some(65_533), None).unwrap();
    let own = std::process::id().to_string();
    let ended =
        Rlat::spawn(rlat(["-d", "10ms", &own, "-o"]).arg(&file).stdout(Stdio::piped())).ended();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(fs::read_to_string(&file).unwrap().contains("ledger: "));
}

const SHOWS_ITSELF: &str =
    "grep -E '^(Cap|NoNew|Seccomp|SigBlk)' /proc/self/status; ls /proc/self/fd";

/// What a shell says of itself when it is started by this command, directly or by rlat.
fn shown(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("CapEff"), "{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn a_command_has_what_it_would_have_without_rlat() {
    if !can_measure() {
        return;
    }
    let directly = shown(Command::new("sh").args(["-c", SHOWS_ITSELF]));
    for options in [&[][..], &["--follow"]] {
        let by_rlat = shown(rlat([]).args(options).args(["--", "sh", "-c", SHOWS_ITSELF]));
        assert_eq!(by_rlat, directly, "{options:?}");
    }
    let surveyed = shown(&mut rlat(["survey", "--", "sh", "-c", SHOWS_ITSELF]));
    assert_eq!(surveyed, directly);
}

/// By another process: a test that forks meanwhile would hold a file open that this one writes, and a file
/// that is open for writing is not executed.
fn copy_file(from: &Path, to: &Path) {
    assert!(Command::new("cp").args([from, to]).status().unwrap().success());
}

/// A copy of rlat that anybody may execute, and a command that runs it as nobody.
fn copy(folder: &Folder) -> (PathBuf, Command) {
    let file = folder.0.join("rlat");
    copy_file(Path::new(RLAT), &file);
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
        .arg(&file);
    (file, command)
}

fn can_become_nobody() -> bool {
    if !geteuid().is_root() {
        return requirements::skip("only root can become another user");
    }
    requirements::tool("setpriv", "util-linux")
}

#[test]
fn capabilities_of_rlats_file_do_not_reach_a_command() {
    if !can_measure() || !can_become_nobody() || !requirements::tool("setcap", "libcap2-bin") {
        return;
    }
    let folder = Folder::new("capabilities");
    let (file, mut as_nobody) = copy(&folder);
    let all = "cap_bpf,cap_perfmon,cap_dac_read_search,cap_sys_ptrace+ep";
    assert!(Command::new("setcap").arg(all).arg(&file).status().unwrap().success());
    let directly = shown(
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
            .args(["sh", "-c", SHOWS_ITSELF]),
    );
    assert!(directly.contains("CapPrm:\t0000000000000000"), "{directly}");
    assert_eq!(
        shown(as_nobody.args(["--attach", "raw", "--", "sh", "-c", SHOWS_ITSELF])),
        directly
    );
}

#[test]
fn with_capabilities_of_its_file_rlat_keeps_only_what_it_needs() {
    if !can_measure() || !can_become_nobody() || !requirements::tool("setcap", "libcap2-bin") {
        return;
    }
    let folder = Folder::new("few");
    let (file, mut as_nobody) = copy(&folder);
    let few = "cap_bpf,cap_perfmon+ep";
    assert!(Command::new("setcap").arg(few).arg(&file).status().unwrap().success());
    // A process of the same user, whose calls in flight nobody needs a capability to see.
    let mut spawned = Command::new("setpriv");
    let path = folder.0.join("workload");
    copy_file(&support::workload_path(), &path);
    spawned.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
    let mut workload = Workload::spawn(spawned.arg(&path).args(["input", "1"]));
    workload.wait_until_ready();
    as_nobody.args(["--attach", "raw", "-d", "0", &workload.pid.to_string()]);
    let rlat = Rlat::with_open_window(&mut as_nobody);
    wait_until_confined(rlat.pid());
    let status = Status::read(rlat.pid()).unwrap();
    assert_eq!(status.permitted, status.effective);
    assert_eq!(status.effective.unwrap() & !BPF, 0);
    workload.start_reading(1);
    let report = rlat.interrupt();
    assert_eq!(report.ledger, Ledger { entered: 1, in_flight: 1, ..Ledger::default() }, "{report}");
}

/// With `CAP_DAC_READ_SEARCH` rlat can read what its user cannot, and must not show it.
#[test]
fn a_file_that_its_user_cannot_read_is_not_shown() {
    if !can_become_nobody() || !requirements::tool("setcap", "libcap2-bin") {
        return;
    }
    let folder = Folder::new("secrets");
    let (file, _) = copy(&folder);
    let all = "cap_bpf,cap_perfmon,cap_dac_read_search+ep";
    assert!(Command::new("setcap").arg(all).arg(&file).status().unwrap().success());
    let secret = folder.0.join("secret");
    fs::write(&secret, "TOP-SECRET\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let point = folder.0.join("tracefs/events/syscalls/sys_enter_read");
    fs::create_dir_all(&point).unwrap();
    for name in ["id", "format"] {
        std::os::unix::fs::symlink(&secret, point.join(name)).unwrap();
    }
    let secret = secret.to_str().unwrap();
    let tracefs = folder.0.join("tracefs");
    let own = std::process::id().to_string();
    let ways: [&[&str]; 5] = [
        &["asm", secret],
        &["disasm", secret],
        &["verify", secret],
        &["--tracefs", tracefs.to_str().unwrap(), "--attach", "tracepoint", &own],
        &["list", "-v", "--tracefs", tracefs.to_str().unwrap()],
    ];
    for way in ways {
        let mut as_nobody = Command::new("setpriv");
        as_nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
        let Ended { code, stdout, stderr } =
            Rlat::spawn(as_nobody.arg(&file).args(way).stdout(Stdio::piped())).ended();
        assert!(matches!(code, Some(2 | 3)), "{way:?}: {code:?} {stderr}");
        if way.contains(&"--attach") {
            let wrong = "the file of rlat has capabilities, and `--tracefs` names a copy";
            assert_documented(wrong, code, &stderr);
        }
        assert!(!stdout.contains("TOP") && !stderr.contains("TOP"), "{way:?}: {stdout}{stderr}");
    }
}

#[test]
fn a_file_with_the_set_user_id_bit_is_refused() {
    if !can_become_nobody() {
        return;
    }
    let folder = Folder::new("set-user-id");
    let (file, mut as_nobody) = copy(&folder);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
    let marker = folder.0.join("touched");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    let Ended { code, stderr, .. } =
        Rlat::spawn(as_nobody.args(["--", "touch"]).arg(&marker)).ended();
    assert_documented("the file of rlat has the set-user-ID bit", code, &stderr);
    assert!(!marker.exists());
}
