//! Intervals add up exactly to the total, the live histogram ends as the result, and whoever waits for
//! the window to open is told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ::rlat::process::Status;
use nix::sys::signal::Signal;
use support::{RLAT, Report, Rlat, Workload, can_measure, rlat, send, until, wait_for};

/// What rlat printed with `-i`, taken apart, and found to add up.
struct Printed {
    intervals: Vec<BTreeMap<String, u64>>,
    total: Report,
}

impl Printed {
    fn of(text: &str) -> Self {
        let (intervals, total) = text.split_once("total: ").expect(text);
        let intervals: Vec<_> = intervals.split("time: ").skip(1).map(counts).collect();
        let (count, total) = total.split_once('\n').unwrap();
        let count = count.split(' ').next().unwrap().parse();
        assert_eq!(count, Ok(intervals.len()), "{text}");

        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (what, count) in intervals.iter().flatten() {
            *sums.entry(what.clone()).or_default() += count;
        }
        // Empty rows in between are shown where something is on both sides.
        let filled = |counts: BTreeMap<String, u64>| -> BTreeMap<String, u64> {
            counts.into_iter().filter(|(_, count)| *count > 0).collect()
        };
        assert_eq!(filled(sums), filled(counts(total)), "{text}");
        Self { intervals, total: Report::of(total) }
    }

    fn calls(&self) -> Vec<u64> {
        self.intervals.iter().map(|counts| counts["@calls"]).collect()
    }
}

/// The counter and the rows, each with its label.
fn counts(text: &str) -> BTreeMap<String, u64> {
    let number = |line: &str| line.split_ascii_whitespace().next()?.parse().ok();
    text.lines()
        .filter_map(|line| {
            if let Some(calls) = line.strip_prefix("@calls: ") {
                return Some(("@calls".to_owned(), number(calls)?));
            }
            let end = line.find([']', ')']).filter(|_| line.starts_with('['))?;
            Some((line[..=end].to_owned(), number(&line[end + 1..])?))
        })
        .collect()
}

/// A file that is gone when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("rlat-{name}-{}", std::process::id())))
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// An rlat that prints intervals of 100 ms into a file until it is told to end, with an open window.
fn with_intervals(pid: u32, into: &Scratch) -> Rlat {
    let mut command = rlat(["-v", "-d", "0", "-i", "100ms", &pid.to_string()]);
    let mut rlat = Rlat::spawn(command.stdout(File::create(&into.0).unwrap()));
    rlat.wait_for_window();
    rlat
}

/// Waits until so many more intervals have been printed.
fn wait_for_intervals(more: usize, printed: &Scratch) {
    let count = || printed.text().matches("time: ").count();
    let before = count();
    until("intervals are printed", || (count() >= before + more).then_some(()));
}

#[test]
fn the_sums_are_the_total_and_the_workloads_own_count_when_a_signal_ends_it() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["reads", "500", "4"]);
    for run in 0..3 {
        let printed = Scratch::new(&format!("sums-{run}"));
        let rlat = with_intervals(target.pid, &printed);
        let mut orders = 0;
        while printed.text().matches("time: ").count() < 4 {
            target.carry_out();
            orders += 1;
        }
        rlat.send(Signal::SIGINT);
        assert_eq!(rlat.ended().code, Some(0));
        let printed = Printed::of(&printed.text());
        assert!(printed.total.text.contains(", until interrupted"), "{}", printed.total);
        if !printed.total.was_disturbed() {
            assert_eq!(printed.calls().iter().sum::<u64>(), orders * 2000, "{}", printed.total);
        }
        let several = printed.calls().iter().filter(|calls| **calls > 0).count();
        assert!(several > 1, "{:?}", printed.calls());
    }
}

#[test]
fn the_last_interval_is_shorter_when_the_time_is_no_multiple() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["reads", "1000", "1"]);
    // On a busy machine an interval can be slept through, and is part of the next one then.
    for (time, most) in [("250ms", 3), ("300ms", 3), ("50ms", 1)] {
        let printed = Scratch::new(&format!("last-{time}"));
        let mut command = rlat(["-v", "-d", time, "-i", "100ms", &target.pid.to_string()]);
        let mut rlat = Rlat::spawn(command.stdout(File::create(&printed.0).unwrap()));
        rlat.wait_for_window();
        target.carry_out();
        assert_eq!(rlat.ended().code, Some(0));
        let printed = Printed::of(&printed.text());
        assert!((1..=most).contains(&printed.intervals.len()), "{time}: {:?}", printed.calls());
    }
}

