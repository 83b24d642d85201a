//! Loaded programs: what the kernel counts of them, running one by hand, waiting until none runs.

use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::Result;
use nix::errno::Errno;

use super::{bpf, own};

const BPF_PROG_TEST_RUN: i32 = 10;
const BPF_OBJ_GET_INFO_BY_FD: i32 = 15;
const BPF_ENABLE_STATS: i32 = 32;

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

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::ProgInfoAnswer;

    #[test]
    fn the_answer_is_laid_out_as_in_the_kernels_header() {
        assert_eq!(offset_of!(ProgInfoAnswer, xlated_prog_insns), 32);
        assert_eq!(offset_of!(ProgInfoAnswer, run_time_ns), 192);
        assert_eq!(offset_of!(ProgInfoAnswer, recursion_misses), 208);
        assert_eq!(offset_of!(ProgInfoAnswer, verified_insns), 216);
    }
}
