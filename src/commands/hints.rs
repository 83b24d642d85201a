//! When nothing came: what is likely, from what was seen.

use syscalls::Sysno;

use super::looks::{Descriptor, Doing, Looks, Seen};
use super::say;
use crate::latency::{Outcome, Syscall};
use crate::process::IoCounters;
use crate::report::numbers::grouped;

/// The call with which the kernel goes on with one that a signal interrupted.
const RESTART: &str = "restart_syscall";

/// Whether no call of any kind was seen: a user will ask why.
pub(super) fn nothing_came(outcome: &Outcome) -> bool {
    outcome.calls.iter().all(|call| {
        let ledger = &call.ledger;
        ledger.entered == 0
            && ledger.recorded == 0
            && ledger.exits_without_start == 0
            && call.in_flight.is_empty()
    })
}

/// Prints what is likely, on standard error.
pub(super) fn print(looks: &mut Looks) {
    looks.count_io_urings();
    let names: Vec<&str> = looks.measured.iter().map(|syscall| syscall.name.as_str()).collect();
    for seen in &looks.seen {
        for hint in hints(seen, &names) {
            say(&format!("hint: {hint}"));
        }
    }
}

/// What is likely, the surest first, and what to try. `measured` are the names of the calls.
fn hints(seen: &Seen, measured: &[&str]) -> Vec<String> {
    if seen.looks == 0 && !seen.is_command {
        return Vec::new();
    }
    let who = who(seen);
    let is_32_bit = cfg!(target_pointer_width = "64") && seen.is_32_bit == Some(true);
    let mut hints = Vec::new();
    if is_32_bit {
        hints.push(format!(
            "{who} executes a 32-bit program, and its calls do not pass these tracepoints"
        ));
    }
    hints.extend(stopped(seen, &who));
    hints.extend(
        seen.descriptors.iter().filter_map(|one| descriptor(*one, seen.pid, seen.is_command)),
    );
    hints.extend(children(seen, &who));
    hints.extend(other_calls(seen, &who));
    hints.extend(stayed(seen, &who));
    hints.extend(was_seen(seen, &who));
    hints.extend(seen.io_urings.filter(|rings| *rings > 0).map(|rings| {
        let descriptors = if rings == 1 { "descriptor" } else { "descriptors" };
        let rings = grouped(rings as u64);
        format!(
            "process {} has {rings} io_uring {descriptors}: what it reads and writes through io_uring \
             are no system calls",
            seen.pid
        )
    }));
    hints.extend(seen.id_elsewhere.map(|id| {
        format!("{who} lives in another PID namespace than rlat, and has the id {id} there")
    }));
    if seen.is_hidden {
        hints.push(format!("to see what {who} does needs CAP_SYS_PTRACE, and CAP_DAC_READ_SEARCH if it is another user's"));
    }
    if is_32_bit {
        let pid = seen.pid;
        let whom = if seen.is_command { "CMD".to_owned() } else { format!("-p {pid}") };
        hints.push(format!("try `strace -c -f {whom}`, which counts the calls of such a program"));
    } else if !matches!(seen.state, Some('T' | 't')) {
        hints.push(next(seen, measured));
    }
    hints
}

fn who(seen: &Seen) -> String {
    match seen.thread {
        Some(thread) => format!("thread {thread}"),
        None if seen.is_command => "the command".to_owned(),
        None => format!("process {}", seen.pid),
    }
}

fn stopped(seen: &Seen, who: &str) -> Option<String> {
    let pid = seen.pid;
    match seen.state? {
        'T' => Some(format!("{who} is stopped: `kill -CONT {pid}` lets it go on")),
        't' => Some(format!(
            "{who} is stopped by a debugger or tracer: `grep TracerPid /proc/{pid}/status` tells which"
        )),
        _ => None,
    }
}

fn children(seen: &Seen, who: &str) -> Option<String> {
    let whom = if seen.is_command { "them, too" } else { "those that it starts from then on" };
    let not_measured = "has started other processes, whose calls are not measured";
    seen.has_children.then(|| format!("{who} {not_measured}: `--follow` measures {whom}"))
}

fn descriptor(descriptor: Descriptor, pid: u32, is_command: bool) -> Option<String> {
    let number = descriptor.number;
    if is_command && descriptor.at_last == Some(false) {
        return Some(format!("the command had no descriptor {number} open when it was looked at"));
    }
    match (descriptor.at_first, descriptor.at_last) {
        (Some(true), Some(false)) => {
            Some(format!("process {pid} closed descriptor {number} while the window was open"))
        }
        (Some(false), Some(true)) => {
            Some(format!("process {pid} opened descriptor {number} while the window was open"))
        }
        (_, Some(false)) => Some(format!(
            "process {pid} has no descriptor {number} open: `ls -l /proc/{pid}/fd` lists them"
        )),
        _ => None,
    }
}

