//! The system calls to measure: names, groups, and what their tracepoints hand over.

use syscalls::Sysno;

use super::descriptors::takes_descriptor;
use super::meant::{explain, require_names, unknown};
use crate::error::{Cause, Error, Kind, Result, Step};
use crate::loader::Tracepoint;
use crate::tracefs::{Field, Tracefs};

/// Names that stand for several system calls. Members that this kernel lacks are left out.
pub(super) const GROUPS: [(&str, &[&str]); 6] = [
    ("@read", &["read", "pread64", "readv", "preadv", "preadv2"]),
    ("@write", &["write", "pwrite64", "writev", "pwritev", "pwritev2"]),
    ("@sync", &["fsync", "fdatasync", "sync_file_range", "syncfs", "sync", "msync"]),
    (
        "@net",
        &[
            "socket", "bind", "listen", "accept", "accept4", "connect", "shutdown", "sendto",
            "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg",
        ],
    ),
    (
        "@poll",
        &["poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"],
    ),
    ("@open", &["open", "openat", "openat2", "creat"]),
];

/// Calls that do not come back, so that there is no latency.
pub(super) const NEVER_RETURN: [&str; 2] = ["exit", "exit_group"];

/// A system call that can be measured on this kernel.
#[derive(Clone, Debug)]
pub struct Syscall {
    /// Its name, such as `read`.
    pub name: String,
    /// Its number on this architecture; `None` for one too new to be known here.
    pub number: Option<i64>,
    /// Whether its first argument is a descriptor.
    pub takes_descriptor: bool,
    /// Its own two tracepoints; `None` where it is known by its number only.
    pub(super) own: Option<OwnTracepoints>,
}

/// The two tracepoints of a system call, and where their contexts have what the programs read.
#[derive(Clone, Debug)]
pub(super) struct OwnTracepoints {
    pub(super) enter: Tracepoint,
    pub(super) exit: Tracepoint,
    pub(super) argument_offset: Option<i16>,
    pub(super) result_offset: i16,
}

/// Where the first argument and the result are on kernels without a wider header, in bytes.
const USUAL_OFFSET: i16 = 16;

/// Tracepoints that have another name than the call has in the table of numbers.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("newfstat", "fstat"),
    ("newlstat", "lstat"),
    ("newstat", "stat"),
    ("newuname", "uname"),
    ("sendfile64", "sendfile"),
    ("umount", "umount2"),
];

impl Syscall {
    /// The system calls of these names and groups, each once, in the order given.
    ///
    /// # Errors
    /// As [`require_names`](Self::require_names), [`Kind::Unsupported`] for one
    /// that this kernel has no tracepoints for, [`Kind::Permission`] when they may not be read.
    pub fn find_all(tracefs: &Tracefs, names: &[String]) -> Result<Vec<Self>> {
        Self::require_names(names)?;
        Self::all(names, |name| {
            Self::find(tracefs, name).map_err(|error| explain(tracefs, name, error))
        })
    }

    /// The same without tracefs: those whose numbers are known here. They can be measured on the raw
    /// tracepoints only, and whether this kernel has them is not asked.
    ///
    /// # Errors
    /// As [`require_names`](Self::require_names), [`Kind::Unsupported`] for one whose number is not known.
    pub fn known_all(names: &[String]) -> Result<Vec<Self>> {
        Self::require_names(names)?;
        Self::all(names, Self::known)
    }

    /// The names of its own tracepoints, as far as they are known.
    pub(crate) fn tracepoints(&self) -> Vec<String> {
        let names = |own: &OwnTracepoints| vec![own.enter.to_string(), own.exit.to_string()];
        self.own.as_ref().map(names).unwrap_or_default()
    }

    fn all(names: &[String], find: impl Fn(&str) -> Result<Self>) -> Result<Vec<Self>> {
        let mut found: Vec<Self> = Vec::new();
        for name in names {
            let members = match GROUPS.iter().find(|(group, _)| group == name) {
                Some((_, members)) => members
                    .iter()
                    .map(|member| find(member))
                    .filter(|member| !is_unsupported(member))
                    .collect::<Result<Vec<_>>>()?,
                None => vec![find(name)?],
            };
            if members.is_empty() {
                return Err(nothing_in(name));
            }
            for member in members {
                if !found.iter().any(|known| known.name == member.name) {
                    found.push(member);
                }
            }
        }
        Ok(found)
    }

    /// Looks at names and groups as far as that needs no kernel: better before anything is opened.
    ///
    /// # Errors
    /// [`Kind::Usage`] for what cannot be a name, a group that there is not, and a call that never
    /// returns.
    ///
    /// ```
    /// use rlat::latency::Syscall;
    ///
    /// let error = Syscall::require_names(&["@raed".to_owned()]).unwrap_err();
    /// assert!(error.to_string().contains("near: @read"));
    /// ```
    pub fn require_names(names: &[String]) -> Result<()> {
        require_names(names)
    }

