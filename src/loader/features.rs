//! What this kernel can do, found out by trying it.
//!
//! A version number tells little: distributions bring features to old kernels, and configurations
//! leave them out of new ones. So each probe does the thing itself, in the smallest form.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sys::utsname::uname;

use super::refusal;
use super::sys::{self, MMAPABLE, MapFd, MapSpec, MapType, ProgramSpec, ProgramType};
use crate::insn::{AluOp, Assembler, AtomicOp, Endianness, Helper, Reg, Size, encode};

/// The name of maps and programs that are only tried.
const PROBE: &str = "rlat_probe";

/// Something that a kernel may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Hash maps. Linux 3.19.
    HashMap,
    /// Array maps. Linux 3.19.
    ArrayMap,
    /// Array maps whose values can be mapped into memory. Linux 5.5.
    MmapableArray,
    /// Programs for tracepoints that are attached through perf. Linux 4.7, with `CONFIG_BPF_EVENTS`.
    TracepointProgram,
    /// Programs for raw tracepoints. Linux 4.17, with `CONFIG_BPF_EVENTS`.
    RawTracepointProgram,
    /// Programs for sockets. Linux 3.19.
    SocketFilter,
    /// The helper that tells process and thread as a given PID namespace counts them. Linux 5.7.
    NamespaceHelper,
    /// Atomic operations that give back the old value, and compare-and-exchange. Linux 5.12.
    FetchingAtomics,
    /// Programs on raw tracepoints that read the kernel's memory (`bpf_probe_read_kernel`). Linux 5.5, and
    /// not under `lockdown=confidentiality`.
    KernelReads,
    /// Attaching to the raw tracepoints that every system call passes, `sys_enter` and `sys_exit`.
    /// Linux 4.17.
    RawSyscallTracepoints,
}

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The kernel has it.
    Yes,
    /// The kernel lacks it.
    No,
    /// It could not be tried, for want of a privilege for example.
    CouldNotTell(Errno),
}

/// Tries a feature. Leaves nothing behind in the kernel.
pub fn probe(feature: Feature) -> Answer {
    match feature {
        Feature::HashMap => answer(&create(MapType::Hash, 0)),
        Feature::ArrayMap => answer(&create(MapType::Array, 0)),
        Feature::MmapableArray => answer(&create(MapType::Array, MMAPABLE)),
        Feature::TracepointProgram => answer(&load(ProgramType::Tracepoint, |_| {})),
        Feature::RawTracepointProgram => answer(&load(ProgramType::RawTracepoint, |_| {})),
        Feature::SocketFilter => answer(&load(ProgramType::SocketFilter, |_| {})),
        Feature::NamespaceHelper => answer(&load(ProgramType::Tracepoint, call_namespace_helper)),
        Feature::FetchingAtomics => answer(&load(ProgramType::SocketFilter, exchange_atomically)),
        Feature::KernelReads => answer(&load(ProgramType::RawTracepoint, read_kernel_memory)),
        Feature::RawSyscallTracepoints => probe_raw_syscall_tracepoints(),
    }
}

fn create(map_type: MapType, flags: u32) -> nix::Result<MapFd> {
    let (key_size, value_size, max_entries) = (4, 8, 1);
    let spec = MapSpec { map_type, key_size, value_size, max_entries, flags, name: PROBE };
    refusal::with_memlock(|| sys::map_create(spec))
}

/// Loads a program that does what `emit` writes, and returns 0.
fn load(program_type: ProgramType, emit: impl Fn(&mut Assembler)) -> nix::Result<OwnedFd> {
    let mut asm = Assembler::new(PROBE);
    emit(&mut asm);
    asm.mov(Reg::R0, 0);
    asm.exit();
    let program = asm.finish().map_err(|_| Errno::UnknownErrno)?;
    let code = encode(program.insns(), Endianness::NATIVE);
    let spec = ProgramSpec { program_type, code: &code, license: c"Dual MIT/GPL", name: PROBE };
    refusal::with_memlock(|| sys::prog_load(spec))
}

/// The verifier refuses the call with `EINVAL` when it knows no function of that number.
fn call_namespace_helper(asm: &mut Assembler) {
    asm.mov(Reg::R1, 0).comment("dev");
    asm.mov(Reg::R2, 0).comment("ino");
    asm.mov(Reg::R3, Reg::R10);
    asm.alu(AluOp::Add, Reg::R3, -8).comment("room for struct bpf_pidns_info");
    asm.mov(Reg::R4, 8).comment("its size");
    asm.call(Helper::GetNsCurrentPidTgid);
}

/// The verifier refuses the call with `EINVAL` when the function is not to be had.
fn read_kernel_memory(asm: &mut Assembler) {
    asm.call(Helper::GetCurrentTask);
    asm.mov(Reg::R3, Reg::R0);
    asm.mov(Reg::R1, Reg::R10);
    asm.alu(AluOp::Add, Reg::R1, -8).comment("room for what is read");
    asm.mov(Reg::R2, 8);
    asm.call(Helper::ProbeReadKernel);
}

/// A kernel that knows only the atomic addition refuses the others with `EINVAL`.
fn exchange_atomically(asm: &mut Assembler) {
    asm.store(Size::DW, Reg::R10, -8, 1);
    asm.mov(Reg::R1, 2);
    asm.atomic(AtomicOp::FetchAdd, Reg::R10, -8, Reg::R1);
    asm.mov(Reg::R0, 3);
    asm.atomic(AtomicOp::CmpXchg, Reg::R10, -8, Reg::R1);
}

