//! What this kernel can do, found out by trying it.
//!
//! A version number tells little: distributions bring features to old kernels, and configurations
//! leave them out of new ones. So each probe does the thing itself, in the smallest form.

use nix::errno::Errno;
use nix::sys::utsname::uname;

use super::refusal;
use super::sys::{self, MMAPABLE, MapSpec, MapType, ProgramSpec, ProgramType};
use crate::insn::{AluOp, Assembler, Endianness, Helper, Reg, encode};

/// Something that a kernel may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Array maps whose values can be mapped into memory. Linux 5.5.
    MmapableArray,
    /// The helper that tells process and thread as a given PID namespace counts them. Linux 5.7.
    NamespaceHelper,
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
        Feature::MmapableArray => answer(&refusal::with_memlock(|| {
            sys::map_create(MapSpec {
                map_type: MapType::Array,
                key_size: 4,
                value_size: 8,
                max_entries: 1,
                flags: MMAPABLE,
                name: "rlat_probe",
            })
        })),
        Feature::NamespaceHelper => probe_namespace_helper(),
    }
}

/// A program that calls the helper, which the verifier refuses with `EINVAL` when it knows no
/// function of that number.
fn probe_namespace_helper() -> Answer {
    let mut asm = Assembler::new("rlat_probe");
    asm.mov(Reg::R1, 0).comment("dev");
    asm.mov(Reg::R2, 0).comment("ino");
    asm.mov(Reg::R3, Reg::R10);
    asm.alu(AluOp::Add, Reg::R3, -8).comment("room for struct bpf_pidns_info");
    asm.mov(Reg::R4, 8).comment("its size");
    asm.call(Helper::GetNsCurrentPidTgid);
    asm.mov(Reg::R0, 0);
    asm.exit();
    let Ok(program) = asm.finish() else { return Answer::CouldNotTell(Errno::UnknownErrno) };
    let code = encode(program.insns(), Endianness::NATIVE);
    answer(&refusal::with_memlock(|| {
        sys::prog_load(ProgramSpec {
            program_type: ProgramType::Tracepoint,
            code: &code,
            license: c"Dual MIT/GPL",
            name: "rlat_probe",
        })
    }))
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

/// The first two numbers of the kernel's release, for the few things that cannot be tried out.
pub(super) fn kernel_version() -> Option<(u32, u32)> {
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

    #[test]
    fn releases_are_read_by_their_first_two_numbers() {
        assert_eq!(version("5.10.0-32-amd64"), Some((5, 10)));
        assert_eq!(version("7.3-rc1"), Some((7, 3)));
        assert_eq!(version("unknown"), None);
    }
}
