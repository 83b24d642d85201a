//! Other tracers that do the same, or less exactly the same: bpftrace, ply, perf trace and strace.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rlat::calibration::{Caller, Nanos, Sample, allowed_cpus};
use rlat::process::{Status, thread_name};

/// How often each is started for the times that it takes.
const STARTS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerKind {
    Bpftrace,
    NewestBpftrace,
    Ply,
    PerfTrace,
    Strace,
}

/// A tracer that is installed.
pub(crate) struct Peer {
    pub(crate) kind: PeerKind,
    /// The folder that is its root, where it is not installed here.
    root: Option<PathBuf>,
    version: String,
}

/// A tracer that is attached.
pub(crate) struct Running {
    child: Child,
    /// Standard input of what a bpftrace ends with.
    stdin: Option<std::process::ChildStdin>,
    tracer: u32,
}

impl PeerKind {
    const ALL: [Self; 5] =
        [Self::Bpftrace, Self::NewestBpftrace, Self::Ply, Self::PerfTrace, Self::Strace];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bpftrace => "bpftrace",
            Self::NewestBpftrace => "newest bpftrace",
            Self::Ply => "ply",
            Self::PerfTrace => "perf trace -s",
            Self::Strace => "strace -c -w",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Bpftrace | Self::NewestBpftrace => "bpftrace",
            Self::Ply => "ply",
            Self::PerfTrace => "perf",
            Self::Strace => "strace",
        }
    }

    /// How to come by it.
    fn remedy(self) -> &'static str {
        match self {
            Self::Bpftrace => "apt-get install bpftrace",
            Self::NewestBpftrace => {
                "`scripts/newest-bpftrace --setup DIR` or `debootstrap --variant=minbase \
                 --include=bpftrace,ply sid DIR` makes a root with it: benches/peers --root DIR"
            }
            Self::Ply => "apt-get install ply, where Debian has it, or in the root of --root",
            Self::PerfTrace => "apt-get install linux-perf",
            Self::Strace => "apt-get install strace",
        }
    }

    fn arguments(self, pid: u32) -> Vec<String> {
        let pid = pid.to_string();
        let own = |arguments: &[&str]| arguments.iter().map(ToString::to_string).collect();
        match self {
            Self::Bpftrace | Self::NewestBpftrace => own(&[
                "-c",
                "/bin/cat",
                "-e",
                // The usual way to have the same histogram.
                &format!(
                    "tracepoint:syscalls:sys_enter_read /pid == {pid}/ {{ @start[tid] = nsecs; }}
                    tracepoint:syscalls:sys_exit_read /@start[tid]/ {{
                        @read_us = hist((nsecs - @start[tid]) / 1000);
                        delete(@start[tid]);
                    }}"
                ),
            ]),
            Self::Ply => own(&[&format!(
                "tracepoint:syscalls/sys_enter_read /pid == {pid}/ {{ start[kpid] = time; }}
                tracepoint:syscalls/sys_exit_read /start[kpid]/ {{
                    @[\"us\"] = quantize((time - start[kpid]) / 1000);
                    delete start[kpid];
                }}"
            )]),
            Self::PerfTrace => own(&["trace", "-s", "-p", &pid]),
            Self::Strace => own(&["-f", "-c", "-w", "-p", &pid]),
        }
    }
}

impl Peer {
    /// Those that are installed, here or in the root that is given. The others are named.
    pub(crate) fn find(roots: &[&str]) -> Vec<Self> {
        let root = roots.first().map(PathBuf::from);
        let found = PeerKind::ALL.into_iter().filter_map(|kind| {
            let places = match kind {
                PeerKind::NewestBpftrace => vec![root.clone()?],
                PeerKind::Ply => vec![PathBuf::from("/"), root.clone().unwrap_or_default()],
                _ => vec![PathBuf::from("/")],
            };
            places.into_iter().find_map(|place| {
                let version = version(&place, kind.program())?;
                let root = (place != Path::new("/")).then_some(place);
                Some(Self { kind, root, version })
            })
        });
        let found: Vec<Self> = found.collect();
        for kind in PeerKind::ALL {
            if !found.iter().any(|peer| peer.kind == kind) {
                println!("missing: {}: {}", kind.name(), kind.remedy());
            }
        }
        found
    }

    pub(crate) fn name(&self) -> String {
        match self.kind {
            PeerKind::Bpftrace | PeerKind::NewestBpftrace => self.version.clone(),
            kind => kind.name().to_owned(),
        }
    }

    /// Starts it on the process, and returns when it is attached.
    pub(crate) fn attach(&self, pid: u32) -> Running {
        let mut child = command(self.root.as_deref(), self.kind.program())
            .args(self.kind.arguments(pid))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut running = Running { stdin: child.stdin.take(), tracer: child.id(), child };
        match self.kind {
            PeerKind::Bpftrace | PeerKind::NewestBpftrace => {
                // It starts its cat(1) when it is attached, and that gives back what is written to it.
                running.stdin.as_ref().unwrap().write_all(b"attached\n").unwrap();
                let stdout = running.child.stdout.take().unwrap();
                running.wait_for(stdout, "attached");
            }
            PeerKind::Strace => {
                let stderr = running.child.stderr.take().unwrap();
                running.wait_for(stderr, "attached");
            }
            // They say nothing, but open their events one after another.
            PeerKind::Ply | PeerKind::PerfTrace => running.wait_for_events(),
        }
        assert_eq!(
            thread_name(running.tracer, running.tracer).unwrap_or_default(),
            self.kind.program(),
            "the shell has become the tracer"
        );
        running
    }
}

