//! The result in each format, and wherever it is to go.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod documented;
mod requirements;
mod schema;
mod support;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, pipe};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use documented::assert_documented;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;
use support::{Ended, Folder, RLAT, Report, Rlat, Workload, can_measure, rlat};

/// A workload that makes 1,000 calls when it is told to.
fn target() -> Workload {
    Workload::start(["reads", "1000", "1"])
}

/// `rlat -d 0 -v OPTIONS PID`
fn with_options<O: AsRef<OsStr>>(options: &[O], target: &Workload) -> Command {
    let mut command = rlat(["-v", "-d", "0"]);
    command.args(options).arg(target.pid.to_string());
    command
}

/// Measures 1,000 calls.
fn measure<O: AsRef<OsStr>>(options: &[O], target: &mut Workload) -> Ended {
    let rlat = Rlat::with_open_window(&mut with_options(options, target));
    target.carry_out();
    rlat.send(Signal::SIGINT);
    rlat.ended()
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).map(|line| &line["data"]).collect()
}

#[test]
fn json_has_all_that_text_has_and_the_protocol() {
    if !can_measure() {
        return;
    }
    let mut target = target();
    let ended = measure(&["-f", "json", "--note", "a \"b\"\n\u{1b}", "--unit", "ns"], &mut target);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let lines = schema::lines(&ended.stdout);

    let meta = of_kind(&lines, "meta")[0];
    assert_eq!(meta["rlat"], env!("CARGO_PKG_VERSION"));
    assert_eq!(meta["note"], "a \"b\"\n\u{1b}");
    assert_eq!(meta["unit"], "ns");
    assert_eq!(meta["options"]["duration_ns"], Value::Null);
    assert_eq!(meta["command_line"][5], "json", "{meta}");
    let measured = &meta["targets"][0];
    assert_eq!(measured["pid"], target.pid);
    assert_eq!(measured["name"], "workload");
    assert_eq!(measured["command_line"][1], "reads");
    assert_eq!(measured["threads"], 2);
    assert!(meta["cpus"]["online"].as_u64() >= Some(1), "{meta}");

    assert_eq!(of_kind(&lines, "map")[0]["@calls"], 1000);
    let rows = of_kind(&lines, "hist")[0]["@read_ns"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["count"].as_u64().unwrap()).sum::<u64>(), 1000);
    assert_eq!(of_kind(&lines, "summary")[0]["count"], 1000);
    let ledger = of_kind(&lines, "ledger")[0];
    assert_eq!((&ledger["entered"], &ledger["adds_up"]), (&1000.into(), &true.into()));
    assert_eq!(of_kind(&lines, "end")[0]["closed_by"], "signal");
}

#[test]
fn json_of_several_calls_has_lines_for_each_and_those_in_flight() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["input", "2"]);
    target.start_reading(2);
    let options = ["-f", "json", "-e", "read,write", "--linear", "0,100,30"];
    let rlat = Rlat::with_open_window(&mut with_options(&options, &target));
    rlat.send(Signal::SIGINT);
    let lines = schema::lines(&rlat.ended().stdout);
    let in_flight = of_kind(&lines, "inflight");
    assert_eq!(in_flight.len(), 2, "{lines:#?}");
    assert!(in_flight.iter().all(|call| call["fd"] == 0 && call["since_before_window"] == true));
    assert!(in_flight.iter().all(|call| call["target"].as_str().unwrap().starts_with("pipe:[")));
    assert_eq!(of_kind(&lines, "hist").len(), 2);
    assert_eq!(of_kind(&lines, "map")[1]["@write_calls"], 0);
    assert_eq!(of_kind(&lines, "meta")[0]["options"]["linear"]["overflow_from"], 90);
}

#[test]
fn csv_has_the_buckets() {
    if !can_measure() {
        return;
    }
    let ended = measure(&["-f", "csv"], &mut target());
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let (heading, rows) = ended.stdout.split_once('\n').unwrap();
    assert_eq!(heading, "syscall,unit,min,max,count");
    let counts = rows.lines().map(|row| {
        assert!(row.starts_with("read,us,"), "{row}");
        row.rsplit(',').next().unwrap().parse::<u64>().unwrap()
    });
    assert_eq!(counts.sum::<u64>(), 1000, "{rows}");
}

