//! Looking at what the measured processes do, as long as none of their calls comes.
//!
//! A look reads a few lines of /proc for each thread, and takes no system call on a map. The first is
//! taken when the window opens, the last when it closes, and those in between at least a second and a
//! thousand times its own length after the last one, so that all of them take no more than a
//! thousandth of a CPU. A command may not live for a second: the first seven looks at one come earlier.
//! Once a call has come there are none.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use crate::latency::{Subject, Syscall};
use crate::process::{
    Activity, IoCounters, PidNamespace, Stat, Status, Target, activity, has_children,
    io_uring_count, is_32_bit, is_open, live_tid, tids,
};

/// The shortest time between two looks.
const AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// The time between the first two looks at a command; each time after it is twice as long.
const AT_FIRST: Duration = Duration::from_millis(10);
/// How much longer than a look the time until the next one is.
const REST: u32 = 1000;
/// Threads of a process that are looked at.
const MOST_THREADS: usize = 256;

/// What has been seen so far.
#[derive(Debug)]
pub(super) struct Looks {
    pub(super) measured: Vec<Syscall>,
    pub(super) seen: Vec<Seen>,
    /// When the next look is due; `None` when there is nothing to find out any more.
    next: Option<Instant>,
    /// The shortest time until the one after it.
    at_most_every: Duration,
}

/// What has been seen of one process.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // Facts that have nothing to do with each other.
pub(super) struct Seen {
    pub(super) pid: u32,
    /// Whether rlat has started it, so that it will be gone when the user reads of it.
    pub(super) is_command: bool,
    /// Whether it has started other processes that are not measured.
    pub(super) has_children: bool,
    /// Whether its children are measured, too.
    pub(super) follows: bool,
    /// What its children had cost at the first look.
    pub(super) children_faults: Option<u64>,
    /// The one thread that is measured.
    pub(super) thread: Option<u32>,
    pub(super) is_32_bit: Option<bool>,
    /// Its id in its own PID namespace, if that is not the one of rlat.
    pub(super) id_elsewhere: Option<u32>,
    /// How often it was looked at.
    pub(super) looks: u32,
    /// Its state at the last look, as `/proc/PID/status` has it.
    pub(super) state: Option<char>,
    /// How often a thread was seen doing this.
    pub(super) doing: BTreeMap<Doing, u32>,
    /// How many threads did nothing else all the time.
    pub(super) stayed: BTreeMap<Doing, u32>,
    /// Calls that read and write, of any kind, between the first look and the last, by the threads
    /// that were there at both.
    pub(super) io: Option<IoCounters>,
    pub(super) descriptors: Vec<Descriptor>,
    pub(super) io_urings: Option<usize>,
    /// Whether the kernel does not let us look at its threads.
    pub(super) is_hidden: bool,
    /// The threads at the first look.
    pub(super) first: BTreeMap<u32, Glance>,
}

/// A measured descriptor, and whether it was open at the first look and at the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) number: u32,
    pub(super) at_first: Option<bool>,
    pub(super) at_last: Option<bool>,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doing {
    /// It waits in a system call.
    Call {
        number: i64,
        /// The descriptor that the call is on, if it is a measured one.
        descriptor: Option<u32>,
    },
    /// It waits, but in no system call.
    Outside,
    /// It runs, or waits for a CPU.
    Running,
}

/// A thread at one look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glance {
    doing: Doing,
    /// How often it had left a CPU by then.
    switches: Option<u64>,
    io: Option<IoCounters>,
}

impl Looks {
    /// Takes the first look. `descriptors` are those that are measured, if not all are. A command must have
    /// begun.
    pub(super) fn begin(
        subject: &Subject,
        measured: Vec<Syscall>,
        descriptors: &[u32],
        is_command: bool,
    ) -> Self {
        let seen = |target| Seen { is_command, ..Seen::begin(subject, target, descriptors) };
        let seen: Vec<Seen> = subject.targets().iter().map(seen).collect();
        let next = (!seen.is_empty()).then(Instant::now);
        let at_most_every = if is_command { AT_FIRST } else { AT_MOST_EVERY };
        let mut looks = Self { measured, seen, next, at_most_every };
        looks.go_on(0);
        looks
    }

    /// Looks at nothing.
    pub(super) fn none() -> Self {
        Self { measured: Vec::new(), seen: Vec::new(), next: None, at_most_every: AT_MOST_EVERY }
    }

    /// When the next look is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Takes the next look, if it is due. `recorded` is how many calls have come.
    pub(super) fn go_on(&mut self, recorded: u64) {
        if recorded > 0 {
            self.next = None;
        }
        let begin = Instant::now();
        if self.next.is_some_and(|next| next <= begin) {
            self.look();
            let rest = if self.at_most_every < AT_MOST_EVERY {
                self.at_most_every
            } else {
                begin.elapsed().saturating_mul(REST).max(AT_MOST_EVERY)
            };
            self.at_most_every = (self.at_most_every * 2).min(AT_MOST_EVERY);
            self.next = begin.checked_add(rest);
        }
    }

    /// Takes the last look, if there is still something to find out.
    pub(super) fn last(&mut self, recorded: u64) {
        if self.next.take().is_some() && recorded == 0 {
            self.look();
        }
    }

    /// Looks through all descriptors for io_urings, which can take a while: not while the window is open.
    pub(super) fn count_io_urings(&mut self) {
        for seen in &mut self.seen {
            seen.io_urings = io_uring_count(seen.pid);
        }
    }

    fn look(&mut self) {
        for seen in &mut self.seen {
            seen.look(&self.measured);
        }
    }
}

