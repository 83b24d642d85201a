//! Many threads that read at the same time: whether one CPU's programs wait for memory of another's.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::Barrier;
use std::thread;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::read;
use rlat::calibration::{Added, Nanos, Sample};
use rlat::latency::AttachChoice;

use crate::goals::Goals;
use crate::setups::with_rlat;

/// The argument that makes this program such a process.
pub(crate) const CROWD: &str = "crowd";

const MANY: usize = 64;
const ROUNDS: usize = 15;
/// Calls of one run, in all threads together.
const CALLS: usize = 128_000;

/// The process, seen from here.
struct Crowd {
    child: Child,
    orders: UnixStream,
}

impl Crowd {
    fn start(threads: usize) -> Self {
        let (orders, theirs) = UnixStream::pair().unwrap();
        let child = Command::new("/proc/self/exe")
            .args([CROWD, &threads.to_string()])
            .stdin(File::open("/dev/zero").unwrap())
            .stdout(OwnedFd::from(theirs))
            .spawn()
            .unwrap();
        Self { child, orders }
    }

    /// The CPU time of one call, in ns.
    fn nanos_per_call(&self) -> f64 {
        (&self.orders).write_all(b"!").unwrap();
        let mut nanos = [0; 8];
        (&self.orders).read_exact(&mut nanos).unwrap();
        u64::from_ne_bytes(nanos) as f64 / CALLS as f64
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process itself. It answers with CPU time, for with more threads than CPUs, threads wait for a CPU.
pub(crate) fn be_crowd(threads: usize) {
    let mut orders = UnixStream::from(io::stdout().as_fd().try_clone_to_owned().unwrap());
    let used = || clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    let turn = Barrier::new(threads + 1);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let stdin = io::stdin();
                loop {
                    turn.wait();
                    for _ in 0..CALLS / threads {
                        read(&stdin, &mut [0]).unwrap();
                    }
                    turn.wait();
                }
            });
        }
        while matches!(orders.read(&mut [0]), Ok(1)) {
            let before = used();
            turn.wait();
            turn.wait();
            let nanos = std::time::Duration::from(used() - before).as_nanos() as u64;
            orders.write_all(&nanos.to_ne_bytes()).unwrap();
        }
        std::process::exit(0);
    });
}

/// One call without and with tracing, in one thread a CPU and in many.
pub(crate) struct Comparison {
    one_each: Added,
    many: Added,
}

pub(crate) fn compare(cpus: &[usize]) -> Comparison {
    let crowds = [Crowd::start(cpus.len()), Crowd::start(MANY)];
    let mut samples: [[Sample; 2]; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (crowd, [untraced, traced]) in crowds.iter().zip(&mut samples) {
            untraced.add(crowd.nanos_per_call());
            with_rlat(crowd.child.id(), AttachChoice::Tracepoint, || {
                traced.add(crowd.nanos_per_call());
            });
        }
    }
    let [one_each, many] = samples.map(|[untraced, traced]| Added {
        untraced: untraced.nanos().unwrap(),
        traced: traced.nanos().unwrap(),
    });
    Comparison { one_each, many }
}

impl Comparison {
    pub(crate) fn print(&self) {
        println!(
            "\nCPU time of one read() on all CPUs, ns: the least of {ROUNDS} rounds (the median)"
        );
        for (what, added) in
            [("one thread a CPU", self.one_each), (&format!("{MANY} threads"), self.many)]
        {
            let Nanos { min, median } = added.traced;
            let more = added.added().min;
            println!("{what:<28} {min:>10.0} ({median:.0}), of which tracing is {more:.0}");
        }
    }

    pub(crate) fn judge(&self, goals: &mut Goals) {
        let what = format!("a traced read: {MANY} threads / one thread a CPU");
        goals.ratio(what, self.many.traced.min / self.one_each.traced.min, 1.2);
    }
}
