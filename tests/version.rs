//! `rlat --version` and `rlat version`: one line, or what belongs into the protocol of a measurement.

#![allow(clippy::unwrap_used)] // All of this file is tests.

use std::process::Command;

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn rlat(args: &[&str]) -> String {
    said(env!("CARGO_BIN_EXE_rlat"), args)
}

const OWN: &str = concat!("rlat ", env!("CARGO_PKG_VERSION"), "\n");

#[test]
fn the_version_is_one_line() {
    assert_eq!(rlat(&["--version"]), OWN);
    assert_eq!(rlat(&["-V"]), OWN);
}

#[test]
fn the_long_version_names_kernel_architecture_and_distribution() {
    let long = rlat(&["version"]);
    assert_eq!(rlat(&["--version", "--verbose"]), long);
    assert_eq!(rlat(&["-vV"]), long);
    let uname = |option| said("uname", &[option]).trim_end().to_owned();
    let begin =
        format!("{OWN}kernel: {} {}\narchitecture: {}\n", uname("-s"), uname("-r"), uname("-m"));
    let distribution = long.strip_prefix(&begin).unwrap();
    assert!(distribution.starts_with("distribution: "), "{distribution}");
    assert_eq!(distribution.lines().count(), 1);
}
