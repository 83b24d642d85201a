//! A process that reads a map through bpf(2) in a loop makes the kernel skip programs on its CPU: those that
//! are attached through perf, if the kernel is fully preemptible. What that cost is told; on the raw
//! tracepoints it costs nothing before Linux 7.2.

use rlat::loader::kernel_version;

use crate::circumstances::is_set_up;
use crate::pinned::{allowed, pin};
use crate::support::{Ledger, Report, Rlat, Workload, can_measure};

/// Enough to be preempted in: the reader's time slices are some milliseconds long.
const CALLS: u64 = 20_000;

/// What rlat says to somebody whose numbers have a gap.
const ADVICE: &str = "next: measure again with `--attach raw`";

/// Measures while others read a map on the CPU of the measured process, and rlat and this test on another.
fn measure_beside_map_readers(option: &str) -> Report {
    let cpus = allowed();
    let (crowded, quiet) = (cpus[0], *cpus.last().unwrap());
    pin(0, quiet);
    let readers = [Workload::start(["maps"]), Workload::start(["maps"])];
    let mut workload = Workload::start(["reads", &CALLS.to_string(), "1"]);
    for process in readers.iter().chain([&workload]) {
        pin(process.pid, crowded);
    }
    let rlat = Rlat::measure_with(&[option, &workload.pid.to_string()]);
    for reader in &readers {
        reader.order();
    }
    workload.carry_out();
    rlat.interrupt()
}

/// The threads that compete, and the calls of each.
const THREADS: u64 = 4;
const EACH: u64 = 10_000;

/// How often the kernel skipped that program; 0 where the report says nothing of it.
fn skipped(report: &Report, program: &str) -> u64 {
    let beginning = format!("missed runs: the kernel skipped the {program} program ");
    let count = report.line(&beginning).map(|rest| rest.split(' ').next().unwrap());
    count.map_or(0, |count| count.replace(',', "").parse().unwrap())
}

/// Calls of which only the exit was seen: they are in the ledger already.
fn only_exit_seen(report: &Report) -> u64 {
    let lost = report.text.lines().filter_map(|line| line.strip_prefix("lost: "));
    let of_these = lost.filter(|line| line.contains("the exit was seen, but not the entry"));
    of_these
        .map(|line| line.split(' ').next().unwrap().replace(',', "").parse::<u64>().unwrap())
        .sum()
}

/// Calls of which neither end was seen, if nobody else made such calls: skipped entries whose exit was not seen.
fn unseen(report: &Report) -> u64 {
    skipped(report, "entry").saturating_sub(only_exit_seen(report))
}

#[test]
fn what_others_make_the_kernel_skip_is_told_to_the_last_call() {
    if !can_measure() {
        return;
    }
    let report = measure_beside_map_readers("--attach=tracepoint");
    println!("{report}");
    let seen = report.ledger.entered;
    let unseen = unseen(&report);
    if kernel_version().unwrap() < (6, 7) {
        let unknown = "unknown, this kernel does not count them: calls can be missing unnoticed";
        assert_eq!(report.line("missed runs: "), Some(unknown), "{report}");
        assert!(seen <= CALLS, "{report}");
        return;
    }
    all_is_told(&report, CALLS);
    if seen < CALLS {
        assert!(report.text.contains(ADVICE), "{report}");
    }
    if is_set_up("preempt-full") {
        assert!(unseen > 0, "nothing was skipped, so that this test shows nothing: {report}");
        assert_eq!(seen + unseen, CALLS, "{report}");
    }
}

#[test]
fn the_raw_tracepoints_lose_nothing_to_others() {
    if !can_measure() {
        return;
    }
    let report = measure_beside_map_readers("--attach=raw");
    let lost_nothing = Ledger { entered: CALLS, recorded: CALLS, ..Ledger::default() };
    if kernel_version().unwrap() < (7, 2) {
        assert_eq!(report.ledger, lost_nothing, "{report}");
        assert!(!report.was_disturbed(), "{report}");
        return;
    }
    // There programs can be preempted, and the readers' own calls pass the raw tracepoints, too: what the kernel
    // says that it skipped is an upper limit then. No call is made up, none is missing beyond that limit, and
    // where nothing was skipped none is missing at all.
    all_is_told(&report, CALLS);
    if report.was_disturbed() {
        assert!(report.text.contains(ADVICE), "{report}");
    } else {
        assert_eq!(report.ledger, lost_nothing, "{report}");
    }
}

/// No more calls than were made, and those that are missing are told.
fn all_is_told(report: &Report, made: u64) {
    let (seen, unseen) = (report.ledger.entered, unseen(report));
    assert!(seen <= made, "{} were never made: {report}", seen - made);
    assert!(seen + unseen >= made, "{} are untold: {report}", made - seen - unseen);
}

/// Threads of the measured process on one CPU, which preempt each other wherever the kernel lets them: from
/// Linux 7.2 on also inside of our programs, and then the kernel skips these for the others.
#[test]
fn what_threads_lose_that_compete_for_a_cpu_is_told() {
    if !can_measure() {
        return;
    }
    let cpus = allowed();
    pin(0, *cpus.last().unwrap());
    for option in ["--attach=tracepoint", "--attach=raw"] {
        let mut workload = Workload::start(["reads", &EACH.to_string(), &THREADS.to_string()]);
        pin(workload.pid, cpus[0]);
        let rlat = Rlat::measure_with(&[option, &workload.pid.to_string()]);
        workload.carry_out();
        let report = rlat.interrupt();
        let (made, seen, unseen) = (THREADS * EACH, report.ledger.entered, unseen(&report));
        println!("competing, {option}: {made} made, {unseen} unseen by count, {report}");
        if kernel_version().unwrap() < (6, 7) && option == "--attach=tracepoint" {
            assert!(seen <= made, "{report}");
            continue;
        }
        all_is_told(&report, made);
        if option == "--attach=tracepoint" && cpus.len() > 1 {
            // Only read() passes these, and nobody else makes one on that CPU: to the last call.
            assert_eq!(seen + unseen, made, "{report}");
        }
    }
}
