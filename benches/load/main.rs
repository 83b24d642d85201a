//! rlat under load for a long time: do the numbers add up, does its memory grow, what CPU does it use?
//!
//! ```text
//! cargo run --release --example load -- target/release/rlat [SECONDS]
//! ```
//!
//! 64 threads of one process make read() calls on /dev/zero, 50 in a row with 10 ms in between. Beside them
//! another process starts 500 processes a second, which end at once. rlat measures the first with `-i 1`, as
//! JSON into a file. Ten minutes, if no time is given. It ends with a status other than 0 if something is
//! not as it should be.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // It is a test, of a kind.

mod figures;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use figures::{Usage, added_up};

const THREADS: usize = 64;
const CALLS_IN_A_ROW: u64 = 50;
const PAUSE: Duration = Duration::from_millis(10);
const PROCESSES_A_SECOND: u64 = 500;
/// So many threads start them, since each waits for one to end.
const STARTERS: u64 = 20;

/// rlat's CPU time may be that part of the window, in percent.
const MOST_CPU: f64 = 1.0;
/// Its memory may grow by so much from a tenth of the window on, in KiB: what a page more or less makes.
const MOST_GROWTH: u64 = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["reads", seconds] => read_for(seconds.parse().unwrap()),
        ["churn", seconds] => churn_for(seconds.parse().unwrap()),
        [rlat] => drive(rlat, 600),
        [rlat, seconds] => drive(rlat, seconds.parse().unwrap()),
        _ => panic!("cargo run --release --example load -- target/release/rlat [SECONDS]"),
    }
}

/// The measured process: says which descriptor it reads, waits for a byte, and says how often it has read.
fn read_for(seconds: u64) {
    let zero = Arc::new(File::open("/dev/zero").unwrap());
    println!("{}", zero.as_raw_fd());
    std::io::stdin().read_exact(&mut [0]).unwrap();
    let begin = Arc::new(Barrier::new(THREADS));
    let reader = || {
        let (zero, begin) = (Arc::clone(&zero), Arc::clone(&begin));
        thread::spawn(move || {
            begin.wait();
            let end = Instant::now() + Duration::from_secs(seconds);
            let mut calls = 0;
            while Instant::now() < end {
                for _ in 0..CALLS_IN_A_ROW {
                    (&*zero).read_exact(&mut [0]).unwrap();
                }
                calls += CALLS_IN_A_ROW;
                thread::sleep(PAUSE);
            }
            calls
        })
    };
    let readers: Vec<_> = (0..THREADS).map(|_| reader()).collect();
    println!("{}", readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u64>());
}

/// Starts processes at a steady rate, and says how many there were.
fn churn_for(seconds: u64) {
    let starter = || {
        thread::spawn(move || {
            let begin = Instant::now();
            let mut started = 0;
            while begin.elapsed() < Duration::from_secs(seconds) {
                let due =
                    begin.elapsed().as_millis() as u64 * PROCESSES_A_SECOND / (1000 * STARTERS);
                if started < due {
                    assert!(Command::new("true").status().unwrap().success());
                    started += 1;
                } else {
                    thread::sleep(Duration::from_millis(2));
                }
            }
            started
        })
    };
    let starters: Vec<_> = (0..STARTERS).map(|_| starter()).collect();
    println!("{}", starters.into_iter().map(|starter| starter.join().unwrap()).sum::<u64>());
}

/// This program once more, in another part.
fn own(part: &str, seconds: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([part, &seconds.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn drive(rlat: &str, seconds: u64) {
    let result = std::env::temp_dir().join(format!("rlat-load-{}.json", std::process::id()));
    let mut reader = own("reads", seconds);
    let mut said = BufReader::new(reader.stdout.take().unwrap()).lines();
    let descriptor = said.next().unwrap().unwrap();
    let mut rlat = Command::new(rlat)
        .args(["-d", "0", "-i", "1", "-f", "json", "-o"])
        .arg(&result)
        .args([&reader.id().to_string(), &descriptor])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut complaints = BufReader::new(rlat.stderr.take().unwrap());
    let mut ready = String::new();
    complaints.read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");

    let churn = own("churn", seconds);
    reader.stdin.take().unwrap().write_all(b"!").unwrap();
    let begin = Instant::now();
    let mut samples: Vec<Usage> = Vec::new();
    while let Some(usage) = Usage::of(rlat.id()) {
        samples.push(usage);
        thread::sleep(Duration::from_secs(1));
    }
    let window = begin.elapsed();
    let calls: u64 = said.next().unwrap().unwrap().parse().unwrap();
    assert!(reader.wait().unwrap().success());
    assert!(rlat.wait().unwrap().success());
    let started = String::from_utf8(churn.wait_with_output().unwrap().stdout).unwrap();
    let started: u64 = started.trim().parse().unwrap();

    let found = added_up(&fs::read_to_string(&result).unwrap());
    fs::remove_file(&result).unwrap();
    let settled = samples[samples.len() / 10].memory_kib;
    let last = samples.last().unwrap();
    let cpu = 100.0 * last.cpu.as_secs_f64() / window.as_secs_f64();
    let per_second = |count: u64| count / seconds;
    println!("calls: {calls} by the process's own count, {} a second", per_second(calls));
    println!("processes started and ended beside it: {started}, {} a second", per_second(started));
    println!(
        "rlat: {} recorded, {} lost, {} in {} intervals",
        found.recorded, found.lost, found.in_intervals, found.intervals
    );
    println!(
        "memory: {settled} KiB after {} s, {} KiB at the end",
        samples.len() / 10,
        last.memory_kib
    );
    println!("CPU: {:.2} s in {:.1} s, {cpu:.3} %", last.cpu.as_secs_f64(), window.as_secs_f64());
    let mut rest = String::new();
    complaints.read_to_string(&mut rest).unwrap();
    print!("{rest}");
    assert_eq!((found.recorded, found.in_intervals, found.lost), (calls, calls, 0));
    assert!(last.memory_kib <= settled + MOST_GROWTH, "its memory grew");
    assert!(cpu < MOST_CPU, "it used too much CPU time");
}
