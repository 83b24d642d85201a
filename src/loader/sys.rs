//! The system calls that no library wraps: bpf(2), perf_event_open(2) and four more.
//!
//! This is the one place where rlat talks to the kernel in raw structures, and apart from the file
//! that maps memory, and the one that gives up privileges, the only one with `unsafe`. Everything it gives out is safe to use: descriptors
//! are owned, and a map remembers the sizes of its key and value, because the kernel reads and
//! writes as many bytes as it was told when the map was created.
//!
//! Sources: `union bpf_attr` and `struct bpf_prog_info` in `include/uapi/linux/bpf.h`,
//! `struct perf_event_attr` in `include/uapi/linux/perf_event.h`. Each command reads only its own
//! part of the union, and a kernel takes a longer union than it knows if the rest is zero; so each
//! command has a struct of its own here.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::Result;
use nix::errno::Errno;

const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_LOOKUP_ELEM: i32 = 1;
const BPF_MAP_UPDATE_ELEM: i32 = 2;
const BPF_MAP_DELETE_ELEM: i32 = 3;
const BPF_MAP_GET_NEXT_KEY: i32 = 4;
const BPF_PROG_LOAD: i32 = 5;
const BPF_PROG_TEST_RUN: i32 = 10;
const BPF_OBJ_GET_INFO_BY_FD: i32 = 15;
const BPF_RAW_TRACEPOINT_OPEN: i32 = 17;
const BPF_BTF_LOAD: i32 = 18;
const BPF_ENABLE_STATS: i32 = 32;

/// The length of a map's or program's name with the ending zero (`BPF_OBJ_NAME_LEN`).
pub const NAME_BYTES: usize = 16;

/// `BPF_F_NO_PREALLOC`: a hash takes memory for an entry when it is inserted. Linux 4.6.
pub const NO_PREALLOC: u32 = 1 << 0;
/// `BPF_F_MMAPABLE`: the array's values can be mapped into memory. Linux 5.5.
pub const MMAPABLE: u32 = 1 << 10;

/// The kinds of map that rlat uses (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapType {
    /// `BPF_MAP_TYPE_HASH`: any key. Linux 3.19.
    Hash = 1,
    /// `BPF_MAP_TYPE_ARRAY`: the key is an index, u32. Linux 3.19.
    Array = 2,
    /// `BPF_MAP_TYPE_CGROUP_ARRAY`: an array of control groups, set by descriptor. Linux 4.8.
    CgroupArray = 8,
}

/// The kinds of program that rlat and its tests load (`enum bpf_prog_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramType {
    /// `BPF_PROG_TYPE_SOCKET_FILTER`: the one that `BPF_PROG_TEST_RUN` always could run.
    SocketFilter,
    /// `BPF_PROG_TYPE_TRACEPOINT`: attached through a perf event. Linux 4.7.
    Tracepoint,
    /// `BPF_PROG_TYPE_RAW_TRACEPOINT`: attached by bpf(2), and given the tracepoint's arguments as the
    /// kernel's own code has them. Linux 4.17.
    RawTracepoint,
    /// `BPF_PROG_TYPE_TRACING` for `BPF_TRACE_RAW_TP`: the same, but the verifier knows the types of the
    /// arguments, and lets the program follow pointers in them. The number is that of the tracepoint's
    /// type in the kernel's BTF, see [`raw_tracepoint_type`](super::raw_tracepoint_type). Linux 5.5.
    TypedRawTracepoint(u32),
}

impl ProgramType {
    /// `prog_type`, `expected_attach_type` and `attach_btf_id` of the load.
    const fn numbers(self) -> (u32, u32, u32) {
        match self {
            Self::SocketFilter => (1, 0, 0),
            Self::Tracepoint => (5, 0, 0),
            Self::RawTracepoint => (17, 0, 0),
            Self::TypedRawTracepoint(type_number) => (26, 23, type_number),
        }
    }
}

/// What a map is created from.
#[derive(Clone, Copy, Debug)]
pub struct MapSpec<'a> {
    /// Hash or array.
    pub map_type: MapType,
    /// Bytes of a key; 4 for an array.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// How many values at most; an array has exactly that many.
    pub max_entries: u32,
    /// 0, [`MMAPABLE`] or [`NO_PREALLOC`].
    pub flags: u32,
    /// Shown by bpftool, cut to 15 bytes.
    pub name: &'a str,
}

