//! What a static rlat is made of, as the package lists it: complete, and each part with licence and sum.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

const TARGET: &str = "x86_64-unknown-linux-musl";

/// The lines that cargo prints.
fn cargo(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The crates that are linked, a line each.
fn tree() -> String {
    let tree = cargo(&[
        "tree",
        "--locked",
        "--offline",
        "--edges",
        "normal,no-proc-macro",
        "--target",
        TARGET,
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--no-dedupe",
    ]);
    String::from_utf8(tree).unwrap()
}

fn bill() -> Value {
    let metadata = ["metadata", "--locked", "--offline", "--filter-platform", TARGET];
    let metadata = cargo(&[&metadata[..], &["--format-version", "1"]].concat());
    let program = Path::new(env!("CARGO_BIN_EXE_rlat")).with_file_name("examples").join("sbom");
    let linked = std::env::temp_dir().join(format!(
        "rlat-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::write(&linked, tree()).unwrap();
    let mut sbom = Command::new(program)
        .args([Path::new("Cargo.lock"), &linked])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut sbom.stdin.take().unwrap(), &metadata).unwrap();
    let output = sbom.wait_with_output().unwrap();
    assert!(output.status.success());
    std::fs::remove_file(&linked).unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names(parts: &Value, key: &str) -> BTreeSet<String> {
    parts.as_array().unwrap().iter().map(|part| part[key].as_str().unwrap().to_owned()).collect()
}

#[test]
fn it_lists_what_cargo_links() {
    let bill = bill();
    let tree = tree();
    let mut linked: BTreeSet<String> =
        tree.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    linked.remove("rlat");
    linked.extend(["rust-std".to_owned(), "musl".to_owned()]);
    assert_eq!(names(&bill["components"], "name"), linked);
}

#[test]
fn it_is_a_cyclonedx_document() {
    let bill = bill();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    assert_eq!(bill["metadata"]["component"]["name"], "rlat");
    let mut references = names(&bill["components"], "bom-ref");
    references.insert(bill["metadata"]["component"]["bom-ref"].as_str().unwrap().to_owned());
    for component in bill["components"].as_array().unwrap() {
        let licence = component["licenses"][0]["expression"].as_str().unwrap();
        assert!(!licence.is_empty() && !licence.contains('/'), "{component}");
        if let Some(purl) = component["purl"].as_str() {
            assert!(purl.starts_with("pkg:cargo/"), "{component}");
            assert_eq!(component["hashes"][0]["content"].as_str().unwrap().len(), 64);
        }
    }
    for dependency in bill["dependencies"].as_array().unwrap() {
        assert!(references.contains(dependency["ref"].as_str().unwrap()), "{dependency}");
        for needed in dependency["dependsOn"].as_array().unwrap() {
            assert!(references.contains(needed.as_str().unwrap()), "{dependency}");
        }
    }
}
