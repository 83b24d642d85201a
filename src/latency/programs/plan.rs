//! What the programs of a measurement are made for.

use super::super::extremes::Extremes;
use super::super::scope::Scope;
use super::super::starts::Room;
use crate::histogram::{Linear, Unit};
use crate::loader::{TracepointType, follows_pointers, kernel_version};

/// What the programs of a measurement are made for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whose calls.
    pub scope: Scope,
    /// Which calls; not empty.
    pub calls: Vec<PlannedCall>,
    /// Only calls on one of these descriptors; none means any. Raw programs see them only where they may
    /// read the kernel's memory.
    pub descriptors: Vec<u32>,
    /// Which calls are put into the histogram.
    pub returns: Returns,
    /// What the buckets count.
    pub unit: Unit,
    /// Linear buckets beside the logarithmic ones.
    pub linear: Option<Linear>,
    /// The size of the store of starts.
    pub room: Room,
    /// How the smallest and the largest latency are kept.
    pub extremes: Extremes,
    /// Where the programs are attached.
    pub way: Way,
}

/// One of the measured calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// Its name, such as `read`.
    pub name: String,
    /// Its number on this architecture; needed on the raw tracepoints only.
    pub number: Option<u32>,
    /// Offset of the first argument in the context of its own tracepoint at entry, in bytes; `None` for
    /// a call without arguments.
    pub argument_offset: Option<i16>,
    /// Offset of the result in the context of its own tracepoint at exit, in bytes.
    pub result_offset: i16,
}

/// Where the programs are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To two tracepoints of each call, through perf: other calls pay nearly nothing.
    Tracepoint,
    /// To the raw tracepoints that every call passes: needs no tracefs and no perf, costs a measured
    /// call less and others more.
    Raw {
        /// Where to find what the context does not hold; `None` where the kernel does not let a program
        /// read its memory (`lockdown=confidentiality`), or is of an architecture that is not known here.
        reads: Option<KernelReads>,
        /// The entry as a program that may follow pointers, which costs less than to have memory read by
        /// a helper; `None` where the kernel has no BTF.
        typed: Option<TypedEntry>,
    },
}

/// The entry's program on the raw tracepoint, when it is loaded for the type of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedEntry {
    /// What the kernel's BTF says.
    pub tracepoint: TracepointType,
    /// Where to find what the context does not hold.
    pub reads: KernelReads,
}

impl Way {
    /// How a program at every entry comes to what the context does not hold, and where that is.
    pub(super) fn entry_reads(self) -> Option<(KernelReads, Access)> {
        match self {
            Self::Raw { typed: Some(typed), .. } => Some((typed.reads, Access::Pointers)),
            Self::Raw { reads: Some(reads), .. } => Some((reads, Access::Helper)),
            Self::Raw { .. } | Self::Tracepoint => None,
        }
    }

    /// The same at every exit.
    pub(super) fn exit_reads(self) -> Option<(KernelReads, Access)> {
        match self {
            Self::Raw { reads: Some(reads), .. } => Some((reads, Access::Helper)),
            Self::Raw { .. } | Self::Tracepoint => None,
        }
    }
}

/// How a program reads the kernel's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// By loads through pointers that the verifier knows the types of.
    Pointers,
    /// By `bpf_probe_read_kernel`.
    Helper,
}

/// Where the kernel keeps what the raw tracepoints do not hand over. They give the address of `struct
/// pt_regs`, the registers of the thread when it entered the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelReads {
    /// Offset of the call's number in `struct pt_regs`, in bytes.
    pub number: i16,
    /// Whether the number has 8 bytes there, else 4.
    pub number_is_wide: bool,
    /// Offset of the call's first argument in `struct pt_regs`, in bytes.
    pub argument: i16,
    /// Offset of a 32-bit word in `struct task_struct`, in bytes, which tells calls with the numbers of
    /// 32-bit programs.
    pub compat: i16,
    /// The bit of that word.
    pub compat_bit: u32,
}

impl TypedEntry {
    /// As the running kernel takes it; `None` where it does not.
    pub fn of_this_kernel() -> Option<Self> {
        let reads = KernelReads::of_this_kernel()?;
        let tracepoint = TracepointType::of_this_kernel("sys_enter")?;
        let TracepointType { number, tid, tgid } = tracepoint;
        follows_pointers(number, reads.argument, &[reads.compat, tid, tgid])
            .then_some(Self { tracepoint, reads })
    }
}

impl KernelReads {
    /// As the running kernel has it; `None` on an architecture that is not known here.
    ///
    /// `struct thread_info` begins `struct task_struct` (`CONFIG_THREAD_INFO_IN_TASK`). Sources, each under
    /// `arch/x86` and `arch/arm64`: `include/asm/ptrace.h`, `include/asm/thread_info.h`; on x86 a word came
    /// in before `status` with Linux 5.11.
    pub fn of_this_kernel() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            let status = if kernel_version()? >= (5, 11) { 16 } else { 8 };
            return Some(Self {
                number: 120,
                number_is_wide: true,
                argument: 112,
                compat: status,
                compat_bit: 1 << 1, // TS_COMPAT
            });
        }
        cfg!(target_arch = "aarch64").then_some(Self {
            number: 280,
            number_is_wide: false,
            argument: 272,
            compat: 0,
            compat_bit: 1 << 22, // TIF_32BIT
        })
    }
}

/// Calls by what they returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Returns {
    /// All calls.
    #[default]
    Any,
    /// Those that returned no error: 0 or more.
    Ok,
    /// Those that returned an error, or were interrupted by a signal.
    Error,
    /// Those that returned 0, which is the end of the file for a read().
    Zero,
}

impl Returns {
    /// Whether a call that a signal interrupted is put into the histogram.
    pub const fn include_interrupted(self) -> bool {
        matches!(self, Self::Any | Self::Error)
    }
}
