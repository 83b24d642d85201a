//! What is known of a running rlat, and what its result says.

use std::fs;
use std::time::Duration;

use serde_json::Value;

/// What a process uses now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// `VmRSS`: resident memory.
    pub(crate) memory_kib: u64,
    /// In user and kernel mode, so far.
    pub(crate) cpu: Duration,
}

impl Usage {
    /// `None` when the process has ended.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let memory_kib = memory.trim().strip_suffix(" kB")?.parse().ok()?;
        // Time that the scheduler has counted, in ns; the ticks of `stat` are too coarse.
        let schedstat = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        let ns = schedstat.split(' ').next()?.parse().ok()?;
        Some(Self { memory_kib, cpu: Duration::from_nanos(ns) })
    }
}

/// What a result says, added up.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) recorded: u64,
    pub(crate) lost: u64,
    pub(crate) intervals: u64,
    pub(crate) in_intervals: u64,
}

/// Adds up the lines of a result with intervals.
pub(crate) fn added_up(json: &str) -> Found {
    let mut found = Found::default();
    let mut is_interval = false;
    for line in json.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let data = &line["data"];
        match line["type"].as_str().unwrap() {
            "interval" => {
                found.intervals += 1;
                is_interval = true;
            }
            "total" => is_interval = false,
            "hist" if is_interval => {
                let rows = data["@read_us"].as_array().unwrap();
                found.in_intervals +=
                    rows.iter().map(|row| row["count"].as_u64().unwrap()).sum::<u64>();
            }
            "ledger" => {
                found.recorded = data["recorded"].as_u64().unwrap();
                let causes = data["lost"].as_object().unwrap().values();
                found.lost = causes.map(|count| count.as_u64().unwrap()).sum();
            }
            _ => {}
        }
    }
    found
}