/// A map's descriptor, with the sizes that make using it safe.
#[derive(Debug)]
pub struct MapFd {
    fd: OwnedFd,
    key_size: usize,
    value_size: usize,
}

impl AsFd for MapFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[repr(C)]
#[derive(Default)]
struct MapCreateAttr {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; NAME_BYTES],
}

/// Creates a map.
///
/// # Errors
/// As bpf(2): `EPERM` without the privilege, `EINVAL` for a flag or size that this kernel does not
/// take, `E2BIG` or `ENOMEM` when it is too large.
pub fn map_create(spec: MapSpec<'_>) -> Result<MapFd> {
    let mut attr = MapCreateAttr {
        map_type: spec.map_type as u32,
        key_size: spec.key_size,
        value_size: spec.value_size,
        max_entries: spec.max_entries,
        map_flags: spec.flags,
        map_name: object_name(spec.name),
        ..MapCreateAttr::default()
    };
    // SAFETY: the attribute is the one that BPF_MAP_CREATE reads, and it holds no pointer.
    let fd = unsafe { bpf(BPF_MAP_CREATE, &mut attr) }?;
    Ok(MapFd {
        fd: own(fd)?,
        key_size: spec.key_size as usize,
        value_size: spec.value_size as usize,
    })
}

/// What a map of any type is created from, by numbers as a file has them.
#[derive(Clone, Copy, Debug)]
pub struct AnyMapSpec<'a> {
    /// Of `enum bpf_map_type`.
    pub type_number: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// How many values at most.
    pub max_entries: u32,
    /// `BPF_F_...`
    pub flags: u32,
    /// Shown by bpftool, cut to 15 bytes.
    pub name: &'a str,
}

/// Creates a map that programs refer to, and that is not used from here.
///
/// # Errors
/// As [`map_create`].
pub fn map_create_any(spec: AnyMapSpec<'_>) -> Result<OwnedFd> {
    let mut attr = MapCreateAttr {
        map_type: spec.type_number,
        key_size: spec.key_size,
        value_size: spec.value_size,
        max_entries: spec.max_entries,
        map_flags: spec.flags,
        map_name: object_name(spec.name),
        ..MapCreateAttr::default()
    };
    // SAFETY: the attribute is the one that BPF_MAP_CREATE reads, and it holds no pointer.
    own(unsafe { bpf(BPF_MAP_CREATE, &mut attr) }?)
}

#[repr(C)]
struct MapElemAttr {
    map_fd: u32,
    _padding: u32,
    key: u64,
    value_or_next_key: u64,
    flags: u64,
}

impl MapFd {
    /// Copies the value of `key` into `value`.
    ///
    /// # Errors
    /// `ENOENT` when the map has no such key; `EINVAL` when a length is not the map's.
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> Result<()> {
        let mut attr = self.elem(key, value.as_mut_ptr() as u64, value.len())?;
        // SAFETY: `elem` checked that the kernel reads and writes within `key` and `value`.
        unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &mut attr) }.map(drop)
    }

    /// Sets the value of `key`, which a hash map inserts if it is new.
    ///
    /// # Errors
    /// `E2BIG` when a hash map is full or an array has no such index; `EINVAL` when a length is not
    /// the map's.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut attr = self.elem(key, value.as_ptr() as u64, value.len())?;
        // SAFETY: `elem` checked that the kernel reads within `key` and `value`.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut attr) }.map(drop)
    }

    /// Removes `key` from a hash map.
    ///
    /// # Errors
    /// `ENOENT` when there is no such key; `EINVAL` for an array or a wrong length.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let mut attr = self.elem(key, 0, self.value_size)?;
        // SAFETY: `elem` checked that the kernel reads within `key`; this command has no value.
        unsafe { bpf(BPF_MAP_DELETE_ELEM, &mut attr) }.map(drop)
    }

    /// Copies into `next` the key after `key`, or the first one for `None`.
    ///
    /// # Errors
    /// `ENOENT` after the last key; `EINVAL` when a length is not the map's.
    pub fn next_key(&self, key: Option<&[u8]>, next: &mut [u8]) -> Result<()> {
        if next.len() != self.key_size || key.is_some_and(|key| key.len() != self.key_size) {
            return Err(Errno::EINVAL);
        }
        let mut attr = MapElemAttr {
            map_fd: self.fd.as_raw_fd() as u32,
            _padding: 0,
            key: key.map_or(0, |key| key.as_ptr() as u64),
            value_or_next_key: next.as_mut_ptr() as u64,
            flags: 0,
        };
        // SAFETY: both keys were just checked to be as long as the map's; null asks for the first.
        unsafe { bpf(BPF_MAP_GET_NEXT_KEY, &mut attr) }.map(drop)
    }

    fn elem(&self, key: &[u8], value: u64, value_len: usize) -> Result<MapElemAttr> {
        if key.len() != self.key_size || value_len != self.value_size {
            return Err(Errno::EINVAL);
        }
        Ok(MapElemAttr {
            map_fd: self.fd.as_raw_fd() as u32,
            _padding: 0,
            key: key.as_ptr() as u64,
            value_or_next_key: value,
            flags: 0,
        })
    }
}

