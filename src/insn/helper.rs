//! The helpers: kernel functions that a program can call by number.

/// A helper that rlat's programs, or their tests, call.
///
/// The numbers are those of `enum bpf_func_id` in `include/uapi/linux/bpf.h`; bpf-helpers(7)
/// documents each. A helper is allowed or refused by program type, and the verifier checks every
/// argument's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// `void *bpf_map_lookup_elem(map, key)`: a pointer to the value, or null. Linux 3.19.
    MapLookupElem = 1,
    /// `long bpf_map_update_elem(map, key, value, flags)`: 0, or a negative errno. Linux 3.19.
    MapUpdateElem = 2,
    /// `long bpf_map_delete_elem(map, key)`: 0, or a negative errno. Linux 3.19.
    MapDeleteElem = 3,
    /// `u64 bpf_ktime_get_ns(void)`: nanoseconds of `CLOCK_MONOTONIC`. Linux 4.1, and only for
    /// programs with a license compatible with the GPL.
    KtimeGetNs = 5,
    /// `u32 bpf_get_smp_processor_id(void)`: the CPU that the program runs on. Linux 4.1.
    GetSmpProcessorId = 8,
    /// `u64 bpf_get_current_pid_tgid(void)`: the process (tgid) in the high half, the thread in the
    /// low half, both as the initial PID namespace counts them. Linux 4.2.
    GetCurrentPidTgid = 14,
    /// `long bpf_get_current_comm(buf, size)`: writes the thread's name, filled with zeros. Linux 4.2.
    GetCurrentComm = 16,
    /// `u64 bpf_get_current_task(void)`: the address of the current `struct task_struct`. Linux 4.8.
    GetCurrentTask = 35,
    /// `struct task_struct *bpf_get_current_task_btf(void)`: the current task, as a pointer that the program
    /// may follow. Linux 5.11.
    GetCurrentTaskBtf = 158,
    /// `long bpf_current_task_under_cgroup(map, index)`: 1 if the current task is in the control group
    /// in that array or below it, 0 if not, or a negative errno. Linux 4.9.
    CurrentTaskUnderCgroup = 37,
    /// `long bpf_probe_read_kernel(dst, size, address)`: 0 after a copy from kernel memory, or a
    /// negative errno. Not under `lockdown=confidentiality`. Linux 5.5.
    ProbeReadKernel = 113,
    /// `long bpf_get_ns_current_pid_tgid(dev, ino, nsdata, size)`: writes the thread and the
    /// process, two u32, as the PID namespace with that `dev` and `ino` counts them; `-EINVAL` when
    /// the current task's own namespace is another one. Linux 5.7.
    GetNsCurrentPidTgid = 120,
}

impl Helper {
    /// Every helper that has a name here.
    pub const ALL: [Self; 12] = [
        Self::MapLookupElem,
        Self::MapUpdateElem,
        Self::MapDeleteElem,
        Self::KtimeGetNs,
        Self::GetSmpProcessorId,
        Self::GetCurrentPidTgid,
        Self::GetCurrentComm,
        Self::GetCurrentTask,
        Self::GetCurrentTaskBtf,
        Self::CurrentTaskUnderCgroup,
        Self::ProbeReadKernel,
        Self::GetNsCurrentPidTgid,
    ];

    /// The number that the call instruction carries.
    pub const fn id(self) -> i32 {
        self as i32
    }

    /// The helper with that number, if it has a name here.
    pub fn from_id(id: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|helper| helper.id() == id)
    }

    /// The kernel's name, as the verifier's log writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MapLookupElem => "bpf_map_lookup_elem",
            Self::MapUpdateElem => "bpf_map_update_elem",
            Self::MapDeleteElem => "bpf_map_delete_elem",
            Self::KtimeGetNs => "bpf_ktime_get_ns",
            Self::GetSmpProcessorId => "bpf_get_smp_processor_id",
            Self::GetCurrentPidTgid => "bpf_get_current_pid_tgid",
            Self::GetCurrentComm => "bpf_get_current_comm",
            Self::GetCurrentTask => "bpf_get_current_task",
            Self::GetCurrentTaskBtf => "bpf_get_current_task_btf",
            Self::ProbeReadKernel => "bpf_probe_read_kernel",
            Self::CurrentTaskUnderCgroup => "bpf_current_task_under_cgroup",
            Self::GetNsCurrentPidTgid => "bpf_get_ns_current_pid_tgid",
        }
    }
}
