//! Intervals as JSON and CSV, and into a file: they add up exactly, and what has come is not kept in
//! memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod schema;
mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;
use support::{Folder, RLAT, Rlat, Workload, can_measure, rlat, send, until};

/// Counts by the map's name and the bucket's edges.
type Counts = BTreeMap<String, u64>;

fn add(counts: &mut Counts, key: String, count: &Value) {
    *counts.entry(key).or_default() += count.as_u64().unwrap();
}

fn add_line(counts: &mut Counts, line: &Value) {
    for (name, value) in line["data"].as_object().unwrap() {
        match value {
            Value::Array(rows) => {
                for row in rows {
                    add(counts, format!("{name} {} {}", row["min"], row["max"]), &row["count"]);
                }
            }
            count => add(counts, name.clone(), count),
        }
    }
}

/// What was printed with `-f json -i`, taken apart, and found to add up.
struct Printed {
    intervals: Vec<Value>,
    sums: Counts,
    lines: Vec<Value>,
}

impl Printed {
    fn of(text: &str) -> Self {
        let lines = schema::lines(text);
        let (mut sums, mut whole) = (Counts::new(), Counts::new());
        let mut intervals: Vec<Value> = Vec::new();
        let mut total = None;
        for line in &lines[1..] {
            let data = &line["data"];
            match line["type"].as_str().unwrap() {
                "interval" => {
                    assert!(total.is_none(), "{text}");
                    let before =
                        intervals.last().map_or(0, |last| last["end_ns"].as_u64().unwrap());
                    assert_eq!(data["start_ns"], before, "{text}");
                    assert!(data["end_ns"].as_u64() > data["start_ns"].as_u64(), "{text}");
                    assert_eq!(data["number"], intervals.len() as u64 + 1, "{text}");
                    intervals.push(data.clone());
                }
                "total" => total = data["intervals"].as_u64(),
                "map" | "hist" if total.is_some() => add_line(&mut whole, line),
                "map" | "hist" => {
                    assert!(!intervals.is_empty(), "{text}");
                    add_line(&mut sums, line);
                }
                _ => assert!(total.is_some(), "{text}"),
            }
        }
        assert_eq!(total, Some(intervals.len() as u64), "{text}");
        let end = &lines.last().unwrap()["data"];
        assert_eq!(intervals.last().unwrap()["end_ns"], end["window_ns"], "{text}");
        for counts in [&mut sums, &mut whole] {
            counts.retain(|_, count| *count > 0);
        }
        assert_eq!(sums, whole, "{text}");
        Self { intervals, sums, lines }
    }
}

/// Starts rlat with an open window, and intervals of 100 ms until it is told to end.
fn start(options: &[&str], pid: u32, into: Stdio) -> Rlat {
    let mut command = rlat(["-v", "-d", "0", "-i", "100ms"]);
    command.args(options).arg(pid.to_string());
    let mut rlat = Rlat::spawn(command.stdout(into));
    rlat.wait_for_window();
    rlat
}

/// The file that rlat writes to until it is complete.
fn unfinished(scratch: &Folder, rlat: &Rlat) -> String {
    scratch.text(format!(".rlat-{}-0.tmp", rlat.pid()))
}

fn occurrences(path: &str, what: &str) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.matches(what).count())
}

#[test]
fn json_intervals_have_bpftraces_shape_and_add_up_to_the_workloads_own_count() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["reads", "500", "4"]);
    let scratch = Folder::new("json-intervals");
    for (run, options) in
        [&["-f", "json"][..], &["-f", "json", "--linear", "0,50,5"], &["-f", "json", "-b", "5"]]
            .iter()
            .enumerate()
    {
        let path = scratch.text(format!("{run}"));
        let rlat = start(options, target.pid, File::create(&path).unwrap().into());
        let mut orders = 0;
        while occurrences(&path, r#"{"type": "interval""#) < 4 {
            target.carry_out();
            orders += 1;
        }
        rlat.send(Signal::SIGINT);
        let ended = rlat.ended();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let printed = Printed::of(&fs::read_to_string(&path).unwrap());
        assert!(printed.intervals.len() >= 4);
        assert_eq!(printed.sums["@calls"], orders * 2000);
        let options = &printed.lines[0]["data"]["options"];
        assert_eq!(options["interval_ns"], 100_000_000);
    }
}

