//! Who is measured, as the user named it, and how the programs recognise it.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};

use super::family::IS_MEMBER;
use super::scope::{CGROUP_MAP, MEMBERS_MAP, Member, Scope};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::escape::escape_path;
use crate::maps::{CgroupArray, HashMap};
use crate::process::{PidNamespace, Status, Target};

/// Who is measured.
#[derive(Debug)]
pub enum Subject {
    /// These processes.
    Processes(Vec<Target>),
    /// The thread that each of these was asked for by.
    Threads(Vec<Target>),
    /// These processes, and what they fork from now on.
    Family(Vec<Target>),
    /// All threads of that name.
    Named(String),
    /// All processes of that control group, and of those below it.
    ControlGroup(PathBuf),
    /// Everything but this process itself.
    All,
}

/// Maps that a scope needs, open as long as its programs are loaded.
#[derive(Debug, Default)]
pub(crate) struct ScopeMaps {
    members: Option<HashMap<u32, u32>>,
    cgroup: Option<CgroupArray>,
}

/// The room for a family's processes and threads.
const MOST_MEMBERS: u32 = 65_536;

impl Subject {
    /// The processes that were named one by one: when all of them have ended, so has the measurement.
    pub fn targets(&self) -> &[Target] {
        match self {
            Self::Processes(targets) | Self::Threads(targets) | Self::Family(targets) => targets,
            Self::Named(_) | Self::ControlGroup(_) | Self::All => &[],
        }
    }

    /// How the programs recognise it.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a name that no thread can have; [`Kind::Unsupported`] when a family is to
    /// be followed from within a PID namespace.
    pub(crate) fn scope(&self) -> Result<Scope> {
        Ok(match self {
            Self::Processes(targets) => Scope::Processes(processes(targets)),
            Self::Threads(targets) => Scope::Threads(
                targets
                    .iter()
                    .map(|target| Member {
                        namespace: target.namespace,
                        id: target.requested_inside,
                    })
                    .collect(),
            ),
            Self::Family(targets) => {
                require_initial_namespace()?;
                Scope::Family(processes(targets))
            }
            Self::Named(name) => Scope::Named(comm(name)?),
            Self::ControlGroup(_) => Scope::ControlGroup,
            Self::All => {
                Scope::AllBut(Member { namespace: PidNamespace::own(), id: std::process::id() })
            }
        })
    }

    /// Creates the maps that the scope needs.
    pub(crate) fn create_maps(&self) -> Result<ScopeMaps> {
        let mut maps = ScopeMaps::default();
        match self {
            Self::Family(targets) => {
                let members = HashMap::create(MEMBERS_MAP, MOST_MEMBERS)?;
                for target in targets {
                    members
                        .set(&target.pid, &IS_MEMBER)
                        .map_err(|errno| map_failed(MEMBERS_MAP, errno))?;
                }
                maps.members = Some(members);
            }
            Self::ControlGroup(path) => {
                let folder = open_cgroup(path)?;
                let cgroup = CgroupArray::create(CGROUP_MAP, 1)?;
                cgroup.set(0, folder.as_fd()).map_err(|errno| map_failed(CGROUP_MAP, errno))?;
                maps.cgroup = Some(cgroup);
            }
            Self::Processes(_) | Self::Threads(_) | Self::Named(_) | Self::All => {}
        }
        Ok(maps)
    }
}

impl ScopeMaps {
    /// Names and descriptors, for linking programs.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (String, i32)> {
        let members = self.members.as_ref().map(|map| (MEMBERS_MAP.to_owned(), map.number()));
        let cgroup = self.cgroup.as_ref().map(|map| (CGROUP_MAP.to_owned(), map.number()));
        members.into_iter().chain(cgroup)
    }

    /// The processes of the family that live now; `None` where there is no family to follow. Not to be
    /// called while the window is open, for it calls bpf(2) on a map.
    pub(crate) fn members(&self) -> Option<Vec<u32>> {
        let members = self.members.as_ref()?.entries().ok()?;
        // While they change, one may come twice.
        let members: BTreeSet<u32> = members.into_iter().map(|(id, _)| id).collect();
        // Threads are among them, and what has ended a moment ago.
        let is_process = |id: &u32| Status::read(*id).is_ok_and(|status| status.tgid == Some(*id));
        Some(members.into_iter().filter(is_process).collect())
    }
}

fn processes(targets: &[Target]) -> Vec<Member> {
    targets
        .iter()
        .map(|target| Member { namespace: target.namespace, id: target.pid_inside })
        .collect()
}

/// The kernel keeps 15 bytes of a thread's name (`TASK_COMM_LEN` with the ending zero).
fn comm(name: &str) -> Result<[u8; 16]> {
    let mut comm = [0; 16];
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() >= comm.len() || bytes.contains(&0) {
        return Err(Error {
            kind: Kind::Usage,
            step: Step::Arguments,
            object: format!("--comm {name:?}"),
            cause: Cause::Text("a thread's name has 1 to 15 bytes".to_owned()),
            next: "`ps -eTo comm` shows the names as the kernel keeps them".to_owned(),
        });
    }
    comm[..bytes.len()].copy_from_slice(bytes);
    Ok(comm)
}

/// A new process is known by its id in the initial PID namespace only, where we must see it, too.
fn require_initial_namespace() -> Result<()> {
    if PidNamespace::own() == PidNamespace::Initial {
        return Ok(());
    }
    Err(Error {
        kind: Kind::Unsupported,
        step: Step::Arguments,
        object: "--follow".to_owned(),
        cause: Cause::Text("rlat runs in a PID namespace of its own here".to_owned()),
        next: "run it outside of the container, or name the processes".to_owned(),
    })
}

fn open_cgroup(path: &Path) -> Result<File> {
    let failed = |cause, next: &str| Error {
        kind: Kind::Usage,
        step: Step::Arguments,
        object: format!("--cgroup {}", escape_path(path)),
        cause,
        next: next.to_owned(),
    };
    let next = "name a folder of a cgroup v2 hierarchy, such as /sys/fs/cgroup/system.slice";
    let is_cgroup2 =
        statfs(path).map_err(|errno| failed(Cause::Errno(errno), next))?.filesystem_type()
            == CGROUP2_SUPER_MAGIC;
    if !is_cgroup2 || !path.is_dir() {
        return Err(failed(Cause::Text("it is no control group of version 2".to_owned()), next));
    }
    File::open(path)
        .map_err(|error| failed(Cause::Errno(Errno::try_from(error).unwrap_or(Errno::EIO)), next))
}

fn map_failed(map: &str, errno: Errno) -> Error {
    Error {
        kind: Kind::Other,
        step: Step::Map,
        object: map.to_owned(),
        cause: Cause::Errno(errno),
        next: "measure again".to_owned(),
    }
}