#[test]
fn a_note_is_in_the_text_and_has_no_place_in_csv() {
    if !can_measure() {
        return;
    }
    let mut target = target();
    let ended = measure(&["--note", "cold\ncache"], &mut target);
    assert!(ended.stdout.ends_with("\nremark: cold\\ncache\n"), "{ended:#?}");
    let ended = Rlat::spawn(&mut with_options(&["-f", "csv", "--note", "x"], &target)).ended();
    assert_eq!(ended.code, Some(2), "{ended:#?}");
}

/// A program by a name that is no text, and would break a line.
#[test]
fn any_name_gives_lines_that_are_whole() {
    if !can_measure() {
        return;
    }
    let folder = Folder::new("output");
    let program = folder.path(OsStr::from_bytes(b"a\n\xff\"\x1b[31m"));
    fs::copy("/bin/sleep", &program).unwrap();
    let mut sleep = Command::new(&program).arg("1000").spawn().unwrap();
    let output = rlat(["-f", "json", "-d", "1ms", &sleep.id().to_string()]).output().unwrap();
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let expected = |line: &str| line == "ready" || line.starts_with("hint: ");
    assert!(stderr.lines().all(expected), "{stderr}");
    let lines = schema::lines(std::str::from_utf8(&output.stdout).unwrap());
    let measured = &of_kind(&lines, "meta")[0]["targets"][0];
    let hex = measured["command_line_hex"][0].as_str().unwrap();
    assert!(hex.ends_with("610aff221b5b33316d"), "{measured}");
    assert_eq!(measured["name"], "a\n\u{fffd}\"\u{1b}[31m");
}

#[test]
fn a_file_is_replaced_as_a_whole() {
    if !can_measure() {
        return;
    }
    let mut target = target();
    let folder = Folder::new("output");
    let path = folder.path("a result.jsonl");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let mut old = File::open(&path).unwrap();

    let options: [&OsStr; 4] = ["-f".as_ref(), "json".as_ref(), "-o".as_ref(), path.as_ref()];
    let rlat = Rlat::with_open_window(&mut with_options(&options, &target));
    target.carry_out();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old", "while it is measured");
    assert_eq!(folder.names(), ["a result.jsonl"]);
    rlat.send(Signal::SIGINT);
    let ended = rlat.ended();

    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:#?}");
    let lines = schema::lines(&fs::read_to_string(&path).unwrap());
    assert_eq!(of_kind(&lines, "map")[0]["@calls"], 1000);
    assert_eq!(folder.names(), ["a result.jsonl"]);
    let mut text = String::new();
    old.read_to_string(&mut text).unwrap();
    assert_eq!(text, "old", "whoever had it open keeps it");
    let (old, new) = (old.metadata().unwrap(), fs::metadata(&path).unwrap());
    assert_ne!(old.ino(), new.ino());
    assert_eq!(new.mode() & 0o777, 0o600, "its rights stay");
}

#[test]
fn a_new_file_is_no_more_open_than_0644() {
    if !can_measure() {
        return;
    }
    let target = target();
    let folder = Folder::new("output");
    let path = folder.path(OsStr::from_bytes(b"new\n\xff"));
    let command = r#"umask 0; exec "$0" -d 1ms -o "$1" "$2""#;
    let output = Command::new("sh")
        .args(["-c", command, RLAT])
        .arg(&path)
        .arg(target.pid.to_string())
        .output()
        .unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert_eq!(Report::of(&fs::read_to_string(&path).unwrap()).ledger.entered, 0);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
}

#[test]
fn a_symbolic_link_is_replaced_and_not_what_it_leads_to() {
    if !can_measure() {
        return;
    }
    let mut target = target();
    let folder = Folder::new("output");
    fs::write(folder.path("precious"), "old").unwrap();
    for leads_to in ["precious", "nothing"] {
        let link = folder.path("link");
        symlink(leads_to, &link).unwrap();
        let ended = measure(&[OsStr::new("-o"), link.as_ref()], &mut target);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_eq!(Report::of(&fs::read_to_string(&link).unwrap()).ledger.entered, 1000);
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
        assert_eq!(fs::read_to_string(folder.path("precious")).unwrap(), "old");
        assert_eq!(folder.names(), ["link", "precious"]);
        fs::remove_file(link).unwrap();
    }
}