/// What a program is loaded from.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSpec<'a> {
    /// What it will be attached to.
    pub program_type: ProgramType,
    /// The encoded instructions, in native byte order.
    pub code: &'a [u8],
    /// Which helpers the verifier allows depends on it.
    pub license: &'a CStr,
    /// Shown by bpftool, cut to 15 bytes.
    pub name: &'a str,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoadAttr {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; NAME_BYTES],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
    // Not used here; they stand between the lines and the size of the log.
    unused: [u32; 7],
    log_true_size: u32,
}

/// What a program says about its functions and source lines: BTF that is in the kernel, and tables that
/// refer to it. See [`btf`](crate::btf).
#[derive(Clone, Copy, Debug)]
pub struct DebugTables<'a> {
    /// The types and strings, as [`btf_load`] gives them.
    pub types: BorrowedFd<'a>,
    /// An array of `struct bpf_func_info`.
    pub functions: &'a [u8],
    /// An array of `struct bpf_line_info`.
    pub lines: &'a [u8],
}

/// Bytes of a `struct bpf_func_info`.
const FUNCTION_INFO_BYTES: u32 = 8;
/// Bytes of a `struct bpf_line_info`.
const LINE_INFO_BYTES: u32 = 16;

#[repr(C)]
#[derive(Default)]
struct BtfLoadAttr {
    btf: u64,
    log_buf: u64,
    btf_size: u32,
    log_size: u32,
    log_level: u32,
}

/// Hands types and strings to the kernel. Linux 4.18.
///
/// # Errors
/// As bpf(2): `EPERM` without the privilege, `EINVAL` when the kernel does not know the command, or does
/// not take what is in there.
pub fn btf_load(bytes: &[u8]) -> Result<OwnedFd> {
    let mut attr = BtfLoadAttr {
        btf: bytes.as_ptr() as u64,
        btf_size: bytes.len() as u32,
        ..BtfLoadAttr::default()
    };
    // SAFETY: the attribute is the one that BPF_BTF_LOAD reads; the bytes are borrowed for the call, and
    // there is no log.
    own(unsafe { bpf(BPF_BTF_LOAD, &mut attr) }?)
}

/// What the verifier writes into its log (`log_level`; the names are the kernel's, in
/// `include/linux/bpf_verifier.h`). Both end with statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LogLevel {
    /// `BPF_LOG_STATS` alone: messages and statistics, without the instructions on the way.
    Messages = 4,
    /// `BPF_LOG_LEVEL1`: of a refused program the path to the fault, of an accepted one nothing.
    Fault = 1 | 4,
    /// `BPF_LOG_LEVEL2`: every instruction on every path, with what is known of the registers.
    EveryPath = 2 | 4,
}

/// The verifier's log of one load.
#[derive(Debug, Default)]
pub struct LogBuffer {
    /// The bytes up to the ending zero: text, but nothing guarantees UTF-8.
    pub bytes: Vec<u8>,
    /// How large a buffer the kernel would have liked, in bytes. 0 before Linux 6.4.
    pub true_size: usize,
}

/// Loads a program without asking for a log.
///
/// # Errors
/// As bpf(2): `EPERM` without the privilege; `EINVAL`, `EACCES` and others when the verifier refuses
/// it; `EAGAIN` when a signal came in between.
pub fn prog_load(spec: ProgramSpec<'_>) -> Result<OwnedFd> {
    prog_load_with(spec, ProgLoadAttr::default()).0
}

