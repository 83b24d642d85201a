//! Servers that people run, in a folder of their own and with a socket in it, to be measured.
//!
//! They can be held: stopped, all their processes together. A process that is stopped is in no system call,
//! so that a window that opens and closes then has every call whole. Whoever looks in between does so at
//! leisure.

#![allow(clippy::unwrap_used)] // A failure here fails the test.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User};
use rlat::process::Status;

use crate::requirements;
use crate::support::{until, wait_for};

/// A server. It ends when this is dropped, and its folder with it.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
    /// What tells it to end at once.
    end: Signal,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder with its socket.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The server and its children.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let pid = self.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let children = children.split_ascii_whitespace().map(|pid| pid.parse().unwrap());
        [pid].into_iter().chain(children).collect()
    }

    /// Stops all its processes, and returns them when they stand still.
    pub(crate) fn hold(&self) -> Vec<u32> {
        // The first one forks the others, so that from then on there are no new ones.
        assert!(stop(self.pid()));
        self.processes().into_iter().filter(|pid| stop(*pid)).collect()
    }

    /// Lets them go on.
    pub(crate) fn release(&self) {
        for pid in self.processes() {
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGCONT);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), self.end);
        self.release();
        if wait_for(&mut self.child).is_err() {
            let _ = self.child.kill();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Stops the process; whether it is stopped now and has not ended.
fn stop(pid: u32) -> bool {
    // One that has ended is still there: its parent is stopped, and has not taken notice.
    kill(Pid::from_raw(pid as i32), Signal::SIGSTOP).unwrap();
    until("the process is stopped", || match Status::read(pid).unwrap().state {
        Some('T') => Some(true),
        Some('Z') => Some(false),
        _ => None,
    })
}

fn new_folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("rlat-{name}-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    folder
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// A PostgreSQL server with the tables of pgbench, as the user postgres, which must not be root.
pub(crate) struct Postgres {
    server: Server,
    programs: PathBuf,
}

impl Postgres {
    /// Where its programs are, or nothing when they or their user are missing, and why is printed.
    fn programs() -> Option<PathBuf> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
        let newest = programs.filter(|folder| folder.join("initdb").exists()).max();
        let user = User::from_name("postgres").unwrap();
        if newest.is_none() || user.is_none() {
            requirements::skip(
                "there is no PostgreSQL server: install Debian's package postgresql",
            );
            return None;
        }
        newest
    }

    /// A command that runs one of its programs as its user, and does not outlive us.
    fn command(&self, program: &str) -> Command {
        command_of_postgres(&self.programs.join(program))
    }

    /// Starts one that has few buffers and writes with fsync(), so that it calls pread64() and fsync().
    pub(crate) fn start() -> Option<Self> {
        let programs = Self::programs()?;
        let user = User::from_name("postgres").unwrap()?;
        let folder = new_folder("postgres");
        chown(&folder, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
        let data = folder.join("data");
        let initdb = ["--auth=trust", "--no-sync", "--no-instructions", "--pgdata"];
        run(command_of_postgres(&programs.join("initdb")).args(initdb).arg(&data));
        let mut command = command_of_postgres(&programs.join("postgres"));
        let child = command
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&folder)
            .args(["-c", "listen_addresses=", "-c", "autovacuum=off", "-c", "log_connections=on"])
            .args(["-c", "shared_buffers=16", "-c", "wal_sync_method=fsync"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Server { child, folder, end: Signal::SIGQUIT };
        let postgres = Self { server, programs };
        until("PostgreSQL takes connections", || {
            let asked = postgres.command("pg_isready").arg("-h").arg(postgres.folder()).output();
            asked.unwrap().status.success().then_some(())
        });
        postgres.pgbench(&["--initialize", "--quiet", "--init-steps=dtgp"]);
        Some(postgres)
    }

    /// Runs pgbench to its end.
    pub(crate) fn pgbench(&self, arguments: &[&str]) {
        run(self.command("pgbench").arg("-h").arg(self.folder()).args(arguments).arg("postgres"));
    }
}

impl std::ops::Deref for Postgres {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

fn command_of_postgres(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    let user = ["--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig=KILL"];
    command.args(user).arg(program).current_dir("/");
    command
}

/// A redis server that keeps nothing.
pub(crate) fn redis() -> Option<Server> {
    let package = "Debian's packages redis-server and redis-tools";
    if !requirements::tool("redis-server", package) || !requirements::tool("redis-cli", package) {
        return None;
    }
    let folder = new_folder("redis");
    // Dies with us, as above.
    let child = Command::new("setpriv")
        .args(["--pdeathsig=KILL", "redis-server", "--port", "0", "--save", "", "--unixsocket"])
        .arg(folder.join("socket"))
        .arg("--dir")
        .arg(&folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server { child, folder, end: Signal::SIGKILL };
    until("redis answers", || {
        let asked = Command::new("redis-cli")
            .arg("-s")
            .arg(server.folder().join("socket"))
            .arg("ping")
            .output();
        asked.unwrap().stdout.starts_with(b"PONG").then_some(())
    });
    Some(server)
}