#[test]
fn several_calls_have_a_map_and_a_histogram_in_each_interval() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["reads", "100", "1"]);
    let scratch = Folder::new("json-several");
    let path = scratch.text("out");
    let options = ["-f", "json", "--live", "-e", "pread64,read"];
    let rlat = start(&options, target.pid, File::create(&path).unwrap().into());
    target.carry_out();
    until("two intervals are printed", || {
        (occurrences(&path, r#"{"type": "interval""#) >= 2).then_some(())
    });
    rlat.send(Signal::SIGINT);
    assert_eq!(rlat.ended().code, Some(0));
    let printed = Printed::of(&fs::read_to_string(&path).unwrap());
    assert_eq!(printed.sums["@read_calls"], 100);
    let of_kind = |kind: &str| printed.lines.iter().filter(|line| line["type"] == kind).count();
    assert_eq!(of_kind("map"), 2 * (printed.intervals.len() + 1));
    assert_eq!(of_kind("hist"), of_kind("map"));
}

#[test]
fn csv_intervals_add_up() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["reads", "300", "1"]);
    let scratch = Folder::new("csv-intervals");
    let path = scratch.text("out");
    let rlat = start(&["-f", "csv", "-o", &path], target.pid, Stdio::piped());
    for _ in 0..2 {
        target.carry_out();
        let waiting = unfinished(&scratch, &rlat);
        let rows = || occurrences(&waiting, ",read,");
        let before = rows();
        until("an interval is written", || (rows() > before).then_some(()));
    }
    rlat.send(Signal::SIGINT);
    let ended = rlat.ended();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:#?}");
    let text = fs::read_to_string(&path).unwrap();
    let (heading, rows) = text.split_once('\n').unwrap();
    assert_eq!(heading, "interval,start_ns,end_ns,syscall,unit,min,max,count");
    let (mut sums, mut whole) = (Counts::new(), Counts::new());
    for row in rows.lines() {
        let cells: Vec<&str> = row.split(',').collect();
        let [interval, start, end, "read", "us", min, max, count] = cells[..] else {
            panic!("{text}")
        };
        let counts = if interval == "total" { &mut whole } else { &mut sums };
        *counts.entry(format!("{min} {max}")).or_default() += count.parse::<u64>().unwrap();
        assert!(start.parse::<u64>().unwrap() < end.parse::<u64>().unwrap(), "{text}");
    }
    whole.retain(|_, count| *count > 0);
    sums.retain(|_, count| *count > 0);
    assert_eq!(sums, whole, "{text}");
    assert_eq!(sums.values().sum::<u64>(), 600, "{text}");
}

#[test]
fn a_file_gets_its_name_when_it_is_complete_and_is_written_meanwhile() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["reads", "100", "1"]);
    let scratch = Folder::new("meanwhile");
    let path = scratch.text("result");
    fs::write(&path, "the old one").unwrap();
    for (format, begin) in [("json", r#"{"type": "interval""#), ("text", "time: ")] {
        let rlat = start(&["-f", format, "-o", &path], target.pid, Stdio::piped());
        target.carry_out();
        let waiting = unfinished(&scratch, &rlat);
        until("intervals are written", || (occurrences(&waiting, begin) >= 3).then_some(()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "the old one");
        rlat.send(Signal::SIGINT);
        let ended = rlat.ended();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:#?}");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.matches(begin).count() >= 4, "{text}");
        if format == "json" {
            assert_eq!(Printed::of(&text).sums["@calls"], 100);
        }
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1);
        fs::write(&path, "the old one").unwrap();
    }
}

