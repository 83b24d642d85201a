//! Loading programs: the verifier's verdict, its log, and a descriptor.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::Result;

use super::btf::DebugTables;
use super::{NAME_BYTES, bpf, object_name, own};

const BPF_PROG_LOAD: i32 = 5;

/// Bytes of a `struct bpf_func_info`.
const FUNCTION_INFO_BYTES: u32 = 8;
/// Bytes of a `struct bpf_line_info`.
const LINE_INFO_BYTES: u32 = 16;

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
    /// type in the kernel's BTF, see [`TracepointType`](crate::loader::TracepointType). Linux 5.5.
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
    let mut attr = ProgLoadAttr::default();
    attr.describe(tables);
    prog_load_with(spec, attr).0
}

impl ProgLoadAttr {
    /// Puts in where the tables are, which the caller keeps for the call.
    fn describe(&mut self, tables: DebugTables<'_>) {
        self.prog_btf_fd = tables.types.as_raw_fd() as u32;
        self.func_info_rec_size = FUNCTION_INFO_BYTES;
        self.func_info = tables.functions.as_ptr() as u64;
        self.func_info_cnt = tables.functions.len() as u32 / FUNCTION_INFO_BYTES;
        self.line_info_rec_size = LINE_INFO_BYTES;
        self.line_info = tables.lines.as_ptr() as u64;
        self.line_info_cnt = tables.lines.len() as u32 / LINE_INFO_BYTES;
    }
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
    /// The number of a type in the kernel's BTF that it is checked against, 0 for most types.
    pub target: u32,
    /// Its functions, where the kernel is to know them.
    pub tables: Option<DebugTables<'a>>,
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
        attach_btf_id: spec.target,
        ..ProgLoadAttr::default()
    };
    if let Some(tables) = spec.tables {
        attr.describe(tables);
    }
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

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::ProgLoadAttr;

    #[test]
    fn the_attribute_is_laid_out_as_in_the_kernels_header() {
        assert_eq!(offset_of!(ProgLoadAttr, prog_name), 48);
        assert_eq!(offset_of!(ProgLoadAttr, prog_btf_fd), 72);
        assert_eq!(offset_of!(ProgLoadAttr, func_info), 80);
        assert_eq!(offset_of!(ProgLoadAttr, line_info), 96);
        assert_eq!(offset_of!(ProgLoadAttr, line_info_cnt), 104);
        assert_eq!(offset_of!(ProgLoadAttr, log_true_size), 140);
    }
}
