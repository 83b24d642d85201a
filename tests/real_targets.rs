//! rlat on what people measure: a database under load, a cache, a pool of threads, an io_uring.
//!
//! How many calls there are says an independent count: bpftrace at the same time, or the program itself.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod peer;
mod requirements;
mod servers;
mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;

use peer::Bpftrace;
use servers::{Postgres, Server};
use support::{Lines, Rlat, Workload, can_measure, rlat, send};

/// How often a comparison is tried anew when somebody else's bpf(2) calls made the kernel skip programs.
const ROUNDS: usize = 10;

/// Calls that entered and calls that returned, by system call.
type Counts = BTreeMap<String, (u64, u64)>;

/// What rlat counted, and whether the kernel skipped its programs.
struct Measured {
    counts: Counts,
    was_disturbed: bool,
    text: String,
}

/// Starts a measurement without an end, and returns when its window is open.
fn start_rlat(syscalls: &[&str], whom: &[String]) -> Rlat {
    let mut command = rlat(["-d", "0", "-f", "json", "-e", &syscalls.join(",")]);
    let mut rlat = Rlat::spawn(command.args(whom).stdout(Stdio::piped()));
    rlat.said("ready");
    rlat
}

/// Ends it. Each ledger must balance, with nothing lost and nothing in flight.
fn result(rlat: Rlat) -> Measured {
    rlat.send(Signal::SIGINT);
    let ended = rlat.ended();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let lines: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ledgers = lines.iter().filter(|line| line["type"] == "ledger").map(|line| &line["data"]);
    let counts = ledgers
        .map(|ledger| {
            let number = |key: &str| ledger[key].as_u64().unwrap();
            assert!(ledger["adds_up"].as_bool().unwrap(), "{ledger:#}");
            let name = ledger["syscall"].as_str().unwrap().to_owned();
            (name, (number("entered"), number("recorded")))
        })
        .collect();
    let end = &lines.last().unwrap()["data"];
    let missed = end["missed_runs"].as_object().map(|missed| missed.values());
    let was_disturbed = missed.is_some_and(|mut missed| missed.any(|runs| *runs != 0));
    Measured { counts, was_disturbed, text: ended.stdout }
}

/// A script that counts the calls of these processes, and of those that they fork.
fn script(syscalls: &[&str], processes: &[u32]) -> String {
    let mut script = "BEGIN {".to_owned();
    for pid in processes {
        write!(script, " @family[(uint64){pid}] = 1;").unwrap();
    }
    script += " }
        tracepoint:sched:sched_process_fork /@family[(uint64)args->parent_pid]/ {
            @family[(uint64)args->child_pid] = 1;
        }
        END { clear(@family); }\n";
    for syscall in syscalls {
        for (end, map) in [("enter", "entered"), ("exit", "returned")] {
            let tracepoint = format!("tracepoint:syscalls:sys_{end}_{syscall}");
            writeln!(
                script,
                "{tracepoint} /@family[(uint64)pid]/ {{ @{map}_{syscall} = count(); }}"
            )
            .unwrap();
        }
    }
    script
}

/// What bpftrace counted.
fn counts_of(text: &str, syscalls: &[&str]) -> Counts {
    let number = |map: String| {
        let line = text.lines().find_map(|line| line.strip_prefix(&map));
        line.map_or(0, |number| number.parse().unwrap())
    };
    let of = |syscall: &&str| {
        (number(format!("@entered_{syscall}: ")), number(format!("@returned_{syscall}: ")))
    };
    syscalls.iter().map(|syscall| ((*syscall).to_owned(), of(syscall))).collect()
}

