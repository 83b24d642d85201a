//! rlat as a whole: how long it takes to begin, the memory and the CPU time that it needs, its size.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use rlat::calibration::{Call, Caller, Nanos, Sample};
use rlat::process::Status;

use crate::goals::Goals;
use crate::peers::{PeerKind, Start};

const RLAT: &str = env!("CARGO_BIN_EXE_rlat");
const STARTS: usize = 15;
/// How long the CPU time is looked at.
const MEASURING: Duration = Duration::from_secs(10);

pub(crate) struct Whole {
    /// From execve(2) to the window open, in ns.
    start: Nanos,
    /// The most memory that was resident, in KiB.
    peak_kib: u64,
    /// The part of a CPU that it used while it measured and printed nothing.
    cpu_share: f64,
    binary_bytes: u64,
    is_static: bool,
}

pub(crate) fn measure(cpu: usize) -> Whole {
    let caller = Caller::start(cpu).unwrap();
    let mut starts = Sample::default();
    let mut peak_kib = 0;
    for _ in 0..STARTS {
        let begun = Instant::now();
        let running = Running::start(caller.pid());
        starts.add(begun.elapsed().as_nanos() as f64);
        caller.nanos_per(Call::Read).unwrap();
        peak_kib = peak_kib.max(running.end());
    }
    let binary = fs::read(RLAT).unwrap();
    Whole {
        start: starts.nanos().unwrap(),
        peak_kib,
        cpu_share: cpu_share(&caller),
        binary_bytes: binary.len() as u64,
        is_static: !binary.windows(6).any(|bytes| bytes == b"ld-lin" || bytes == b"ld-mus"),
    }
}

/// A running rlat whose window is open.
struct Running {
    child: Child,
    stdout: ChildStdout,
    _stderr: BufReader<ChildStderr>,
}

impl Running {
    fn start(pid: u32) -> Self {
        let mut child = Command::new(RLAT)
            .args(["-d", "0", &pid.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "rlat does not measure");
        Self { stdout: child.stdout.take().unwrap(), child, _stderr: stderr }
    }

    /// Ends it, and returns its peak memory, which it has reached when it has written its result.
    fn end(mut self) -> u64 {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).unwrap();
        let mut result = [0; 1 << 12];
        assert!(self.stdout.read(&mut result).unwrap() > 0, "there is a result");
        // It is detaching, which takes a while.
        let peak = Status::read(self.child.id()).unwrap().peak_memory_kib;
        self.child.wait().unwrap();
        peak.unwrap()
    }
}

/// While calls are made all the time.
fn cpu_share(caller: &Caller) -> f64 {
    let running = Running::start(caller.pid());
    let clock = clock_getcpuclockid(Pid::from_raw(running.child.id() as i32)).unwrap();
    let used = || Duration::from(clock_gettime(clock).unwrap());
    caller.nanos_per(Call::Read).unwrap();
    // What opening the window takes belongs to the start.
    thread::sleep(Duration::from_secs(1));
    let (begun, before) = (Instant::now(), used());
    while begun.elapsed() < MEASURING {
        caller.nanos_per(Call::Read).unwrap();
    }
    let share = used().saturating_sub(before).as_secs_f64() / begun.elapsed().as_secs_f64();
    running.end();
    share
}

impl Whole {
    pub(crate) fn print(&self) {
        let Self { start, peak_kib, cpu_share, binary_bytes, is_static } = self;
        println!("\nrlat as a whole");
        println!(
            "from exec to the window open: {:.1} ms, the least of {STARTS} (the median: {:.1} ms)",
            start.min / 1e6,
            start.median / 1e6
        );
        println!("memory, at most resident:     {peak_kib} KiB");
        println!("CPU while it measures:        {:.4} % of one", cpu_share * 100.0);
        let kind = if *is_static {
            "static"
        } else {
            "not static: `--target x86_64-unknown-linux-musl` makes a static one"
        };
        println!("binary:                       {binary_bytes} bytes, {kind}");
    }

    pub(crate) fn judge(&self, peers: &[Start], goals: &mut Goals) {
        let ms = self.start.median / 1e6;
        goals.add("from exec to the window open, median, ms", format!("{ms:.1}"), ms, 15.0);
        let mib = self.peak_kib as f64 / 1024.0;
        goals.add("memory, at most resident, MiB", format!("{mib:.2}"), mib, 4.0);
        // The newest one, where there are two.
        let find = |kind| peers.iter().find(|peer| peer.kind == kind);
        let bpftrace = find(PeerKind::NewestBpftrace).or_else(|| find(PeerKind::Bpftrace));
        if let Some(peer) = bpftrace {
            let ratio = self.start.min / peer.nanos.min;
            goals.ratio(
                format!("from exec to the window open: rlat / {}", peer.name),
                ratio,
                1.0 / 30.0,
            );
            let ratio = self.peak_kib as f64 / peer.peak_kib as f64;
            goals.ratio(format!("memory: rlat / {}", peer.name), ratio, 1.0 / 40.0);
        }
        let percent = self.cpu_share * 100.0;
        goals.add("CPU while it measures, % of one", format!("{percent:.4}"), percent, 0.1);
        let mib = self.binary_bytes as f64 / f64::from(1 << 20);
        goals.add("binary, MiB", format!("{mib:.2}"), mib, 1.2);
    }
}