/// A call that a signal interrupted is held back until the thread goes on, or the window closes.
#[test]
fn a_call_that_was_held_back_is_in_the_last_interval() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["input", "1"]);
    let printed = Scratch::new("held");
    let rlat = with_intervals(target.pid, &printed);
    target.start_reading(1);
    send(Signal::SIGSTOP, target.pid);
    until("the process is stopped", || {
        (Status::read(target.pid).unwrap().state == Some('T')).then_some(())
    });
    wait_for_intervals(2, &printed);
    rlat.send(Signal::SIGINT);
    assert_eq!(rlat.ended().code, Some(0));
    let printed = Printed::of(&printed.text());
    let (last, others) = printed.calls().split_last().map(|(l, o)| (*l, o.to_vec())).unwrap();
    assert_eq!(last, 1, "{}", printed.total);
    assert!(others.iter().all(|calls| *calls == 0), "{others:?}");
    assert_eq!(printed.total.ledger.recorded, 1);
}

#[test]
fn each_call_and_linear_buckets_have_their_intervals() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["reads", "100", "1"]);
    let printed = Scratch::new("several");
    let pid = target.pid.to_string();
    let args = ["-v", "-d", "0", "-i", "0.1", "--linear", "0,100,10", "-e", "pread64,read", &pid];
    let mut rlat = Rlat::spawn(rlat(args).stdout(File::create(&printed.0).unwrap()));
    rlat.wait_for_window();
    target.carry_out();
    wait_for_intervals(1, &printed);
    rlat.send(Signal::SIGINT);
    assert_eq!(rlat.ended().code, Some(0));
    let text = printed.text();
    let (intervals, total) = text.split_once("total: ").unwrap();
    let sum = |text: &str, counter: &str| -> u64 {
        let values = text.lines().filter_map(|line| line.strip_prefix(counter));
        values.map(|value| value.parse::<u64>().unwrap()).sum()
    };
    for counter in ["@read_calls: ", "@pread64_calls: "] {
        assert_eq!(sum(intervals, counter), sum(total, counter), "{text}");
    }
    assert_eq!(sum(total, "@read_calls: "), 100, "{text}");
}

#[test]
fn an_output_that_takes_no_more_ends_the_measurement() {
    if !can_measure() {
        return;
    }
    let target = Workload::start(["reads", "1", "1"]);
    let pid = target.pid.to_string();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ended = Rlat::spawn(rlat(["-d", "0", "-i", "100ms", &pid]).stdout(full)).ended();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(lines[0] == "ready" && lines[1].starts_with("time: "), "{ended:#?}");
    assert!(ended.stderr.contains("until the output took no more"), "{ended:#?}");
    assert!(ended.stderr.contains("cannot write the result to standard output"), "{ended:#?}");

    // A reader that has left has what it wanted.
    let shell = format!("{RLAT} -d 0 -i 100ms {pid} | head -n 1");
    let ended = Rlat::spawn(Command::new("sh").args(["-c", &shell]).stdout(Stdio::piped())).ended();
    assert!(ended.stdout.starts_with("time: "), "{ended:#?}");
    assert!(!ended.stderr.contains("cannot write"), "{ended:#?}");
}

#[test]
fn intervals_of_a_command_go_to_standard_error_and_those_for_a_file_appear_with_the_result() {
    if !can_measure() {
        return;
    }
    let own = "sleep 0.25; echo own";
    let mut command = rlat(["--live", "-i", "100ms", "--", "sh", "-c", own]);
    let ended = Rlat::spawn(command.stdout(Stdio::piped())).ended();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "own\n"), "{ended:#?}");
    Printed::of(ended.stderr.strip_prefix("ready\n").unwrap());

    let mut target = Workload::start(["reads", "100", "1"]);
    let into = Scratch::new("into");
    let (path, pid) = (into.0.to_str().unwrap().to_owned(), target.pid.to_string());
    let mut command = rlat(["-v", "-d", "250ms", "--live", "-i", "100ms", "-o", &path, &pid]);
    let mut rlat = Rlat::spawn(command.stdout(Stdio::piped()));
    rlat.wait_for_window();
    target.carry_out();
    let ended = rlat.ended();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:#?}");
    Printed::of(&into.text());
}

/// What a terminal of that kind and size is sent.
fn on_terminal(term: &str, columns: u32, rows: u32, command: &str) -> String {
    let command = format!("stty cols {columns} rows {rows}; TERM={term} {command}");
    let shown = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(shown.status.success(), "{shown:?}");
    String::from_utf8(shown.stdout).unwrap().replace("\r\n", "\n")
}

