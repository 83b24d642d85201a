//! docs/errors.md shows only what tests have seen.

#![allow(clippy::unwrap_used, clippy::panic)] // All of this file is tests.

mod documented;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// All files of tests, and their text.
fn tests(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(tests(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            all.push((path, text));
        }
    }
    all
}

/// The text of the test of that name, up to the brace in the first column.
fn body<'a>(tests: &'a [(PathBuf, String)], name: &str) -> Option<&'a str> {
    let beginning = format!("#[test]\nfn {name}() {{\n");
    tests.iter().find_map(|(_, text)| {
        let (_, body) = text.split_once(&beginning)?;
        body.split_once("\n}\n").map(|(body, _)| body)
    })
}

#[test]
fn each_row_has_a_test_that_compares_with_it() {
    let tests = tests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"));
    let rows = documented::rows();
    assert!(rows.len() > 90, "{}", rows.len());
    for row in rows {
        let body = body(&tests, row.test);
        let body = body.unwrap_or_else(|| panic!("there is no such test: {row:?}"));
        assert!(
            body.contains(&format!("{:?}", row.wrong)),
            "{} does not name it: {row:?}",
            row.test
        );
    }
}

#[test]
fn each_row_stands_for_something_else_and_is_whole() {
    let rows = documented::rows();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.wrong).collect();
    assert_eq!(names.len(), rows.len());
    for row in rows {
        assert!(row.code.parse::<u8>().is_ok() || row.code == "a signal's", "{row:?}");
        let is_failure = row.message.starts_with("rlat: cannot ");
        assert_eq!(is_failure, row.next != "-", "{row:?}");
        assert!(!is_failure || row.code != "0", "{row:?}");
    }
}

#[test]
fn patterns_mean_what_they_say() {
    documented::check_patterns();
}