/// Loads a program with its functions and source lines, without asking for a log. Linux 5.0.
///
/// # Errors
/// As [`prog_load`], and when the kernel does not take the tables.
pub fn prog_load_described(spec: ProgramSpec<'_>, tables: DebugTables<'_>) -> Result<OwnedFd> {
    let attr = ProgLoadAttr {
        prog_btf_fd: tables.types.as_raw_fd() as u32,
        func_info_rec_size: FUNCTION_INFO_BYTES,
        func_info: tables.functions.as_ptr() as u64,
        func_info_cnt: tables.functions.len() as u32 / FUNCTION_INFO_BYTES,
        line_info_rec_size: LINE_INFO_BYTES,
        line_info: tables.lines.as_ptr() as u64,
        line_info_cnt: tables.lines.len() as u32 / LINE_INFO_BYTES,
        ..ProgLoadAttr::default()
    };
    prog_load_with(spec, attr).0
}

/// Loads a program and has the verifier write its log into a buffer of `log_bytes`.
///
/// The log is filled whether or not the program is accepted. `ENOSPC` means that it did not fit.
pub fn prog_load_logged(
    spec: ProgramSpec<'_>,
    level: LogLevel,
    log_bytes: u32,
) -> (Result<OwnedFd>, LogBuffer) {
    let mut bytes = vec![0; log_bytes as usize];
    let attr = ProgLoadAttr {
        log_level: level as u32,
        log_size: log_bytes,
        log_buf: bytes.as_mut_ptr() as u64,
        ..ProgLoadAttr::default()
    };
    let (result, attr) = prog_load_with(spec, attr);
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    (result, LogBuffer { bytes, true_size: attr.log_true_size as usize })
}

/// A program of any type, by numbers as a file has them.
#[derive(Clone, Copy, Debug)]
pub struct AnyProgramSpec<'a> {
    /// Of `enum bpf_prog_type`.
    pub type_number: u32,
    /// Of `enum bpf_attach_type`, 0 where the type needs none.
    pub attach_type: u32,
    /// `BPF_F_...` for programs.
    pub flags: u32,
    /// The encoded instructions, in native byte order.
    pub code: &'a [u8],
    /// Which helpers the verifier allows depends on it.
    pub license: &'a CStr,
    /// Shown by bpftool, cut to 15 bytes.
    pub name: &'a str,
}

/// Loads a program of any type; with a log as [`prog_load_logged`], or without.
pub fn prog_load_any(
    spec: AnyProgramSpec<'_>,
    log: Option<(LogLevel, u32)>,
) -> (Result<OwnedFd>, LogBuffer) {
    let mut bytes = vec![0; log.map_or(0, |(_, bytes)| bytes as usize)];
    let mut attr = ProgLoadAttr {
        prog_type: spec.type_number,
        expected_attach_type: spec.attach_type,
        prog_flags: spec.flags,
        ..ProgLoadAttr::default()
    };
    if let Some((level, log_bytes)) = log {
        attr.log_level = level as u32;
        attr.log_size = log_bytes;
        attr.log_buf = bytes.as_mut_ptr() as u64;
    }
    let (result, attr) = prog_load_code(spec.code, spec.license, spec.name, attr);
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    (result, LogBuffer { bytes, true_size: attr.log_true_size as usize })
}

/// The caller fills in the log and the tables; their buffers must outlive the call.
fn prog_load_with(
    spec: ProgramSpec<'_>,
    mut attr: ProgLoadAttr,
) -> (Result<OwnedFd>, ProgLoadAttr) {
    (attr.prog_type, attr.expected_attach_type, attr.attach_btf_id) = spec.program_type.numbers();
    prog_load_code(spec.code, spec.license, spec.name, attr)
}

/// The caller fills in the type, too.
fn prog_load_code(
    code: &[u8],
    license: &CStr,
    name: &str,
    mut attr: ProgLoadAttr,
) -> (Result<OwnedFd>, ProgLoadAttr) {
    attr.insn_cnt = (code.len() / 8) as u32;
    attr.insns = code.as_ptr() as u64;
    attr.license = license.as_ptr() as u64;
    attr.prog_name = object_name(name);
    // SAFETY: the attribute is the one that BPF_PROG_LOAD reads; code and license are borrowed for
    // the call, and so are the log's buffer and the tables by the caller, each as long as its size
    // says (0 without them).
    let fd = unsafe { bpf(BPF_PROG_LOAD, &mut attr) };
    (fd.and_then(own), attr)
}

#[repr(C)]
#[derive(Default)]
struct TestRunAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}