/// Measures the server under load by both, and returns what they agree on.
///
/// It stands still while they begin and end, so that both see the same calls.
fn by_both(server: &Server, follow: bool, syscalls: &[&str], load: impl Fn()) -> Counts {
    for _ in 0..ROUNDS {
        let processes = server.hold();
        let bpftrace = Bpftrace::attach(&script(syscalls, &processes));
        let mut whom = vec!["--pid".to_owned()];
        whom.push(processes.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
        if follow {
            whom.push("--follow".to_owned());
        }
        let rlat = start_rlat(syscalls, &whom);
        server.release();
        load();
        server.hold();
        let ours = result(rlat);
        let theirs = bpftrace.end();
        server.release();
        // The kernel skips all programs of a tracepoint at once, so rlat speaks for both.
        if !ours.was_disturbed {
            assert_eq!(ours.counts, counts_of(&theirs, syscalls), "{}\n{theirs}", ours.text);
            return ours.counts;
        }
        eprintln!("disturbed: {}", ours.text);
    }
    panic!("the kernel skips programs again and again");
}

fn can_compare() -> bool {
    can_measure() && peer::bpftrace() && requirements::tool("setpriv", "util-linux")
}

#[test]
fn postgresql_under_pgbench_makes_as_many_calls_as_bpftrace_says() {
    const CLIENTS: u64 = 4;
    const TRANSACTIONS: u64 = 50;
    if !can_compare() {
        return;
    }
    let Some(postgres) = Postgres::start() else { return };
    let (clients, transactions) = (CLIENTS.to_string(), TRANSACTIONS.to_string());
    let load = ["--no-vacuum", "--client", &clients, "--transactions", &transactions];
    let syscalls = ["read", "write", "pread64", "pwrite64", "fsync"];
    let counts = by_both(&postgres, true, &syscalls, || postgres.pgbench(&load));
    for (syscall, (entered, returned)) in &counts {
        assert!(*entered > 0, "{syscall} in {counts:?}");
        assert_eq!(entered, returned, "{syscall} in {counts:?}");
    }
    // Each connection is logged; and a commit waits for an fsync(), alone or with those of the others.
    assert!(counts["write"].0 >= CLIENTS, "{counts:?}");
    assert!(counts["fsync"].0 >= TRANSACTIONS, "{counts:?}");
}

#[test]
fn redis_under_redis_benchmark_makes_as_many_calls_as_bpftrace_says() {
    const REQUESTS: u64 = 5_000;
    if !can_compare() || !requirements::tool("redis-benchmark", "redis-tools") {
        return;
    }
    let Some(redis) = servers::redis() else { return };
    // Where there is no epoll_wait(), the C library makes it by the other one.
    let epoll_wait = if cfg!(target_arch = "x86_64") { "epoll_wait" } else { "epoll_pwait" };
    let counts = by_both(&redis, false, &["read", "write", epoll_wait], || {
        let mut benchmark = Command::new("redis-benchmark");
        benchmark.arg("-s").arg(redis.folder().join("socket"));
        benchmark.args(["-q", "-t", "set", "-c", "5", "-n", &REQUESTS.to_string()]);
        assert!(benchmark.stdout(Stdio::null()).status().unwrap().success());
    });
    for (syscall, (entered, returned)) in &counts {
        assert_eq!(entered, returned, "{syscall} in {counts:?}");
    }
    // A request is one read() and its answer one write(); one epoll_wait() may bring several.
    assert!(counts["read"].0 >= REQUESTS, "{counts:?}");
    assert!(counts["write"].0 >= REQUESTS, "{counts:?}");
    assert!(counts[epoll_wait].0 > REQUESTS / 5, "{counts:?}");
}

#[test]
fn each_pread_of_a_pool_of_threads_is_counted() {
    const THREADS: u64 = 8;
    const CALLS_EACH: u64 = 5_000;
    if !can_measure() {
        return;
    }
    let mut pool = Workload::start(["preads", &CALLS_EACH.to_string(), &THREADS.to_string()]);
    for _ in 0..ROUNDS {
        let rlat = start_rlat(&["pread64", "read"], &[pool.pid.to_string()]);
        pool.carry_out();
        let measured = result(rlat);
        if !measured.was_disturbed {
            let all = THREADS * CALLS_EACH;
            assert_eq!(measured.counts["pread64"], (all, all), "{}", measured.text);
            assert_eq!(measured.counts["read"], (0, 0), "{}", measured.text);
            pool.end();
            return;
        }
    }
    panic!("the kernel skips programs again and again");
}

/// Compiles the program that reads through an io_uring; where that cannot be, the reason is printed.
fn reads_by_ring(folder: &Path) -> Option<PathBuf> {
    if !requirements::tool("cc", "gcc") {
        return None;
    }
    if !Path::new("/usr/include/liburing.h").exists() {
        requirements::skip("liburing.h is missing: install Debian's package liburing-dev");
        return None;
    }
    let program = folder.join("reads_by_ring");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/reads_by_ring.c");
    let status = Command::new("cc").arg("-o").arg(&program).args([source, "-luring"]).status();
    assert!(status.unwrap().success());
    Some(program)
}

#[test]
fn reads_through_an_io_uring_are_no_calls_and_the_hint_says_so() {
    const READS: u64 = 1_000;
    if !can_measure() {
        return;
    }
    let Some(program) = reads_by_ring(Path::new(env!("CARGO_TARGET_TMPDIR"))) else { return };
    let mut ring = Command::new(program);
    let ring = ring.arg(READS.to_string()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut ring = ring.spawn().unwrap();
    let mut said = Lines::of(ring.stdout.take().unwrap());
    if said.take("ring ") != "0" {
        requirements::skip("io_uring_setup(2) is refused here");
        support::wait_for(&mut ring).unwrap();
        return;
    }
    let pid = ring.id().to_string();
    let rlats = ["read", "io_uring_enter"].map(|syscall| {
        let mut command = rlat(["-d", "0", "-e", syscall, &pid]);
        let mut rlat = Rlat::spawn(command.stdout(Stdio::piped()));
        rlat.said("ready");
        rlat
    });
    send(Signal::SIGUSR1, ring.id());
    said.take("done");
    let ended = rlats.map(|rlat| {
        rlat.send(Signal::SIGINT);
        rlat.ended()
    });
    send(Signal::SIGUSR1, ring.id());
    support::wait_for(&mut ring).unwrap();
    let [read, enter] = ended;
    assert!(read.stdout.starts_with("@calls: 0\n"), "{read:#?}");
    let hint = format!("hint: process {pid} has 1 io_uring descriptor: what it reads and writes ");
    assert!(read.stderr.contains(&hint), "{read:#?}");
    assert!(enter.stdout.starts_with(&format!("@calls: {READS}\n")), "{enter:#?}");
    assert!(!enter.stderr.contains("hint"), "{enter:#?}");
}
