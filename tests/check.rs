//! `rlat check` says in advance what a measurement will say.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use std::fs::{self, File};
use std::process::{Command, Output};

use serde_json::Value;
use support::{Folder, RLAT, TracefsCopy};

/// Every question, in order.
const QUESTIONS: [&str; 20] = [
    "capabilities",
    "seccomp",
    "lockdown",
    "unprivileged_bpf_disabled",
    "perf_event_paranoid",
    "proc",
    "tracefs",
    "syscall tracepoints",
    "perf events",
    "hash maps",
    "array maps",
    "mmapable arrays",
    "tracepoint programs",
    "raw tracepoint programs",
    "raw tracepoints",
    "kernel reads",
    "socket filter programs",
    "namespaces helper",
    "atomics",
    "missed runs",
];

/// A way to run rlat: as it is, with less privileges, or where something refuses calls.
struct Circumstances {
    name: String,
    /// The command that runs what follows it.
    wrapper: Vec<String>,
}

impl Circumstances {
    fn new(name: &str, wrapper: &[&str]) -> Self {
        let wrapper = wrapper.iter().map(ToString::to_string).collect();
        Self { name: name.to_owned(), wrapper }
    }

    fn rlat(&self, args: &[&str]) -> Output {
        let Some((program, front)) = self.wrapper.split_first() else {
            return Command::new(RLAT).args(args).output().unwrap();
        };
        // By way of a descriptor, since another user may not be able to come to where the file is.
        let mut command = Command::new(program);
        command.args(front).arg("/proc/self/fd/0").args(args);
        command.stdin(File::open(RLAT).unwrap()).output().unwrap()
    }

    /// What `check` finds, and how it ends.
    fn check(&self, options: &[&str]) -> (Value, Output) {
        let args = [&["check", "--format", "json"], options].concat();
        let output = self.rlat(&args);
        let text = std::str::from_utf8(&output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1, "{}: {output:?}", self.name);
        (serde_json::from_str(text).unwrap(), output)
    }
}

/// All circumstances that can be had here.
fn all_circumstances() -> Vec<Circumstances> {
    let mut all = vec![Circumstances::new("as it is", &[])];
    if nix::unistd::geteuid().is_root() && requirements::tool("setpriv", "util-linux") {
        let nobody =
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
        all.push(Circumstances::new("nobody", &nobody));
        for kept in ["", ",+bpf,+perfmon", ",+bpf", ",+perfmon", ",+sys_admin", ",+dac_read_search"]
        {
            let bounding = format!("--bounding-set=-all{kept}");
            let wrapper = ["setpriv", &bounding, "--inh-caps=-all"];
            all.push(Circumstances::new(&bounding, &wrapper));
        }
    }
    if requirements::tool("unshare", "util-linux")
        && Command::new("unshare").args(["-Ur", "true"]).output().unwrap().status.success()
    {
        all.push(Circumstances::new("user namespace", &["unshare", "--user", "--map-root-user"]));
    }
    for call in [libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_fsopen] {
        for errno in [libc::EPERM, libc::ENOSYS] {
            let (call, errno) = (call.to_string(), errno.to_string());
            let workload = support::workload_path();
            let wrapper = [workload.to_str().unwrap(), "refuse", &call, &errno];
            let name = format!("call {call} refused with {errno}");
            all.push(Circumstances::new(&name, &wrapper));
        }
    }
    all
}

/// Compares both, and returns the exit code.
fn check_and_measure_alike(circumstances: &Circumstances, options: &[&str]) -> i32 {
    let own = std::process::id().to_string();
    let name = &circumstances.name;
    let measured = circumstances.rlat(&[&["-d", "1ms", &own], options].concat());
    let (found, checked) = circumstances.check(options);
    assert_eq!(checked.status.code(), measured.status.code(), "{name}: {checked:?}\n{measured:?}");
    let code = checked.status.code().unwrap();
    assert_eq!(found["measurement"]["exit_code"], code, "{name}");
    assert_eq!(found["measurement"]["answer"], if code == 0 { "yes" } else { "no" }, "{name}");
    if code == 0 {
        assert_eq!(std::str::from_utf8(&checked.stderr).unwrap(), "", "{name}");
        let questions = found["questions"].as_array().unwrap();
        for question in questions.iter().filter(|question| question["needed"] == true) {
            assert_eq!(question["answer"], "yes", "{name}: {question}");
        }
    } else {
        // The same step fails with the same error number: all but the object's name, up to errno.
        let step = |output: &Output| {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                said.starts_with("rlat: cannot ") && said.contains("\n  next: "),
                "{name}: {said}"
            );
            let words: Vec<&str> = said.split_whitespace().collect();
            let errno = words.iter().find(|word| word.starts_with('E') && word.ends_with(':'));
            (words[2].to_owned(), errno.map(ToString::to_string))
        };
        assert_eq!(step(&checked), step(&measured), "{name}");
        let questions = found["questions"].as_array().unwrap();
        let not_yes = |question: &&Value| question["needed"] == true && question["answer"] != "yes";
        assert!(questions.iter().any(|question| not_yes(&question)), "{name}: {found:#}");
    }
    code
}

#[test]
fn it_ends_as_a_measurement_does_whatever_is_refused() {
    for circumstances in all_circumstances() {
        let code = check_and_measure_alike(&circumstances, &[]);
        assert!(matches!(code, 0 | 3 | 4), "{}: {code}", circumstances.name);
    }
}