/// Runs a loaded program once on a packet, without attaching it, and returns its r0.
///
/// # Errors
/// `ENOTSUPP` (524) for a type of program that cannot be run so; `EINVAL` for fewer than 14 bytes.
pub fn prog_test_run(program: BorrowedFd<'_>, packet: &[u8]) -> Result<u32> {
    let mut attr = TestRunAttr {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: packet.len() as u32,
        data_in: packet.as_ptr() as u64,
        repeat: 1,
        ..TestRunAttr::default()
    };
    // SAFETY: the kernel reads `packet.len()` bytes of the packet, and writes only into `attr`.
    unsafe { bpf(BPF_PROG_TEST_RUN, &mut attr) }?;
    Ok(attr.retval)
}

#[repr(C)]
struct RawTracepointOpenAttr {
    name: u64,
    prog_fd: u32,
    _padding: u32,
}

/// Attaches a program to the raw tracepoint of that name, without perf and without tracefs; closing
/// the descriptor detaches it. Linux 4.17. One of type [`ProgramType::TypedRawTracepoint`] was loaded for a
/// tracepoint already, and takes no name.
///
/// # Errors
/// `ENOENT` when there is no such tracepoint; `EINVAL` when the program's type does not fit, when it
/// reads more arguments than the tracepoint has, and when the kernel does not know the command.
pub fn raw_tracepoint_open(name: Option<&CStr>, program: BorrowedFd<'_>) -> Result<OwnedFd> {
    let mut attr = RawTracepointOpenAttr {
        name: name.map_or(0, |name| name.as_ptr() as u64),
        prog_fd: program.as_raw_fd() as u32,
        _padding: 0,
    };
    // SAFETY: the kernel reads the name, if there is one, up to its ending zero, and it is borrowed for
    // the call.
    own(unsafe { bpf(BPF_RAW_TRACEPOINT_OPEN, &mut attr) }?)
}

/// The part of `struct bpf_prog_info` that is asked for, from its beginning to `attach_btf_obj_id`.
#[repr(C)]
#[derive(Default)]
struct ProgInfoAnswer {
    prog_type: u32,
    id: u32,
    tag: [u8; 8],
    jited_prog_len: u32,
    xlated_prog_len: u32,
    jited_prog_insns: u64,
    xlated_prog_insns: u64,
    // Other tables, left null: none is asked for.
    unused: [u64; 19],
    run_time_ns: u64,
    run_cnt: u64,
    recursion_misses: u64,
    verified_insns: u32,
    _attach_btf_obj_id: u32,
}

/// What the kernel tells about a loaded program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgInfo {
    /// The id under which bpftool lists it.
    pub id: u32,
    /// Bytes of native code, 0 when it is interpreted.
    pub jited_bytes: u32,
    /// Bytes of instructions, 8 each, as the verifier left them: it puts some helpers' code in their place.
    pub xlated_bytes: u32,
    /// How many instructions the verifier walked through, on all paths together. `None` before Linux 5.16.
    pub verified_insns: Option<u32>,
    /// How often it ran while somebody held what [`enable_stats`] gives, since it was loaded.
    pub runs: u64,
    /// How long those runs took together, in ns.
    pub run_ns: u64,
    /// How often it did not run because another program was running on that CPU. `None` before
    /// Linux 5.12, which has no such counter.
    pub recursion_misses: Option<u64>,
}