#[test]
fn what_a_killed_rlat_has_written_is_there_and_lacks_its_end() {
    if !can_measure() {
        return;
    }
    let target = Workload::start(["reads", "1", "1"]);
    let scratch = Folder::new("killed");
    let path = scratch.text("result");
    let rlat = start(&["-f", "json", "-o", &path], target.pid, Stdio::piped());
    let waiting = unfinished(&scratch, &rlat);
    let begin = r#"{"type": "interval""#;
    until("intervals are written", || (occurrences(&waiting, begin) >= 2).then_some(()));
    rlat.send(Signal::SIGKILL);
    assert_eq!(rlat.ended().code, None);
    assert!(!std::path::PathBuf::from(&path).exists());
    let text = fs::read_to_string(&waiting).unwrap();
    assert!(text.starts_with(r#"{"type": "meta""#), "{text}");
    assert!(!text.contains(r#"{"type": "end""#), "{text}");
}

#[test]
fn memory_does_not_grow_with_the_intervals() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["reads", "1000", "1"]);
    let scratch = Folder::new("memory");
    let path = scratch.text("result");
    let rlat = start(&["-f", "json", "-b", "5", "-o", &path], target.pid, Stdio::piped());
    let waiting = unfinished(&scratch, &rlat);
    let kib = || rlat::process::Status::read(rlat.pid()).unwrap().peak_memory_kib.unwrap();
    let mut go_on = |intervals| {
        while occurrences(&waiting, r#"{"type": "interval""#) < intervals {
            target.carry_out();
        }
    };
    go_on(3);
    let (before, length) = (kib(), fs::metadata(&waiting).unwrap().len());
    go_on(30);
    let written = (fs::metadata(&waiting).unwrap().len() - length) / 1024;
    assert!(written > 20, "{written} KiB");
    assert!(kib() < before + 1024, "{before} KiB became {}", kib());
    send(Signal::SIGINT, rlat.pid());
    assert_eq!(rlat.ended().code, Some(0));
}

#[test]
fn a_pipe_with_a_name_gets_each_interval_as_it_comes() {
    if !can_measure() {
        return;
    }
    let target = Workload::start(["reads", "1", "1"]);
    let scratch = Folder::new("fifo");
    for format in ["text", "json", "csv"] {
        let path = scratch.text(format);
        mkfifo(path.as_str(), Mode::S_IRWXU).unwrap();
        let pid = target.pid.to_string();
        let args = ["-d", "350ms", "-i", "100ms", "-f", format, "-o", &path, &pid];
        let rlat = Rlat::spawn(rlat(args).stdout(Stdio::piped()));
        let mut text = String::new();
        File::open(&path).unwrap().read_to_string(&mut text).unwrap();
        let ended = rlat.ended();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:#?}");
        match format {
            "json" => assert!(Printed::of(&text).intervals.len() > 1),
            "csv" => assert!(text.starts_with("interval,"), "{text}"),
            _ => assert!(text.starts_with("time: ") && text.contains("\ntotal: "), "{text}"),
        }
    }
}

/// Runs in mounts of its own. The file system has 64 KiB, and room for a few intervals.
#[test]
fn a_disk_that_gets_full_ends_the_measurement_and_costs_no_interval() {
    if !can_measure() || !requirements::tool("unshare", "util-linux") {
        return;
    }
    let target = Workload::start(["reads", "1", "1"]);
    let scratch = Folder::new("full");
    let folder = scratch.text("");
    let script = r#"mount -t tmpfs -o size=64k tmpfs "$1" && cd "$1" || exit 99
        echo old >result; head -c 48k /dev/zero >filler
        "$2" -d 0 -i 100ms -f $4 -o result $3 $5
        echo "status $?, $(cat result), $(ls -A | tr '\n' ' ')""#;
    // Not as CSV, in which an interval without calls has no row.
    for format in ["text", "json"] {
        let (pid, calls) = (target.pid.to_string(), "-e@read,@write,@sync,@net");
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh", &folder, RLAT, &pid, format, calls]);
        let ended = Rlat::spawn(command.stdout(Stdio::piped())).ended();
        assert_eq!(ended.stdout, "status 1, old, filler result \n", "{ended:#?}");
        assert!(ended.stderr.contains("cannot write the result to result: ENOSPC"), "{ended:#?}");
        let result = ended.stderr.split_once("rlat: cannot").unwrap().0;
        if format == "json" {
            let begin = result.find("{\"type\": \"meta\"").unwrap();
            let lines = result[begin..].split_inclusive('\n');
            let lines: String = lines.filter(|line| line.starts_with('{')).collect();
            let printed = Printed::of(&lines);
            assert!(printed.intervals.len() > 3, "{ended:#?}");
            assert_eq!(printed.lines.last().unwrap()["data"]["closed_by"], "output");
        } else {
            assert!(result.matches("time: ").count() > 3, "{ended:#?}");
            assert!(result.contains("until the output took no more"), "{ended:#?}");
        }
    }
}
