//! `rlat cost` and `--calibrate`: what is printed, and how it ends. How large the numbers are is for
//! `cargo bench` to show.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod schema;
mod support;

use std::process::Output;

use serde_json::Value;
use support::{Workload, can_measure, rlat};

/// Runs `rlat` and returns what it printed on standard output.
fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:#?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Whether each of the calls took time, and tracing added something to those that are measured.
fn is_calibration(data: &Value) {
    for call in ["measured_call", "same_call_of_another", "other_call_of_another"] {
        assert!(data[call]["untraced_ns"].as_i64().unwrap() > 0, "{data}");
    }
    assert!(data["measured_call"]["added_ns"].as_i64().unwrap() > 0, "{data}");
    assert!(data["turns"].as_u64() >= Some(2), "{data}");
}

#[test]
fn a_process_is_related_to_the_calibration() {
    if !can_measure() {
        return;
    }
    // More calls than it can make meanwhile.
    let workload = Workload::start(["reads", "1000000000", "1"]);
    workload.order();
    let output = rlat(["cost", "-f", "json", &workload.pid.to_string()]).output().unwrap();
    let lines = schema::values(&stdout(&output));
    assert_eq!([&lines[0]["type"], &lines[1]["type"]], ["calibration", "process"]);
    is_calibration(&lines[0]["data"]);
    let process = &lines[1]["data"];
    assert_eq!(process["pid"], workload.pid);
    assert!(process["measured_calls"].as_u64().unwrap() > 0, "{process}");
    assert!(process["share_of_cpu"].as_f64().unwrap() > 0.0, "{process}");
}

#[test]
fn a_calibration_takes_the_options_of_the_measurement() {
    if !can_measure() {
        return;
    }
    let workload = Workload::start(["reads", "1", "1"]);
    let output = rlat(["cost", "-e", "write,@open", "--attach", "raw", &workload.pid.to_string()])
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(text.contains("\na measured call "), "{text}");
    assert!(text.contains("makes 0 measured and 0 other calls a second\n"), "{text}");
    let pid = workload.pid.to_string();
    let output = rlat(["cost", "--fd", "7", "--fd", "9", &pid]).output().unwrap();
    assert!(stdout(&output).contains("\na measured call "));
}

#[test]
fn a_command_is_run_without_and_with_tracing() {
    if !can_measure() {
        return;
    }
    let mut command = rlat(["cost", "-f", "json", "-n", "6", "--", "dd"]);
    let output = command.args(["if=/dev/zero", "bs=1", "count=1000"]).output().unwrap();
    // What dd itself writes is nowhere.
    let lines = schema::values(&stdout(&output));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!([&lines[0]["type"], &lines[1]["type"]], ["calibration", "runs"]);
    is_calibration(&lines[0]["data"]);
    let runs = &lines[1]["data"];
    for times in ["without_ns", "with_ns"] {
        assert_eq!(runs[times].as_array().unwrap().len(), 6);
    }
    let calls = runs["measured_calls"].as_array().unwrap();
    // And those of the loader, for the sake of the libraries.
    assert!(calls.iter().all(|run| run.as_u64() >= Some(1000)), "{runs}");
    assert!(calls.iter().all(|run| run == &calls[0]), "{runs}");
}

#[test]
fn a_command_that_fails_ends_it_with_its_exit_status() {
    if !can_measure() {
        return;
    }
    for (command, code) in
        [("exit 3", Some(3)), ("kill -KILL $$", Some(128 + 9)), ("exec /none", Some(127))]
    {
        let output = rlat(["cost", "--", "sh", "-c", command]).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (code, 0), "{output:?}");
    }
    let output = rlat(["cost", "--", "/no/such/command"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_measured() {
    for args in [
        &["cost"][..],
        &["cost", "-n", "0", "--", "true"],
        &["cost", "-n", "501", "--", "true"],
        &["cost", "-n", "3", "1"],
        &["cost", "1", "--", "true"],
        &["cost", "-e", "@none", "1"],
    ] {
        let output = rlat([]).args(args).output().unwrap();
        if args.contains(&"@none") && !can_measure() {
            continue;
        }
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
    }
    let output = rlat(["cost", "2147483647"]).output().unwrap();
    assert_eq!(output.status.code(), Some(6));
}

#[test]
fn each_format_has_a_place_for_the_calibration() {
    if !can_measure() {
        return;
    }
    let workload = Workload::start(["reads", "1", "1"]);
    let pid = workload.pid.to_string();
    let measured = |format| {
        let output = rlat(["--calibrate", "-d", "1ms", "-f", format, &pid]).output().unwrap();
        let stderr = String::from_utf8(output.stderr.clone()).unwrap();
        (stdout(&output), stderr)
    };
    let begins =
        |line: &str| line.starts_with("calibration: ") && line.contains(" measured call, ");
    let (text, _) = measured("text");
    assert!(text.lines().any(begins), "{text}");
    let (json, _) = measured("json");
    is_calibration(&schema::lines(&json)[0]["data"]["calibration"]);
    let (csv, stderr) = measured("csv");
    assert!(csv.starts_with("syscall,") && !csv.contains("calibration"), "{csv}");
    assert!(stderr.starts_with("ready\n") && stderr.lines().any(begins), "{stderr}");
}
