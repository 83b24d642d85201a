//! What a kernel is new enough for must be found there.

use std::sync::OnceLock;

use rlat::loader::kernel_version;
use serde_json::Value;

use crate::support::{can_measure, rlat};

/// Questions of `rlat check`, and the kernel from which on the answer must be yes.
const SINCE: [(&str, (u32, u32)); 14] = [
    ("tracefs", (4, 1)),
    ("syscall tracepoints", (4, 7)),
    ("perf events", (4, 7)),
    ("hash maps", (3, 19)),
    ("array maps", (3, 19)),
    ("mmapable arrays", (5, 5)),
    ("tracepoint programs", (4, 7)),
    ("raw tracepoint programs", (4, 17)),
    ("raw tracepoints", (4, 17)),
    ("kernel reads", (5, 5)),
    ("socket filter programs", (3, 19)),
    ("namespaces helper", (5, 7)),
    // On arm64 since 5.18, but no kernel between was tried.
    ("atomics", (5, 12)),
    ("missed runs", (6, 7)),
];

/// `rlat check`: its questions, its answers, and its exit code. It is asked once.
pub(crate) fn check() -> &'static (Vec<(String, String)>, i32) {
    static FOUND: OnceLock<(Vec<(String, String)>, i32)> = OnceLock::new();
    FOUND.get_or_init(ask)
}

fn ask() -> (Vec<(String, String)>, i32) {
    let output = rlat(["check", "--format", "json"]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let questions = found["questions"].as_array().unwrap().iter();
    let answers = questions.map(|one| (text(&one["about"]), text(&one["answer"]))).collect();
    (answers, output.status.code().unwrap())
}

#[test]
fn what_the_kernel_is_new_enough_for_is_found() {
    if !can_measure() {
        return;
    }
    let kernel = kernel_version().unwrap();
    let (answers, code) = check();
    let found = |about| answers.iter().find(|(one, _)| one == about).map(|(_, answer)| &**answer);
    for (about, since) in SINCE {
        let answer = found(about);
        assert!(kernel < since || answer == Some("yes"), "{about} on {kernel:?}: {answers:?}");
    }
    assert_eq!(*code, 0, "{answers:?}");
}