/// The kernel's own count: it also knows calls that are too short to be seen in a look.
fn other_calls(seen: &Seen, who: &str) -> Option<String> {
    let IoCounters { reads, writes } = seen.io?;
    if reads == 0 && writes == 0 {
        return None;
    }
    let elsewhere = if seen.descriptors.is_empty() { "" } else { " or on other descriptors" };
    Some(format!(
        "{who} made {} and {}, all of other kinds{elsewhere}",
        calls(reads, "that read"),
        calls(writes, "that write"),
    ))
}

fn calls(count: u64, which: &str) -> String {
    format!("{} {} {which}", grouped(count), if count == 1 { "call" } else { "calls" })
}

/// Threads that did one thing all the time.
fn stayed(seen: &Seen, who: &str) -> Vec<String> {
    let all: u32 = seen.stayed.values().sum();
    let threads = |(doing, count): (&Doing, &u32)| {
        let subject = match (count, all) {
            (_, 1) if seen.doing.values().sum::<u32>() == seen.looks => format!("{who} was"),
            (1, _) => format!("1 thread of {who} was"),
            (count, _) => format!("{count} threads of {who} were"),
        };
        format!("{subject} {} all the time", what(seen, *doing))
    };
    seen.stayed.iter().filter(|(doing, _)| **doing != Doing::Running).map(threads).collect()
}

/// What else was seen, the most frequent first.
fn was_seen(seen: &Seen, who: &str) -> Option<String> {
    let others = others(seen);
    // That a command runs when it has just begun says nothing.
    if others.is_empty() || (seen.is_command && seen.looks < 2) {
        return None;
    }
    let things: Vec<String> = others
        .iter()
        .map(|(doing, count)| match count {
            1 => format!("once {}", what(seen, *doing)),
            _ => format!("{} times {}", grouped(*count), what(seen, *doing)),
        })
        .collect();
    let looks = if seen.looks == 1 { "look" } else { "looks" };
    Some(format!("{who} was seen {}, in {} {looks}", things.join(", "), seen.looks))
}

/// How often the threads were seen doing what, those that did nothing else left out.
fn others(seen: &Seen) -> Vec<(Doing, u32)> {
    let mut others: Vec<(Doing, u32)> = seen
        .doing
        .iter()
        .map(|(doing, count)| {
            let stayed = match doing {
                Doing::Running => 0,
                _ => seen.stayed.get(doing).copied().unwrap_or(0),
            };
            (*doing, count.saturating_sub(stayed.saturating_mul(seen.looks)))
        })
        .filter(|(_, count)| *count > 0)
        .collect();
    others.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    others
}

fn what(seen: &Seen, doing: Doing) -> String {
    match doing {
        Doing::Running => "running".to_owned(),
        Doing::Outside => "waiting outside of any call".to_owned(),
        Doing::Call { number, descriptor } => {
            let name = match name(seen, number) {
                // By this one the kernel goes on; which call it was is no longer to be seen.
                Some(RESTART) => "in a call that a signal had interrupted".to_owned(),
                Some(name) => format!("in {name}()"),
                None => format!("in system call {number}"),
            };
            match descriptor {
                Some(descriptor) => format!("{name} on descriptor {descriptor}"),
                None => name,
            }
        }
    }
}

/// The name of a call. Those of 32-bit programs have other numbers.
fn name(seen: &Seen, number: i64) -> Option<&'static str> {
    if seen.is_32_bit == Some(true) && cfg!(target_pointer_width = "64") {
        return None;
    }
    Some(Sysno::new(usize::try_from(number).ok()?)?.name())
}

