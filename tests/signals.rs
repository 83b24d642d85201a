//! SIGTERM at any moment ends rlat, with its result or without, and nothing of it stays in the kernel.
//!
//! The moments are random, but the same for the same seed: `RLAT_SEED=N` repeats a run.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod documented;
mod requirements;
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use documented::assert_documented;
use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Lines, RLAT, Report, Workload, can_measure, send, until};

/// So many threads of the test, and so many runs of each. Most of a run is waiting for the kernel.
const THREADS: u64 = 4;
const RUNS: u64 = 125;

/// For how long it may sleep between the signal and the end. Counted are naps of the test, not the time: where
/// the whole machine stands still, both do. Nor does it count that it waits for a CPU.
const MOST_NAPS: u32 = 1_000;
const NAP: Duration = Duration::from_millis(1);

/// Numbers that look random: xorshift64, of G. Marsaglia, "Xorshift RNGs" (2003).
struct Random(u64);

/// A new seed, or the one in `RLAT_SEED`; it is printed.
fn seed() -> u64 {
    let given = std::env::var("RLAT_SEED").ok().map(|seed| seed.parse().unwrap());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = given.unwrap_or_else(now);
    println!("RLAT_SEED={seed}");
    seed.max(1)
}

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Waits for its end, and fails if it sleeps for a second before. When a program is detached the kernel waits
/// until nobody can be in it, however busy it is, and lets nobody interrupt that: this does not count.
fn end_within_a_second(child: &mut Child, what: &str) -> ExitStatus {
    let mut naps = 0;
    until("it has ended", || {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(NAP);
        let look = |file| fs::read_to_string(format!("/proc/{}/{file}", child.id()));
        let sleeps = look("stat").is_ok_and(|stat| stat.contains(") S ") || stat.contains(") D "));
        let doing = look("stack").unwrap_or_default();
        naps += u32::from(sleeps && !doing.contains("rcu"));
        assert!(naps <= MOST_NAPS, "{what} does not end; it is in\n{doing}");
        None
    })
}

/// The ids of all programs or maps of rlat that no process holds any more.
fn ownerless(kind: &str) -> BTreeSet<u64> {
    let output = Command::new("bpftool").args(["--json", kind, "show"]).output().unwrap();
    // Others load and unload meanwhile, which ends the list early.
    let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let ours = |one: &&Value| one["name"].as_str().is_some_and(|name| name.starts_with("rlat_"));
    let ids = all.as_array().into_iter().flatten().filter(ours);
    let mut ids: BTreeSet<u64> = ids.filter_map(|one| one["id"].as_u64()).collect();
    let key = if kind == "prog" { "prog_id:" } else { "map_id:" };
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(descriptors) = fs::read_dir(process.path().join("fdinfo")) else { continue };
        for descriptor in descriptors.flatten() {
            let info = fs::read_to_string(descriptor.path()).unwrap_or_default();
            let id = info.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
            id.map(|id: u64| ids.remove(&id));
        }
    }
    ids
}

/// rlat that nobody waits for yet.
fn start(args: &[&str]) -> (Child, Lines, Lines) {
    let mut command = Command::new(RLAT);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    (child, Lines::of(stdout), Lines::of(stderr))
}

/// Twice the time that it takes here and now until the window is open.
fn latest(args: &[&str]) -> u64 {
    let began = Instant::now();
    let (mut child, _stdout, mut stderr) = start(args);
    stderr.take("ready");
    let latest = began.elapsed() * 2;
    // Not SIGKILL: a command that has just begun would outlive rlat.
    send(Signal::SIGTERM, child.id());
    end_within_a_second(&mut child, "rlat");
    latest.as_micros() as u64
}

