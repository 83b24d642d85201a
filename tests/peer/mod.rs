//! bpftrace, to compare with: the one that is installed, or the newest one, where `scripts/newest-bpftrace`
//! has made a folder with it and names that in `RLAT_NEWEST_BPFTRACE`.

// Each file of tests needs a part of it, and a failure in any part fails the test.
#![allow(dead_code, clippy::expect_used)]

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, PipeWriter, Read, Write as _, pipe};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use rlat::process::{PidNamespace, Target};

use crate::requirements;

/// Whether bpftrace can be run here, and means the same by a process id. If not, the reason is printed.
pub(crate) fn bpftrace() -> bool {
    let in_initial_namespace = || {
        let own = Target::open(std::process::id()).expect("this process is there");
        own.namespace == PidNamespace::Initial
            || requirements::skip("bpftrace takes the ids of the initial PID namespace")
    };
    let installed =
        newest().is_some() || requirements::tool("bpftrace", "Debian's package bpftrace");
    installed && in_initial_namespace()
}

fn newest() -> Option<OsString> {
    std::env::var_os("RLAT_NEWEST_BPFTRACE")
}

/// Whether its hist() takes k, as since 0.21.
pub(crate) fn bpftrace_has_finer_buckets() -> bool {
    newest().is_some()
}

/// A bpftrace that runs a script.
pub(crate) struct Bpftrace {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// It complains of limits that it does not need; so this is shown only when something went wrong.
    stderr: ChildStderr,
    /// Standard input of a cat(1) that bpftrace ends with.
    cat: PipeWriter,
}

impl Bpftrace {
    /// Starts it, and returns when it is attached. It says nothing of that, but it starts the command
    /// of its option -c only then; and that is a cat(1), which tells by giving back a line of ours.
    pub(crate) fn attach(script: &str) -> Self {
        Self::attach_with(&[], script)
    }

    /// The same with these options.
    pub(crate) fn attach_with(options: &[&str], script: &str) -> Self {
        let (stdin, mut cat) = pipe().expect("a pipe can be had");
        let mut child = bpftrace_command()
            .args(options)
            .args(["-c", "/bin/cat", "-e", script])
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bpftrace starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("it has a standard output"));
        let mut stderr = child.stderr.take().expect("it has a standard error");
        // If it is gone already, reading tells why.
        let _ = cat.write_all(b"attached\n");
        let mut line = String::new();
        while line != "attached\n" {
            line.clear();
            let bytes = stdout.read_line(&mut line).expect("bpftrace writes text");
            assert!(bytes > 0, "bpftrace ended too early:\n{}", all_of(&mut stderr));
        }
        Self { child, stdout, stderr, cat }
    }

    /// Ends it, and returns what it printed.
    pub(crate) fn end(self) -> String {
        let Self { mut child, mut stdout, mut stderr, cat } = self;
        drop(cat);
        let text = all_of(&mut stdout);
        let status = child.wait().expect("it is our child");
        assert!(status.success(), "bpftrace ended with {status}:\n{}", all_of(&mut stderr));
        text
    }
}

/// A command that becomes bpftrace, to be given its arguments. The time limit is for one that hangs.
fn bpftrace_command() -> Command {
    let mut command;
    if let Some(folder) = newest() {
        command = Command::new("timeout");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/newest-bpftrace");
        command.args(["--foreground", "120", script, "--run"]).arg(folder);
    } else {
        // It needs tracefs, and this one goes away with it.
        let in_own_mounts = "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; \
                             exec timeout --foreground 120 bpftrace \"$@\"";
        command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", in_own_mounts, "sh"]);
    }
    command
}

fn all_of(stream: &mut impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("bpftrace writes text");
    text
}