#[test]
fn it_ends_as_a_measurement_does_without_tracefs_or_tracepoints() {
    let folder = Folder::new("check-empty");
    let empty = format!("--tracefs={}", folder.0.display());
    let part = TracefsCopy::with(&[("syscalls", "sys_enter_read"), ("syscalls", "sys_exit_read")]);
    let whole = TracefsCopy::whole();
    let renamed = TracefsCopy::whole();
    renamed.rename_result();
    let with_and_without = |one: &Circumstances| matches!(one.name.as_str(), "as it is" | "nobody");
    for circumstances in all_circumstances().into_iter().filter(with_and_without) {
        for lacking in [&empty, &part.option(), &renamed.option()] {
            let code = check_and_measure_alike(&circumstances, &[lacking]);
            assert_eq!(code, 4, "{}", circumstances.name);
        }
        // With the numbers of another kernel it can attach to anything, so as it is this is not tried.
        if circumstances.name != "as it is" {
            let (found, output) = circumstances.check(&[&whole.option()]);
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 3)), "{}: {output:?}", circumstances.name);
            assert_eq!(found["questions"][7]["answer"], "yes", "{found:#}");
        }
    }
}

#[test]
fn every_question_has_an_answer_and_each_no_a_next_step() {
    for circumstances in all_circumstances() {
        let (found, _) = circumstances.check(&[]);
        assert_eq!(found["rlat"], env!("CARGO_PKG_VERSION"));
        assert!(found["kernel"].as_str().unwrap().starts_with("Linux "), "{found:#}");
        assert!(found["architecture"].is_string(), "{found:#}");
        let questions = found["questions"].as_array().unwrap();
        let about: Vec<_> = questions.iter().map(|question| question["about"].as_str()).collect();
        assert_eq!(about, QUESTIONS.map(Some), "{}", circumstances.name);
        for question in questions {
            let has = |key: &str| question[key].as_str().is_some_and(|text| !text.is_empty());
            match question["answer"].as_str() {
                Some("yes") => assert!(question["next"].is_null(), "{question}"),
                Some("no") => assert!(has("detail") && has("next"), "{question}"),
                Some("could not tell") => {
                    assert!(has("detail") && question["next"].is_null(), "{question}");
                }
                other => panic!("{other:?}: {question}"),
            }
        }
    }
}

#[test]
fn what_could_not_be_tried_is_not_called_missing() {
    // Whatever refuses here, it is not the kernel that lacks something that it has as it is.
    let (as_it_is, _) = Circumstances::new("as it is", &[]).check(&[]);
    for circumstances in all_circumstances() {
        let (found, _) = circumstances.check(&[]);
        for index in 9..QUESTIONS.len() {
            if as_it_is["questions"][index]["answer"] == "yes" {
                let question = &found["questions"][index];
                assert_ne!(question["answer"], "no", "{}: {question}", circumstances.name);
            }
        }
    }
}

#[test]
fn on_a_kernel_that_can_be_measured_nothing_is_missing_that_its_version_has() {
    if !requirements::bpf() {
        return;
    }
    let (found, output) = Circumstances::new("as it is", &[]).check(&[]);
    if output.status.code() != Some(0) {
        requirements::skip(String::from_utf8_lossy(&output.stderr).trim_end());
        return;
    }
    // All of the features that a probe tries came with Linux 5.12 or before.
    let release = found["kernel"].as_str().unwrap().strip_prefix("Linux ").unwrap().to_owned();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap());
    let version = (numbers.next().unwrap(), numbers.next().unwrap());
    if version < (5, 12) {
        requirements::skip(format!("Linux {release} is older than 5.12"));
        return;
    }
    for question in found["questions"].as_array().unwrap() {
        if question["about"] != "missed runs" && question["about"] != "lockdown" {
            assert_eq!(question["answer"], "yes", "{question}");
        }
    }
}

#[test]
fn text_has_the_same_answers_a_line_each() {
    for circumstances in all_circumstances() {
        let (found, _) = circumstances.check(&[]);
        let output = circumstances.rlat(&["check"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3 + QUESTIONS.len() + 1, "{text}");
        for (line, about) in lines.iter().zip(["kernel", "architecture", "distribution"]) {
            assert!(line.starts_with(about), "{line}");
        }
        for (line, question) in lines[3..].iter().zip(found["questions"].as_array().unwrap()) {
            let (about, answer) = (question["about"].as_str(), question["answer"].as_str());
            let begin = format!("{:<26} {}", about.unwrap(), answer.unwrap());
            assert!(line.starts_with(&begin), "{line}");
        }
        assert!(lines[lines.len() - 1].starts_with("measurement "), "{text}");
    }
}

#[test]
fn nothing_on_the_host_changes() {
    let look = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let before = look();
    Circumstances::new("as it is", &[]).check(&[]);
    assert_eq!(look(), before);
}

#[test]
fn an_output_that_takes_nothing_is_told() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(RLAT).arg("check").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("ENOSPC"));
}

#[test]
fn a_wrong_command_line_is_a_matter_of_usage() {
    for args in [&["check", "1"] as &[&str], &["check", "-f", "xml"], &["check", "--tracefs"]] {
        assert_eq!(
            Command::new(RLAT).args(args).output().unwrap().status.code(),
            Some(2),
            "{args:?}"
        );
    }
}