impl Seen {
    fn begin(subject: &Subject, target: &Target, descriptors: &[u32]) -> Self {
        let one_thread = matches!(subject, Subject::Threads(_));
        let id = if one_thread { target.requested_inside } else { target.pid_inside };
        let descriptors = descriptors.iter().map(|&number| Descriptor {
            number,
            at_first: is_open(target.pid, number),
            at_last: None,
        });
        Self {
            pid: target.pid,
            follows: matches!(subject, Subject::Family(_)),
            // A command has not waited for any child yet.
            children_faults: Stat::read(target.pid).ok().map(|stat| stat.children_faults),
            thread: one_thread.then_some(target.requested),
            is_32_bit: is_32_bit(target.pid),
            id_elsewhere: (target.namespace != PidNamespace::own()).then_some(id),
            descriptors: descriptors.collect(),
            ..Self::default()
        }
    }

    fn look(&mut self, measured: &[Syscall]) {
        let now = self.glance_at_threads(measured);
        self.look_for_children();
        // Of a process that has ended, what was seen before stays.
        let Some(leader) = live_tid(self.pid) else {
            self.look_at_remains();
            return;
        };
        self.state = Status::read(leader).ok().and_then(|status| status.state);
        for descriptor in &mut self.descriptors {
            descriptor.at_last = is_open(self.pid, descriptor.number);
        }
        if self.looks == 0 {
            self.first.clone_from(&now);
        }
        self.looks += 1;
        self.stayed.clear();
        self.io = None;
        for (tid, glance) in &now {
            *self.doing.entry(glance.doing).or_default() += 1;
            let Some(first) = self.first.get(tid) else { continue };
            // It has not been on a CPU in between, so this is the very same call.
            if first.doing == glance.doing && first.switches == glance.switches {
                *self.stayed.entry(glance.doing).or_default() += 1;
            }
            if let Some((now, first)) = glance.io.zip(first.io) {
                self.io = Some(self.io.unwrap_or_default().plus(now.since(first)));
            }
        }
    }

    /// Those that it has waited for can be told even when it has ended itself.
    fn look_for_children(&mut self) {
        if self.follows || self.thread.is_some() {
            return;
        }
        let before = if self.is_command { Some(0) } else { self.children_faults };
        let now = Stat::read(self.pid).ok().map(|stat| stat.children_faults);
        let waited = before.zip(now).is_some_and(|(before, now)| now > before);
        self.has_children |= waited || has_children(self.pid);
    }

    /// Of a process that has ended, the kernel keeps what its first thread read and wrote until somebody
    /// asks for its exit status; for a command that is rlat.
    fn look_at_remains(&mut self) {
        let now = IoCounters::read(self.pid, self.pid).ok();
        let first = self.first.get(&self.pid).and_then(|first| first.io);
        if let Some((now, first)) = now.zip(first) {
            self.io = Some(now.since(first));
        }
    }

    fn glance_at_threads(&mut self, measured: &[Syscall]) -> BTreeMap<u32, Glance> {
        let mut glances = BTreeMap::new();
        let threads = self.thread.map_or_else(|| tids(self.pid), |tid| vec![tid]);
        for tid in threads.into_iter().take(MOST_THREADS) {
            match activity(self.pid, tid) {
                Ok(activity) => {
                    let glance = Glance {
                        doing: doing(activity, measured),
                        switches: Status::read(tid).ok().and_then(|status| status.context_switches),
                        io: IoCounters::read(self.pid, tid).ok(),
                    };
                    glances.insert(tid, glance);
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    self.is_hidden = true;
                }
                // It has ended since it was listed.
                Err(_) => {}
            }
        }
        glances
    }
}

fn doing(activity: Activity, measured: &[Syscall]) -> Doing {
    match activity {
        Activity::Running => Doing::Running,
        Activity::Outside => Doing::Outside,
        Activity::InSyscall { number, args: [argument, ..], .. } => {
            let known = measured.iter().find(|syscall| syscall.number == Some(number));
            let on = known.is_some_and(|syscall| syscall.takes_descriptor);
            Doing::Call { number, descriptor: on.then_some(argument as u32) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn looks_at(pid: u32) -> Looks {
        let subject = Subject::Processes(vec![Target::open(pid).unwrap()]);
        Looks::begin(&subject, Vec::new(), &[0, 999], false)
    }

    #[test]
    fn a_look_is_followed_by_a_rest_and_none_is_taken_once_a_call_has_come() {
        let mut looks = looks_at(std::process::id());
        assert_eq!(looks.seen[0].looks, 1);
        assert!(looks.due().unwrap() > Instant::now());
        looks.go_on(0);
        assert_eq!(looks.seen[0].looks, 1);
        looks.go_on(1);
        assert_eq!(looks.due(), None);
        looks.last(0);
        assert_eq!(looks.seen[0].looks, 1);
    }

    #[test]
    fn a_sleeping_process_is_seen_asleep() {
        let mut sleep = Command::new("sleep").arg("60").spawn().unwrap();
        let in_a_call = || {
            matches!(activity(sleep.id(), sleep.id()), Ok(Activity::InSyscall { number, .. })
            if number == libc::SYS_clock_nanosleep)
        };
        let since = Instant::now();
        while !in_a_call() && since.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut looks = looks_at(sleep.id());
        looks.last(0);
        looks.count_io_urings();
        sleep.kill().unwrap();
        sleep.wait().unwrap();

        let seen = &looks.seen[0];
        let asleep = Doing::Call { number: libc::SYS_clock_nanosleep, descriptor: None };
        if seen.is_hidden {
            eprintln!("skipped: the kernel does not let us look");
            return;
        }
        assert_eq!((seen.looks, seen.stayed.get(&asleep)), (2, Some(&1)), "{seen:?}");
        assert_eq!(seen.descriptors[1].at_last, Some(false));
        assert_eq!(seen.io_urings, Some(0));
    }
}