#[repr(C)]
struct InfoAttr {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// Asks the kernel about a loaded program.
///
/// # Errors
/// As bpf(2) with `BPF_OBJ_GET_INFO_BY_FD`.
pub fn prog_info(program: BorrowedFd<'_>) -> Result<ProgInfo> {
    let mut answer = ProgInfoAnswer::default();
    let mut attr = InfoAttr {
        bpf_fd: program.as_raw_fd() as u32,
        info_len: size_of::<ProgInfoAnswer>() as u32,
        info: (&raw mut answer) as u64,
    };
    // SAFETY: the kernel writes at most info_len bytes into `answer`, which consists of integers.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr) }?;
    // The kernel says how much of it it knows.
    let has = |offset: usize| attr.info_len as usize > offset;
    Ok(ProgInfo {
        id: answer.id,
        jited_bytes: answer.jited_prog_len,
        xlated_bytes: answer.xlated_prog_len,
        verified_insns: has(offset_of!(ProgInfoAnswer, verified_insns))
            .then_some(answer.verified_insns),
        runs: answer.run_cnt,
        run_ns: answer.run_time_ns,
        recursion_misses: has(offset_of!(ProgInfoAnswer, recursion_misses))
            .then_some(answer.recursion_misses),
    })
}

#[repr(C)]
struct EnableStatsAttr {
    stats_type: u32,
}

/// Has the kernel count runs and their time of all BPF programs on the host, until the descriptor is
/// closed. It reads its clock twice more in each run for that. Linux 5.8.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, `EINVAL` when the kernel does not know the command.
pub fn enable_stats() -> Result<OwnedFd> {
    const BPF_STATS_RUN_TIME: u32 = 0;
    let mut attr = EnableStatsAttr { stats_type: BPF_STATS_RUN_TIME };
    // SAFETY: the attribute is the one that BPF_ENABLE_STATS reads, and it holds no pointer.
    own(unsafe { bpf(BPF_ENABLE_STATS, &mut attr) }?)
}

/// bpf(2).
///
/// # Safety
/// `A` must be laid out as the part of `union bpf_attr` that the command reads, and every pointer
/// in it must be valid for as many bytes as the command reads or writes there.
unsafe fn bpf<A>(command: i32, attr: &mut A) -> Result<i32> {
    let pointer: *mut A = attr;
    // SAFETY: by this function's own contract; the size passed is the attribute's.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<A>()) };
    Errno::result(result).map(|value| value as i32)
}

/// The first 64 bytes of `struct perf_event_attr`, a size that every kernel takes
/// (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    event_type: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_TYPE_TRACEPOINT: u32 = 2;
/// A software event that never happens. Linux 3.12.
const PERF_COUNT_SW_DUMMY: u64 = 9;
const PERF_FLAG_FD_CLOEXEC: u64 = 8;
/// `attr.disabled`, the lowest of the flags.
const PERF_ATTR_DISABLED: u64 = 1;

/// Opens a perf event on a tracepoint, to attach a program to it.
///
/// The event itself is never enabled, so that perf keeps no records: the program runs all the same,
/// on every CPU, because it belongs to the tracepoint (`perf_syscall_enter` in
/// `kernel/trace/trace_syscalls.c` looks for programs before it looks for enabled events).
///
/// # Errors
/// As perf_event_open(2): `EACCES` or `EPERM` without the privilege, `ENODEV` when the CPU is
/// offline, `EINVAL` or `ENOENT` when there is no tracepoint with that id.
pub fn perf_event_open_tracepoint(id: u64, cpu: u32) -> Result<OwnedFd> {
    perf_event_open(PERF_TYPE_TRACEPOINT, id, cpu)
}

/// Opens a perf event that never happens, for all processes as those on tracepoints are: the
/// privilege is the same, but nothing in the kernel begins to work for it.
///
/// # Errors
/// As [`perf_event_open_tracepoint`], but for those about the tracepoint.
pub fn perf_event_open_dummy(cpu: u32) -> Result<OwnedFd> {
    perf_event_open(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, cpu)
}

fn perf_event_open(event_type: u32, config: u64, cpu: u32) -> Result<OwnedFd> {
    let attr = PerfEventAttr {
        event_type,
        size: size_of::<PerfEventAttr>() as u32,
        config,
        flags: PERF_ATTR_DISABLED,
        ..PerfEventAttr::default()
    };
    let (any_process, no_group) = (-1_i32, -1_i32);
    // SAFETY: the kernel reads `size` bytes of the attribute, which holds no pointer.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            any_process,
            cpu as i32,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    own(Errno::result(fd)? as i32)
}

/// Attaches a program to the tracepoint of a perf event; closing the event detaches it.
///
/// # Errors
/// `EEXIST` when this event has a program, `EINVAL` when the program's type does not fit, `EACCES`
/// when it reads more of its context than the tracepoint has, `E2BIG` when the tracepoint has 64
/// programs already.
pub fn perf_event_set_bpf(event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> Result<()> {
    const PERF_EVENT_IOC_SET_BPF: libc::Ioctl = libc::_IOW::<u32>(b'$' as u32, 8);
    // SAFETY: this request takes a descriptor by value and touches no memory of ours.
    let result =
        unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_SET_BPF, program.as_raw_fd()) };
    Errno::result(result).map(drop)
}

/// pidfd_open(2), Linux 5.3: a descriptor that becomes readable when the whole process has ended.
///
/// # Errors
/// `ESRCH` when there is no such process, `EINVAL` when it is a thread but no process, `ENOSYS`.
pub fn pidfd_open(pid: u32) -> Result<OwnedFd> {
    // SAFETY: the call takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    own(Errno::result(fd)? as i32)
}