/// Sends it SIGTERM at a random moment. Returns whether there was a result; if not, then nothing at all.
fn terminate_at_random(args: &[&str], latest: u64, random: &mut Random) -> bool {
    let moment = Duration::from_micros(random.below(latest));
    let (mut child, stdout, stderr) = start(args);
    thread::sleep(moment);
    send(Signal::SIGTERM, child.id());
    let status = end_within_a_second(&mut child, &format!("{args:?} after {moment:?}"));
    let (stdout, stderr) = (stdout.rest(), stderr.rest());
    let said = format!("{args:?} after {moment:?}: {status}\n{stdout}\n{stderr}");
    let is_command = args[0] == "--";
    let result = if is_command { &stderr } else { &stdout };
    if result.contains("ledger: ") || result.contains(r#"{"type": "end""#) {
        // Of a command, rlat has the exit status: that of the same signal.
        let code = if is_command { 128 + libc::SIGTERM } else { 0 };
        assert_eq!(status.code(), Some(code), "{said}");
        if !is_command {
            let said: String = stderr.lines().filter(|line| !line.starts_with("hint: ")).collect();
            assert_eq!(said, "ready", "{stderr}");
        }
        return true;
    }
    // Before it catches signals, which is before anything is loaded.
    assert_eq!(status.signal(), Some(libc::SIGTERM), "{said}");
    assert!(stdout.is_empty() && stderr.is_empty(), "{said}");
    false
}

#[test]
fn sigterm_at_any_moment_ends_it_and_leaves_nothing_behind() {
    if !can_measure() || !requirements::tool("bpftool", "bpftool") {
        return;
    }
    let target = Workload::start(["reads", "1", "1"]);
    let pid = target.pid.to_string();
    let marker = (1_000_000_000 + u64::from(std::process::id())).to_string();
    let ways: [&[&str]; 5] = [
        &["-d", "0", &pid],
        &["-d", "0", "--attach", "raw", &pid],
        &["survey", "-d", "0", &pid],
        &["-d", "0", "-i", "100ms", "-f", "json", &pid],
        // The command is told, too, and does not stay.
        &["--", "sleep", &marker],
    ];
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounted_before = mounts();
    let seed = seed();
    let latest = ways.map(latest);
    let results: usize = thread::scope(|scope| {
        let many = |mut random: Random| {
            let run = |run| {
                let way = run as usize % ways.len();
                terminate_at_random(ways[way], latest[way], &mut random)
            };
            (0..RUNS).map(run).filter(|with_result| *with_result).count()
        };
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || many(Random(seed + thread)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    println!("{results} with a result");
    assert!(results > 0);
    for kind in ["prog", "map"] {
        until("nothing is left of it in the kernel", || ownerless(kind).is_empty().then_some(()));
    }
    assert_eq!(mounts(), mounted_before);
    let sleep = format!("sleep\0{marker}\0");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    assert_eq!(lines.filter(|line| line == sleep.as_bytes()).count(), 0);
}

#[test]
fn one_signal_gets_the_result_and_a_second_one_the_end() {
    if !can_measure() {
        return;
    }
    let target = Workload::start(["reads", "1", "1"]);
    let pid = target.pid.to_string();
    let (mut child, stdout, mut stderr) = start(&["-d", "0", &pid]);
    stderr.take("ready");
    send(Signal::SIGTERM, child.id());
    let status = end_within_a_second(&mut child, "rlat");
    assert_documented("one SIGTERM, SIGINT or SIGHUP", status.code(), &stderr.rest());
    Report::of(&stdout.rest());

    let mut random = Random(seed());
    let latest = latest(&["-d", "0", &pid]);
    for _ in 0..20 {
        let moment = Duration::from_micros(random.below(latest));
        let (mut child, stdout, stderr) = start(&["-d", "0", &pid]);
        thread::sleep(moment);
        for _ in 0..2 {
            send(Signal::SIGTERM, child.id());
        }
        let status = end_within_a_second(&mut child, "rlat");
        match (status.code(), status.signal()) {
            (Some(0), _) => drop(Report::of(&stdout.rest())),
            (code @ Some(143), _) => assert_documented("two of them", code, &stderr.rest()),
            (_, signal) => assert_eq!(signal, Some(libc::SIGTERM), "{}", stderr.rest()),
        }
    }
}