/// What cannot be written to is found out before anything is measured.
/// Somebody may have put it there, so that root writes to what they want, or waits for them.
#[test]
fn a_symbolic_link_to_a_pipe_or_a_device_is_refused() {
    let folder = Folder::new("output");
    let fifo = folder.path("fifo");
    mkfifo(&fifo, Mode::from_bits_truncate(0o600)).unwrap();
    for leads_to in [Path::new("/dev/null"), &fifo] {
        let link = folder.path("link");
        symlink(leads_to, &link).unwrap();
        let own = std::process::id().to_string();
        let output =
            Command::new(RLAT).arg("-o").arg(&link).args(["-d", "1ms", &own]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_documented("`-o` names a link to a pipe or a device", output.status.code(), &said);
        fs::remove_file(&link).unwrap();
    }
}

#[test]
fn a_path_that_cannot_be_written_to_is_refused_at_once() {
    if !can_measure() {
        return;
    }
    let target = target();
    let folder = Folder::new("output");
    let file = folder.path("file");
    fs::write(&file, "old").unwrap();
    let too_long = folder.path("x".repeat(300));
    let socket = folder.path("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for (path, why) in [
        (folder.0.clone(), "EISDIR"),
        (folder.path("new/"), "EISDIR"),
        (folder.path("none/file"), "ENOENT"),
        (file.join("file"), "ENOTDIR"),
        (too_long, "ENAMETOOLONG"),
        (socket, "ENXIO"),
        (PathBuf::from("/proc/rlat"), "ENOENT"),
        (PathBuf::from(".."), "EISDIR"),
    ] {
        let ended =
            Rlat::spawn(&mut with_options(&[OsStr::new("-o"), path.as_ref()], &target)).ended();
        assert_eq!(ended.code, Some(2), "{path:?}: {ended:#?}");
        assert!(ended.stderr.contains(why), "{path:?}: {ended:#?}");
        assert!(!ended.stderr.contains("the window opened"), "{path:?}: {ended:#?}");
    }
    assert_eq!(folder.names(), ["file", "socket"]);
    assert_eq!(fs::read_to_string(file).unwrap(), "old");
}

#[test]
fn a_folder_without_the_right_to_write_is_refused_at_once() {
    if !can_measure() || !requirements::tool("setpriv", "util-linux") {
        return;
    }
    let target = target();
    let folder = Folder::new("output");
    fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o555)).unwrap();
    // Root may do everything only by this capability.
    let output = Command::new("setpriv")
        .args(["--bounding-set=-dac_override", RLAT, "-o"])
        .arg(folder.path("file"))
        .arg(target.pid.to_string())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("EACCES"), "{stderr}");
    assert!(folder.names().is_empty());
}

/// Runs in mounts of its own, where a small file system is full.
#[test]
fn on_a_full_disk_the_result_goes_to_standard_error_and_the_old_file_stays() {
    if !can_measure() || !requirements::tool("unshare", "util-linux") {
        return;
    }
    let target = target();
    let folder = Folder::new("output");
    let script = r#"mount -t tmpfs -o size=8k tmpfs "$1" && cd "$1" || exit 99
        echo old >file; cat /dev/zero >rest 2>/dev/null
        "$0" -d 1ms -o file "$2"; code=$?
        cat file; ls -A; exit $code"#;
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, RLAT])
        .arg(&folder.0)
        .arg(target.pid.to_string())
        .output()
        .unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    assert_eq!(stdout, "old\nfile\nrest\n");
    assert_eq!(Report::of(&stderr).ledger.entered, 0);
    let message =
        "rlat: cannot write the result to file: ENOSPC: No space left on device\n  next: ";
    assert!(stderr.contains(message), "{stderr}");
}

#[test]
fn a_device_is_written_directly_and_a_full_one_costs_no_numbers() {
    if !can_measure() {
        return;
    }
    let mut target = target();
    let ended = measure(&["-o", "/dev/null"], &mut target);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:#?}");
    let ended = measure(&["-o", "/dev/full"], &mut target);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:#?}");
    assert_eq!(Report::of(&ended.stderr).ledger.entered, 1000);
    assert!(ended.stderr.contains("to /dev/full: ENOSPC"), "{ended:#?}");
    for device in ["/dev/null", "/dev/full"] {
        assert!(!fs::metadata(device).unwrap().is_file());
    }
}