    /// The names of a group's members, on any kernel; empty for an unknown group.
    ///
    /// ```
    /// assert!(rlat::latency::Syscall::group("@read").contains(&"pread64"));
    /// ```
    pub fn group(name: &str) -> &'static [&'static str] {
        GROUPS.iter().find(|(group, _)| *group == name).map_or(&[], |(_, members)| *members)
    }

    /// What is kept of a call of that name where tracefs cannot be read: its tracepoints as they are on
    /// kernels without a wider header, with 8 bytes of common fields and the call's number before the rest.
    pub(crate) fn usual(name: &str) -> Self {
        let tracepoint = |name: String| Tracepoint { category: "syscalls".to_owned(), name, id: 0 };
        Self {
            name: name.to_owned(),
            number: number(name),
            takes_descriptor: takes_descriptor(name),
            own: Some(OwnTracepoints {
                enter: tracepoint(format!("sys_enter_{name}")),
                exit: tracepoint(format!("sys_exit_{name}")),
                argument_offset: (name != "sync").then_some(USUAL_OFFSET),
                result_offset: USUAL_OFFSET,
            }),
        }
    }

    fn find(tracefs: &Tracefs, name: &str) -> Result<Self> {
        let tracepoint = |name: String| -> Result<Tracepoint> {
            let id = tracefs.tracepoint_id("syscalls", &name)?;
            Ok(Tracepoint { category: "syscalls".to_owned(), name, id })
        };
        let enter = tracepoint(format!("sys_enter_{name}"))?;
        let exit = tracepoint(format!("sys_exit_{name}"))?;
        let arguments = tracefs.format(&enter.category, &enter.name)?;
        let argument = arguments.fields.iter().find(|field| is_argument(field));
        let results = tracefs.format(&exit.category, &exit.name)?;
        let result = results.field("ret");
        Ok(Self {
            name: name.to_owned(),
            number: number(name),
            takes_descriptor: argument.is_some_and(is_descriptor),
            own: Some(OwnTracepoints {
                argument_offset: argument.map(|field| offset(&enter, field)).transpose()?,
                result_offset: result
                    .map_or_else(|| Err(lacks(&exit, "ret")), |f| offset(&exit, f))?,
                enter,
                exit,
            }),
        })
    }

    fn known(name: &str) -> Result<Self> {
        let number =
            number(name).ok_or_else(|| unknown(name, Sysno::iter().map(|number| number.name())))?;
        let takes_descriptor = takes_descriptor(name);
        Ok(Self { name: name.to_owned(), number: Some(number), takes_descriptor, own: None })
    }
}

/// The number of a call on this architecture.
fn number(name: &str) -> Option<i64> {
    let other = OTHER_NAMES.iter().find(|(tracepoint, _)| *tracepoint == name);
    let name = other.map_or(name, |(_, call)| call);
    // A comparison with each is smaller than the generated match.
    let call = Sysno::iter().find(|call| call.name() == name)?;
    Some(i64::from(call.id()))
}

/// Arguments are what stands behind the common fields and the number of the call.
fn is_argument(field: &Field) -> bool {
    !field.name.starts_with("common_") && field.name != "__syscall_nr"
}

/// The kernel's sources give descriptors an integer type and one of these names.
fn is_descriptor(field: &Field) -> bool {
    let integer =
        matches!(field.type_name.as_str(), "int" | "unsigned int" | "unsigned long" | "mqd_t");
    let name = field.name.as_str();
    integer && (name.ends_with("fd") || matches!(name, "fildes" | "mqdes" | "fd_in" | "fdin"))
}

/// Where a field of 8 bytes is in a tracepoint's context. Kernels differ in what stands before it.
fn offset(tracepoint: &Tracepoint, field: &Field) -> Result<i16> {
    i16::try_from(field.offset)
        .ok()
        .filter(|_| field.size == 8)
        .ok_or_else(|| lacks(tracepoint, &field.name))
}

fn is_unsupported(result: &Result<Syscall>) -> bool {
    matches!(result, Err(error) if error.kind == Kind::Unsupported)
}

fn lacks(tracepoint: &Tracepoint, field: &str) -> Error {
    Error {
        kind: Kind::Unsupported,
        step: Step::Tracepoint,
        object: tracepoint.to_string(),
        cause: Cause::Text(format!("its format has no field {field} of 8 bytes")),
        next: "please report this with the tracepoint's `format` file".to_owned(),
    }
}

fn nothing_in(name: &str) -> Error {
    Error {
        kind: Kind::Unsupported,
        step: Step::Tracepoint,
        object: name.to_owned(),
        cause: Cause::Text("this kernel has tracepoints for none of its members".to_owned()),
        next: "`rlat list 'sys_enter_*'` shows those that it has".to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::tracefs::Format;

    /// read(), as if its number were 0 everywhere.
    pub(in super::super) fn read() -> Syscall {
        let tracepoint = |name: &str| Tracepoint {
            category: "syscalls".to_owned(),
            name: name.to_owned(),
            id: 1,
        };
        Syscall {
            name: "read".to_owned(),
            number: Some(0),
            takes_descriptor: true,
            own: Some(OwnTracepoints {
                enter: tracepoint("sys_enter_read"),
                exit: tracepoint("sys_exit_read"),
                argument_offset: Some(16),
                result_offset: 16,
            }),
        }
    }

    fn first_argument(format: &str) -> bool {
        let format = Format::parse(format.as_bytes()).unwrap();
        format.fields.iter().find(|field| is_argument(field)).is_some_and(is_descriptor)
    }

    #[test]
    fn descriptors_are_told_from_other_first_arguments() {
        let with = |argument: &str| {
            format!(
                "name: sys_enter_x\nID: 1\nformat:\n\
                 \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
                 \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
                 \tfield:{argument};\toffset:16;\tsize:8;\tsigned:0;\n"
            )
        };
        for descriptor in
            ["unsigned int fd", "int epfd", "int dfd", "unsigned int fildes", "unsigned long fd"]
        {
            assert!(first_argument(&with(descriptor)), "{descriptor}");
        }
        for other in ["const char * filename", "unsigned long addr", "int family", "int which"] {
            assert!(!first_argument(&with(other)), "{other}");
        }
    }
}