/// Gives up the capabilities that this process would pass on by execve(2) as they are, `ambient` in
/// capabilities(7), Linux 4.3.
///
/// # Errors
/// None that a kernel of today has.
pub fn clear_ambient_capabilities() -> Result<()> {
    // SAFETY: the call takes integers.
    let result =
        unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    Errno::result(result).map(drop)
}

/// Mounts a filesystem that needs no device and no option, read-only and attached to no folder: only
/// the holder of the descriptor sees it. Linux 5.2.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, `ENODEV` when the kernel has no such filesystem, `ENOSYS`.
pub fn mount_detached(filesystem: &CStr) -> Result<OwnedFd> {
    const FSOPEN_CLOEXEC: u32 = 1;
    const FSCONFIG_CMD_CREATE: u32 = 6;
    const FSMOUNT_CLOEXEC: u32 = 1;
    /// `RDONLY`, `NOSUID`, `NODEV` and `NOEXEC`.
    const MOUNT_ATTRS: u32 = 1 | 2 | 4 | 8;
    // SAFETY: the name ends with a zero; the other argument is an integer.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, filesystem.as_ptr(), FSOPEN_CLOEXEC) };
    let context = own(Errno::result(context)? as i32)?;
    let null = std::ptr::null::<u8>();
    // SAFETY: this command takes neither key nor value, so both may be null.
    let created = unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, null, null, 0)
    };
    Errno::result(created)?;
    // SAFETY: the call takes three integers.
    let mount = unsafe {
        libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, MOUNT_ATTRS)
    };
    own(Errno::result(mount)? as i32)
}

/// Waits until every program that was running when this was called has ended (membarrier(2) with
/// `MEMBARRIER_CMD_GLOBAL`, Linux 4.3: it waits for an RCU grace period, and programs run inside of
/// RCU read-side sections).
///
/// # Errors
/// `EINVAL` on kernels booted with `nohz_full`, `ENOSYS` on those built without it.
pub fn wait_for_running_programs() -> Result<()> {
    const MEMBARRIER_CMD_GLOBAL: i32 = 1;
    // SAFETY: the call takes integers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    Errno::result(result).map(drop)
}

/// Takes ownership of a new descriptor, and never of 0 to 2: in some fields of bpf(2) descriptor 0
/// means "none", and whoever closed standard output does not expect a map to be there.
fn own(fd: i32) -> Result<OwnedFd> {
    // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    let above = nix::fcntl::fcntl(&fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(3))?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(above) })
}

/// A name as the kernel takes it: letters, digits, `_` and `.`, at most 15, and zeros.
fn object_name(name: &str) -> [u8; NAME_BYTES] {
    let mut field = [0; NAME_BYTES];
    for (place, byte) in field[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
        let allowed = byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
        *place = if allowed { byte } else { b'_' };
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_laid_out_as_in_the_kernels_header() {
        assert_eq!(offset_of!(MapCreateAttr, map_name), 28);
        assert_eq!(offset_of!(ProgLoadAttr, prog_name), 48);
        assert_eq!(offset_of!(ProgLoadAttr, prog_btf_fd), 72);
        assert_eq!(offset_of!(ProgLoadAttr, func_info), 80);
        assert_eq!(offset_of!(ProgLoadAttr, line_info), 96);
        assert_eq!(offset_of!(ProgLoadAttr, line_info_cnt), 104);
        assert_eq!(offset_of!(ProgLoadAttr, log_true_size), 140);
        assert_eq!(offset_of!(BtfLoadAttr, log_level), 24);
        assert_eq!(offset_of!(ProgInfoAnswer, xlated_prog_insns), 32);
        assert_eq!(offset_of!(ProgInfoAnswer, run_time_ns), 192);
        assert_eq!(offset_of!(ProgInfoAnswer, recursion_misses), 208);
        assert_eq!(offset_of!(ProgInfoAnswer, verified_insns), 216);
        assert_eq!(size_of::<PerfEventAttr>(), 64);
    }

    #[test]
    fn names_are_cut_and_cleaned() {
        assert_eq!(&object_name("rlat_read_enter_and_more"), b"rlat_read_enter\0");
        assert_eq!(&object_name("a b\n"), b"a_b_\0\0\0\0\0\0\0\0\0\0\0\0");
    }
}