impl Running {
    /// Until a line has that text. What comes after it is read and thrown away, so that nobody waits for us.
    fn wait_for(&mut self, stream: impl std::io::Read + Send + 'static, text: &str) {
        let mut stream = BufReader::new(stream);
        let mut all = String::new();
        while !all.contains(text) {
            if stream.read_line(&mut all).unwrap() == 0 {
                let mut stderr = String::new();
                if let Some(mut rest) = self.child.stderr.take() {
                    let _ = rest.read_to_string(&mut stderr);
                }
                panic!("a tracer ended too early: {all}{stderr}");
            }
        }
        thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
        for rest in [
            self.child.stdout.take().map(|rest| Box::new(rest) as Box<dyn std::io::Read + Send>),
            self.child.stderr.take().map(|rest| Box::new(rest) as _),
        ] {
            let Some(mut rest) = rest else { continue };
            thread::spawn(move || std::io::copy(&mut rest, &mut std::io::sink()));
        }
    }

    fn wait_for_events(&self) {
        let count = || {
            let descriptors = fs::read_dir(format!("/proc/{}/fd", self.tracer));
            let links = descriptors.into_iter().flatten().flatten();
            links
                .filter_map(|entry| fs::read_link(entry.path()).ok())
                .filter(|target| target.to_string_lossy().contains("[perf_event]"))
                .count()
        };
        let mut seen = 0;
        loop {
            thread::sleep(Duration::from_millis(300));
            let now = count();
            if now > 0 && now == seen {
                return;
            }
            seen = now;
        }
    }

    fn peak_kib(&self) -> u64 {
        Status::read(self.tracer).unwrap().peak_memory_kib.unwrap()
    }

    pub(crate) fn end(mut self) {
        drop(self.stdin.take());
        let _ = kill(Pid::from_raw(self.tracer as i32), Signal::SIGINT);
        self.child.wait().unwrap();
    }
}

/// A program of that root, which becomes the process that is started. It has a tracefs of its own, which
/// goes away with it; some look for it in debugfs.
fn command(root: Option<&Path>, program: &str) -> Command {
    const MOUNT_TRACEFS: &str = "\
        [ -e \"$0/sys/kernel/tracing/events\" ] || mount -t tracefs t \"$0/sys/kernel/tracing\"; \
        [ -e \"$0/sys/kernel/debug/tracing\" ] || mount -t debugfs d \"$0/sys/kernel/debug\"; ";
    let (bind, change) = match root {
        None => ("", ""),
        Some(_) => (
            "for dir in proc sys dev; do mount --rbind \"/$dir\" \"$0/$dir\" || exit; done; ",
            "chroot \"$0\" ",
        ),
    };
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c"])
        .arg(format!("{{ {bind}{MOUNT_TRACEFS}}} 2>/dev/null; exec {change}{program} \"$@\""))
        .arg(root.unwrap_or(Path::new("")));
    command
}

fn version(root: &Path, program: &str) -> Option<String> {
    let root = (root != Path::new("/")).then_some(root);
    let output = command(root, program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(|| text.lines().next().unwrap_or_default().to_owned())
}

/// How long a tracer takes to begin, and its memory.
pub(crate) struct Start {
    pub(crate) kind: PeerKind,
    pub(crate) name: String,
    pub(crate) nanos: Nanos,
    pub(crate) peak_kib: u64,
}

pub(crate) fn measure_starts(peers: &[Peer]) -> Vec<Start> {
    let caller = Caller::start(allowed_cpus().unwrap()[0]).unwrap();
    let start = |peer: &Peer| {
        let mut sample = Sample::default();
        let mut peak_kib = 0;
        for _ in 0..STARTS {
            let begun = Instant::now();
            let running = peer.attach(caller.pid());
            sample.add(begun.elapsed().as_nanos() as f64);
            peak_kib = peak_kib.max(running.peak_kib());
            running.end();
        }
        Start { kind: peer.kind, name: peer.name(), nanos: sample.nanos().unwrap(), peak_kib }
    };
    // Those of the others are not seen, only waited for.
    let says_so = |peer: &&Peer| !matches!(peer.kind, PeerKind::Ply | PeerKind::PerfTrace);
    peers.iter().filter(says_so).map(start).collect()
}

pub(crate) fn print_starts(starts: &[Start]) {
    for Start { name, nanos, peak_kib, .. } in starts {
        let (min, median) = (nanos.min / 1e6, nanos.median / 1e6);
        println!("{name}: attached after {min:.0} ms ({median:.0} ms), {peak_kib} KiB of memory");
    }
}