#[test]
fn the_names_of_standard_output_and_error_mean_just_them() {
    if !can_measure() {
        return;
    }
    let mut target = target();
    let ended = measure(&["-o", "/dev/stdout"], &mut target);
    assert_eq!(Report::of(&ended.stdout).ledger.entered, 1000, "{ended:#?}");
    let ended = measure(&["-o", "/dev/stderr"], &mut target);
    assert_eq!(Report::of(&ended.stderr).ledger.entered, 1000, "{ended:#?}");

    // A regular file is not replaced under that name, but written where it is.
    let folder = Folder::new("output");
    let path = folder.path("file");
    let mut command = with_options(&["-o", "/dev/stdout"], &target);
    let mut rlat = Rlat::spawn(command.stdout(File::create(&path).unwrap()));
    rlat.wait_for_window();
    target.carry_out();
    rlat.send(Signal::SIGINT);
    assert_eq!(rlat.ended().code, Some(0));
    assert_eq!(Report::of(&fs::read_to_string(&path).unwrap()).ledger.entered, 1000);
}

#[test]
fn a_pipe_with_a_name_is_written_to() {
    if !can_measure() {
        return;
    }
    let mut target = target();
    let folder = Folder::new("output");
    let fifo = folder.path("fifo");
    mkfifo(&fifo, Mode::from_bits_truncate(0o600)).unwrap();
    let options: [&OsStr; 2] = ["-o".as_ref(), fifo.as_ref()];
    let reader = thread::spawn({
        let fifo = fifo.clone();
        move || fs::read_to_string(fifo).unwrap()
    });
    let ended = measure(&options, &mut target);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:#?}");
    assert_eq!(Report::of(&reader.join().unwrap()).ledger.entered, 1000);

    // The reader leaves before it has got anything.
    let path = fifo.clone();
    let reader = thread::spawn(move || File::open(path).unwrap());
    let rlat = Rlat::with_open_window(&mut with_options(&options, &target));
    drop(reader.join().unwrap());
    target.carry_out();
    rlat.send(Signal::SIGINT);
    let ended = rlat.ended();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert_eq!(Report::of(&ended.stderr).ledger.entered, 1000);
    assert!(ended.stderr.contains("EPIPE"), "{ended:#?}");
    assert_eq!(folder.names(), ["fifo"]);
}

/// While nobody reads from the pipe yet, one interrupt is enough.
#[test]
fn waiting_for_a_reader_ends_at_the_first_interrupt() {
    if !can_measure() {
        return;
    }
    let target = target();
    let folder = Folder::new("output");
    let fifo = folder.path("fifo");
    mkfifo(&fifo, Mode::from_bits_truncate(0o600)).unwrap();
    let rlat = Rlat::spawn(&mut with_options(&[OsStr::new("-o"), fifo.as_ref()], &target));
    support::until("rlat waits for a reader", || {
        let now = ::rlat::process::activity(rlat.pid(), rlat.pid());
        let waits = |number| [libc::SYS_openat].contains(&number);
        matches!(now, Ok(::rlat::process::Activity::InSyscall { number, .. }) if waits(number))
            .then_some(())
    });
    rlat.send(Signal::SIGINT);
    assert_eq!(rlat.ended().code, None);
}

/// A program that reads one line and leaves hears no complaint, in any format.
#[test]
fn a_reader_that_leaves_is_no_reason_to_complain() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["input", "1000"]);
    target.start_reading(1000);
    for format in ["json", "text"] {
        let (mut reader, stdout) = pipe().unwrap();
        let mut command = with_options(&["-f", format], &target);
        let mut rlat = Rlat::spawn(command.stdout(stdout));
        command.stdout(Stdio::null());
        rlat.wait_for_window();
        rlat.send(Signal::SIGINT);
        reader.read_exact(&mut [0; 10]).unwrap();
        drop(reader);
        let ended = rlat.ended();
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        assert!(!ended.stderr.contains("rlat: "), "{format}: {ended:#?}");
        assert!(!ended.stderr.contains("in flight"), "{format}: {ended:#?}");
    }
}