/// Finds out by being refused, so that no system call ever runs the program: it reads a twelfth
/// argument, and `sys_enter` has two. The kernel notices that when it attaches the program, after it
/// has found the tracepoint (`bpf_probe_register` in `kernel/trace/bpf_trace.c`).
fn probe_raw_syscall_tracepoints() -> Answer {
    const TWELFTH_ARGUMENT: i16 = 11 * 8;
    let program = load(ProgramType::RawTracepoint, |asm| {
        asm.load(Size::DW, Reg::R0, Reg::R1, TWELFTH_ARGUMENT);
    });
    let program = match program {
        Ok(program) => program,
        refused => return answer(&refused),
    };
    // EINVAL also answers a command that the kernel does not know; but then for any name.
    match sys::raw_tracepoint_open(Some(c"rlat_no_such_tracepoint"), program.as_fd()) {
        Err(Errno::ENOENT) => {}
        other => return answer(&other),
    }
    match sys::raw_tracepoint_open(Some(c"sys_enter"), program.as_fd()) {
        Err(Errno::EINVAL) => Answer::Yes,
        Err(Errno::ENOENT) => Answer::No,
        other => answer(&other),
    }
}

/// Whether a program that is loaded for the type of the raw tracepoint `sys_enter` can follow pointers to
/// what is at these offsets, in bytes: 8 bytes of the registers that it is given, and 4 at each of these
/// of the current task.
pub fn follows_pointers(type_number: u32, in_registers: i16, in_task: &[i16]) -> bool {
    load(ProgramType::TypedRawTracepoint(type_number), |asm| {
        asm.load(Size::DW, Reg::R3, Reg::R1, 0).comment("struct pt_regs *");
        asm.load(Size::DW, Reg::R3, Reg::R3, in_registers);
        asm.call(Helper::GetCurrentTaskBtf);
        for offset in in_task {
            asm.load(Size::W, Reg::R1, Reg::R0, *offset);
        }
    })
    .is_ok()
}

fn answer<T>(result: &nix::Result<T>) -> Answer {
    match result {
        Ok(_) => Answer::Yes,
        Err(Errno::EINVAL) => Answer::No,
        Err(errno) => Answer::CouldNotTell(*errno),
    }
}

/// Whether the kernel counts how often it skipped a program that is attached through perf, so that a
/// count of 0 means something.
///
/// The counter is there since Linux 5.12, but `trace_call_bpf` in `kernel/trace/bpf_trace.c` adds to
/// it since 6.7 only, and to provoke a skipped run just to see would disturb the host. So this one is
/// by version.
pub fn counts_missed_runs() -> bool {
    kernel_version().is_some_and(|version| version >= (6, 7))
}

/// Whether programs may use atomic operations that give back the old value. Without the privilege to
/// try, which means without that to measure, the version tells.
pub fn has_fetching_atomics() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| match probe(Feature::FetchingAtomics) {
        Answer::Yes => true,
        Answer::No => false,
        Answer::CouldNotTell(_) => kernel_version().is_some_and(|version| version >= (5, 12)),
    })
}

/// Whether a hash may take memory when a tracing program inserts an entry.
///
/// Older kernels take such a map as well, but warn in their log that it is unsafe: the memory would come
/// from an allocator that the program may have interrupted (`check_map_prog_compatibility` in
/// `kernel/bpf/verifier.c`, until Linux 6.1 brought `kernel/bpf/memalloc.c`). So this is by version.
pub fn allocates_on_demand() -> bool {
    kernel_version().is_some_and(|version| version >= (6, 1))
}

/// The first two numbers of the kernel's release, for the few things that cannot be tried out.
pub fn kernel_version() -> Option<(u32, u32)> {
    version(&uname().ok()?.release().to_string_lossy())
}

/// The two numbers that a release such as `5.10.0-32-amd64` begins with.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each feature, and the kernel that brought it.
    const SINCE: [(Feature, (u32, u32)); 10] = [
        (Feature::HashMap, (3, 19)),
        (Feature::ArrayMap, (3, 19)),
        (Feature::MmapableArray, (5, 5)),
        (Feature::TracepointProgram, (4, 7)),
        (Feature::RawTracepointProgram, (4, 17)),
        (Feature::SocketFilter, (3, 19)),
        (Feature::NamespaceHelper, (5, 7)),
        (Feature::FetchingAtomics, (5, 12)),
        (Feature::KernelReads, (5, 5)),
        (Feature::RawSyscallTracepoints, (4, 17)),
    ];

    #[test]
    fn a_kernel_that_is_new_enough_has_each_feature() {
        let kernel = kernel_version().unwrap();
        for (feature, since) in SINCE {
            match probe(feature) {
                Answer::Yes => {}
                Answer::No => assert!(kernel < since, "{feature:?}, on {kernel:?}"),
                Answer::CouldNotTell(errno) => {
                    assert!(std::env::var_os("RLAT_REQUIRE_BPF").is_none(), "{feature:?}: {errno}");
                    eprintln!("skipped: {feature:?}: {errno}");
                }
            }
        }
    }

    #[test]
    fn releases_are_read_by_their_first_two_numbers() {
        assert_eq!(version("5.10.0-32-amd64"), Some((5, 10)));
        assert_eq!(version("7.3-rc1"), Some((7, 3)));
        assert_eq!(version("unknown"), None);
    }
}
