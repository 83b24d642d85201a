//! Hosts that are not as usual. `tests/kernels/run` boots kernels so.

use std::fs;

use nix::sys::resource::{Resource, getrlimit};
use rlat::maps::cpus;

use crate::counted::exact_without_options;
use crate::documented::assert_documented;
use crate::features::check;
use crate::support::{Rlat, Workload, rlat};

/// Whether the harness has set that up.
pub(crate) fn is_set_up(circumstance: &str) -> bool {
    std::env::var("RLAT_CIRCUMSTANCE")
        .is_ok_and(|names| names.split(',').any(|n| n == circumstance))
}

fn lockdown() -> String {
    let modes = fs::read_to_string("/sys/kernel/security/lockdown").unwrap();
    modes.split_once('[').unwrap().1.split_once(']').unwrap().0.to_owned()
}

fn answer(about: &str) -> &'static str {
    &check().0.iter().find(|(one, _)| one == about).unwrap().1
}

#[test]
fn lockdown_integrity_takes_nothing_away() {
    if !is_set_up("integrity") {
        return;
    }
    assert_eq!(lockdown(), "integrity");
    exact_without_options();
    assert_eq!(answer("kernel reads"), "yes");
    assert_eq!(check().1, 0);
    let output = rlat(["-d", "1ms", &std::process::id().to_string()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_documented("lockdown at integrity", output.status.code(), &said);
}

#[test]
fn lockdown_confidentiality_leaves_the_raw_tracepoints() {
    if !is_set_up("confidentiality") {
        return;
    }
    assert_eq!(lockdown(), "confidentiality");
    exact_without_options();
    assert_eq!((answer("tracefs"), answer("kernel reads")), ("no", "no"));
    assert_eq!(answer("raw tracepoints"), "yes");
    assert_eq!(check().1, 0);

    let workload = Workload::start(["reads", "1", "1"]);
    let pid = workload.pid.to_string();
    // It says what is missing: where it works all the same, and where it cannot.
    let output = rlat(["-d", "1ms", &pid]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_documented("lockdown at confidentiality", output.status.code(), &said);
    assert!(said.contains("the kernel's memory may not be read here"), "{said}");
    let by_type = said.contains("the entry by its type");
    let output = rlat(["-d", "1ms", &pid, "--attach", "tracepoint"]).output().unwrap();
    let refused = String::from_utf8_lossy(&output.stderr);
    let wrong = "lockdown at confidentiality, `--attach tracepoint`";
    assert_documented(wrong, output.status.code(), &refused);

    // An entry that is loaded by its type sees the descriptor without a read of the kernel's memory.
    if by_type {
        let mut mixed = Workload::start(["mixed", "100"]);
        let fd = mixed.report("descriptor ") as u32;
        let rlat = Rlat::measure_descriptor(mixed.pid, fd);
        mixed.carry_out();
        assert_eq!(rlat.interrupt().ledger.recorded, 100);
    } else {
        let output = rlat(["-d", "1ms", &pid, "--fd", "3"]).output().unwrap();
        let refused = String::from_utf8_lossy(&output.stderr);
        let wrong =
            "lockdown at confidentiality, `--fd`, and the entry cannot be loaded by its type";
        assert_documented(wrong, output.status.code(), &refused);
    }
}

#[test]
fn without_tracefs_it_is_mounted_for_rlat_alone() {
    if !is_set_up("no-tracefs") {
        return;
    }
    let mounts = || fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts().contains("tracefs"), "{}", mounts());
    exact_without_options();
    assert_eq!((answer("tracefs"), answer("syscall tracepoints")), ("yes", "yes"));
    assert!(!mounts().contains("tracefs"), "{}", mounts());
}

/// The harness passes how many are possible, and which are online.
#[test]
fn the_cpus_are_as_set_up() {
    let Ok(expected) = std::env::var("RLAT_CPUS") else { return };
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    assert_eq!(format!("{},{}", cpus::possible_count().unwrap(), online.trim()), expected);
}

#[test]
fn a_limit_of_64_kib_of_locked_memory_is_raised() {
    if !is_set_up("memlock") {
        return;
    }
    let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK).unwrap();
    assert_eq!(soft, 64 << 10);
    exact_without_options();
}

/// As on a host whose init is systemd of these days.
#[test]
fn there_are_control_groups_of_version_2_only() {
    if !is_set_up("cgroup2-only") {
        return;
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let kinds: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(2))
        .filter(|k| k.starts_with("cgroup"))
        .collect();
    assert_eq!(kinds, ["cgroup2"]);
    let workload = Workload::start(["reads", "300", "1"]);
    let group = "/sys/fs/cgroup/rlat-test";
    fs::create_dir(group).unwrap();
    fs::write(format!("{group}/cgroup.procs"), workload.pid.to_string()).unwrap();
    let mut workload = workload;
    let rlat = Rlat::measure_with(&["--cgroup", group]);
    workload.carry_out();
    assert_eq!(rlat.interrupt().ledger.recorded, 300);
}