fn next(seen: &Seen, measured: &[&str]) -> String {
    let pid = seen.pid;
    let io = seen.io.unwrap_or_default();
    let is_measured = |name: &&str| measured.contains(name);
    let group_helps = |group: &str| {
        let members = Syscall::group(group);
        members.iter().any(is_measured) && !members.iter().all(is_measured)
    };
    let most_seen = || {
        let in_a_call = |doing| match doing {
            Doing::Call { number, .. } => name(seen, number),
            Doing::Running | Doing::Outside => None,
        };
        let all =
            others(seen).into_iter().map(|(doing, _)| doing).chain(seen.stayed.keys().copied());
        let mut names = all.filter_map(in_a_call);
        names.find(|name| *name != RESTART && !is_measured(name)).map(str::to_owned)
    };
    let calls = if io.reads > 0 && group_helps("@read") {
        Some("@read".to_owned())
    } else if io.writes > 0 && group_helps("@write") {
        Some("@write".to_owned())
    } else {
        most_seen()
    };
    let whom = match seen.thread {
        Some(thread) => format!("--tid {thread}"),
        None if seen.is_command => "-- CMD".to_owned(),
        None => pid.to_string(),
    };
    let surveyed = if seen.is_command { "--follow -- CMD".to_owned() } else { pid.to_string() };
    let survey = format!("try `rlat survey {surveyed}`, which shows every call");
    match calls {
        Some(calls) => format!("{survey}, or `rlat -e {calls} {whom}`"),
        None => survey,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: i64) -> Doing {
        Doing::Call { number, descriptor: None }
    }

    fn seen() -> Seen {
        Seen { pid: 12, looks: 3, is_32_bit: Some(false), ..Seen::default() }
    }

    #[test]
    fn one_that_was_never_looked_at_gives_no_hint() {
        assert!(hints(&Seen { looks: 0, ..seen() }, &["read"]).is_empty());
    }

    #[test]
    fn a_sleeper() {
        let asleep = call(libc::SYS_clock_nanosleep);
        let mut seen = Seen { doing: [(asleep, 3)].into(), stayed: [(asleep, 1)].into(), ..seen() };
        assert_eq!(
            hints(&seen, &["read"]),
            [
                "process 12 was in clock_nanosleep() all the time",
                "try `rlat survey 12`, which shows every call, or `rlat -e clock_nanosleep 12`",
            ]
        );
        seen.doing.insert(Doing::Running, 3);
        assert_eq!(
            hints(&seen, &["read"])[..2],
            [
                "1 thread of process 12 was in clock_nanosleep() all the time",
                "process 12 was seen 3 times running, in 3 looks",
            ]
        );
    }

    #[test]
    fn a_call_that_goes_on_after_a_signal_has_no_name() {
        let asleep = call(libc::SYS_restart_syscall);
        let seen = Seen { doing: [(asleep, 3)].into(), stayed: [(asleep, 1)].into(), ..seen() };
        assert_eq!(
            hints(&seen, &["read"]),
            [
                "process 12 was in a call that a signal had interrupted all the time",
                "try `rlat survey 12`, which shows every call",
            ]
        );
    }

    #[test]
    fn a_command_that_was_too_short_to_be_seen() {
        let mut seen = Seen { is_command: true, looks: 0, ..seen() };
        let survey = "try `rlat survey --follow -- CMD`, which shows every call";
        assert_eq!(hints(&seen, &["fsync"]), [survey]);
        seen.has_children = true;
        seen.io = Some(IoCounters { reads: 2, writes: 0 });
        assert_eq!(
            hints(&seen, &["read"]),
            [
                "the command has started other processes, whose calls are not measured: `--follow` \
                 measures them, too",
                "the command made 2 calls that read and 0 calls that write, all of other kinds",
                &format!("{survey}, or `rlat -e @read -- CMD`"),
            ]
        );
    }

    #[test]
    fn other_calls_that_read() {
        let io = Some(IoCounters { reads: 1234, writes: 1 });
        let seen = Seen { io, thread: Some(13), doing: [(Doing::Running, 1)].into(), ..seen() };
        assert_eq!(
            hints(&seen, &["read"]),
            [
                "thread 13 made 1,234 calls that read and 1 call that write, all of other kinds",
                "thread 13 was seen once running, in 3 looks",
                "try `rlat survey 12`, which shows every call, or `rlat -e @read --tid 13`",
            ]
        );
        assert!(next(&seen, &["write"]).ends_with("`rlat -e @write --tid 13`"));
        assert!(next(&seen, &["fsync"]).ends_with("every call"));
    }

    #[test]
    fn descriptors_that_are_not_open() {
        let sentence = |at_first, at_last| {
            let one = Descriptor { number: 7, at_first: Some(at_first), at_last: Some(at_last) };
            descriptor(one, 12, false).unwrap_or_default()
        };
        assert!(sentence(false, false).starts_with("process 12 has no descriptor 7 open"));
        assert!(sentence(true, false).starts_with("process 12 closed descriptor 7"));
        assert!(sentence(false, true).starts_with("process 12 opened descriptor 7"));
        assert_eq!(sentence(true, true), "");
        let other = Doing::Call { number: libc::SYS_read, descriptor: Some(5) };
        assert_eq!(what(&seen(), other), "in read() on descriptor 5");
    }

    #[test]
    fn stopped_rings_namespaces_and_what_is_hidden() {
        let io_urings = Some(2);
        let seen =
            Seen { state: Some('T'), io_urings, id_elsewhere: Some(1), is_hidden: true, ..seen() };
        let hints = hints(&seen, &["read"]);
        for (hint, part) in hints.iter().zip([
            "process 12 is stopped: `kill -CONT 12`",
            "process 12 has 2 io_uring descriptors",
            "process 12 lives in another PID namespace than rlat, and has the id 1 there",
            "CAP_SYS_PTRACE",
        ]) {
            assert!(hint.contains(part), "{hint}");
        }
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn numbers_of_a_32_bit_program_get_no_name() {
        let doing = [(call(162), 3)].into();
        let seen = Seen { is_32_bit: Some(true), doing, ..seen() };
        let hints = hints(&seen, &["read"]);
        assert!(hints[0].contains("32-bit program"));
        assert!(hints[1].contains("in system call 162"));
        assert!(hints[2].contains("`strace -c -f -p 12`"));
    }
}