#[test]
fn the_live_histogram_is_redrawn_in_place_and_ends_as_the_result() {
    if !can_measure() || !requirements::tool("script", "bsdutils") {
        return;
    }
    let target = Workload::start(["reads", "1", "1"]);
    let live = format!("{RLAT} --live -i 100ms -d 350ms {} 2>/dev/null", target.pid);
    let shown = on_terminal("xterm", 100, 30, &live);
    let (drawings, result) = shown.rsplit_once("\x1b[J").expect(&shown);
    Report::of(result);
    assert!(result.starts_with("@calls: 0\n"), "{shown:?}");
    // Each erases as many rows as the one before it took.
    for drawing in drawings.split("\x1b[J") {
        let text = drawing.trim_start_matches("^D\u{8}\u{8}");
        assert!(text.starts_with("@calls: 0\n\n1 s left, 0 calls\n"), "{shown:?}");
    }
    assert!(drawings.matches("\r\x1b[3A").count() >= 1, "{shown:?}");
    assert!(!shown.contains("\x1b[?1049h"), "{shown:?}");

    for (columns, rows) in [(5, 3), (1, 1), (0, 0)] {
        let shown = on_terminal("xterm", columns, rows, &live);
        Report::of(shown.rsplit_once("\x1b[J").expect(&shown).1);
    }
}

#[test]
fn where_nothing_can_be_redrawn_the_intervals_are_printed() {
    if !can_measure() || !requirements::tool("script", "bsdutils") {
        return;
    }
    let target = Workload::start(["reads", "1", "1"]);
    let pid = target.pid.to_string();
    let live = format!("{RLAT} --live -i 100ms -d 150ms {pid} 2>/dev/null");
    let shown = on_terminal("dumb", 100, 30, &live);
    assert!(!shown.contains('\x1b'), "{shown:?}");
    Printed::of(&shown);

    let mut command = rlat(["--live", "-i", "100ms", "-d", "150ms", &pid]);
    let ended = Rlat::spawn(command.stdout(Stdio::piped())).ended();
    Printed::of(&ended.stdout);
}

#[test]
fn the_first_line_on_standard_error_says_that_the_window_is_open() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["reads", "10", "1"]);
    let mut rlat = Rlat::spawn(rlat(["-d", "0", &target.pid.to_string()]).stdout(Stdio::piped()));
    assert_eq!(rlat.said(""), "ready");
    target.carry_out();
    let report = rlat.interrupt();
    assert_eq!(report.ledger.recorded, 10, "{report}");
}

#[test]
fn a_descriptor_is_told_that_the_window_is_open_and_closed() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["reads", "10", "1"]);
    let printed = Scratch::new("ready-fd");
    let (pid, into) = (target.pid, printed.0.display());
    let shell = format!("exec {RLAT} -d 0 --ready-fd 9 {pid} 9>&1 >{into}");
    let mut command = Command::new("sh");
    command.args(["-c", &shell]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut told = String::new();
    child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(told, "ready\n");
    target.carry_out();
    send(Signal::SIGINT, child.id());
    assert!(wait_for(&mut child).unwrap().success());
    assert_eq!(Report::of(&printed.text()).ledger.recorded, 10);
}

#[test]
fn a_descriptor_that_cannot_be_told_is_refused_before_anything_is_loaded() {
    let own = std::process::id().to_string();
    let ended = Rlat::spawn(rlat(["--ready-fd", "9", &own]).stdout(Stdio::piped())).ended();
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    assert!(ended.stderr.contains("cannot use --ready-fd 9: ENOENT"), "{ended:#?}");

    let (socket, _peer) = UnixStream::pair().unwrap();
    let shell = format!("exec {RLAT} --ready-fd 9 {own} 9>&1");
    let mut command = Command::new("sh");
    let ended =
        Rlat::spawn(command.args(["-c", &shell]).stdout(Stdio::from(OwnedFd::from(socket))))
            .ended();
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    assert!(ended.stderr.contains("it is a socket"), "{ended:#?}");
}

#[test]
fn an_interval_that_is_too_short_is_refused() {
    for bad in ["0", "99ms", "-1", "NaN", "x"] {
        let own = std::process::id().to_string();
        let ended = Rlat::spawn(rlat(["-i", bad, &own]).stdout(Stdio::piped())).ended();
        assert_eq!(ended.code, Some(2), "{bad}: {ended:#?}");
    }
}
