//! Threads that come and go by the ten thousands: each is recorded, and what is kept of it goes with it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use std::fs;

use ::rlat::process::Status;
use support::{Rlat, Workload, can_measure};

/// How many threads there are, one after another.
const THREADS: u64 = 60_000;
/// They are started in so many orders, between which the memory is looked at.
const ORDERS: u64 = 5;

/// What rlat itself has in memory, and what the kernel has for its maps, in KiB.
fn memory_kib(rlat: u32) -> (u64, u64) {
    let peak = Status::read(rlat).unwrap().peak_memory_kib.unwrap();
    let descriptors = fs::read_dir(format!("/proc/{rlat}/fdinfo")).unwrap();
    // Lines are `memlock:  BYTES`, of maps and programs; for a hash that takes memory when it needs it,
    // Linux 6.4 and newer say what it has at the moment.
    let kernel = descriptors
        .filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok())
        .filter_map(|info| {
            let line = info.lines().find_map(|line| line.strip_prefix("memlock:"))?;
            line.trim().parse::<u64>().ok()
        })
        .sum::<u64>();
    (peak, kernel / 1024)
}

#[test]
fn threads_that_end_are_recorded_in_memory_that_does_not_grow() {
    if !can_measure() {
        return;
    }
    let mut workload = Workload::start(["short", &(THREADS / ORDERS).to_string()]);
    let rlat = Rlat::measure(workload.pid);
    let (own, kernel) = memory_kib(rlat.pid());
    for order in 1..=ORDERS {
        workload.carry_out();
        let (own_now, kernel_now) = memory_kib(rlat.pid());
        assert!(own_now <= own + 256, "{order}: {own_now} KiB, from {own}");
        assert!(kernel_now <= kernel + 256, "{order}: {kernel_now} KiB, from {kernel}");
    }
    let report = rlat.interrupt();
    if report.was_disturbed() {
        // Others' bpf(2) calls made the kernel skip our programs: that is told, and no exact number is left.
        eprintln!("disturbed: {report}");
        return;
    }
    assert_eq!(report.ledger.lost, 0, "{report}");
    assert_eq!((report.ledger.entered, report.ledger.recorded), (THREADS, THREADS), "{report}");
}
