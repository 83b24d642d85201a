//! The types of programs, and the names of sections that tell them.
//!
//! An object file has a section for each program, and libbpf takes the type from its name: a program in
//! `tracepoint/syscalls/sys_enter_read` is for a tracepoint. Here are those that the verifier takes without
//! being told what they will be attached to, and typed raw tracepoints (`tp_btf/NAME`), which are checked
//! against a type that the kernel's BTF has for the name. Other tracing programs (`fentry`, `fexit`, `lsm`,
//! `iter`, `freplace`, `struct_ops`) are checked against a certain function or structure.
//!
//! Source: `section_defs` in libbpf's `src/libbpf.c`, and `enum bpf_prog_type` and `enum bpf_attach_type`
//! in `include/uapi/linux/bpf.h`.

/// A type of programs, as bpf(2) takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramKind {
    /// The kernel's name without its beginning, in small letters, such as `socket_filter`.
    pub name: &'static str,
    /// Its number (`enum bpf_prog_type`).
    pub number: u32,
    /// To what kind of place it will be attached (`enum bpf_attach_type`), where its rules depend on that.
    pub attach_type: u32,
    /// `BPF_F_...` for programs.
    pub flags: u32,
    /// The number of the type in the kernel's BTF that it is checked against, 0 for most types.
    pub target: u32,
}

/// `BPF_F_SLEEPABLE`
const SLEEPABLE: u32 = 1 << 4;
/// `BPF_F_XDP_HAS_FRAGS`
const FRAGMENTS: u32 = 1 << 5;

const fn kind(name: &'static str, number: u32, attach_type: u32) -> ProgramKind {
    ProgramKind { name, number, attach_type, flags: 0, target: 0 }
}

/// All types that are known here, by number; where the place matters, with the commonest one.
pub const KINDS: [ProgramKind; 28] = [
    kind("socket_filter", 1, 0),
    kind("kprobe", 2, 0),
    kind("sched_cls", 3, 0),
    kind("sched_act", 4, 0),
    kind("tracepoint", 5, 0),
    kind("xdp", 6, 37),
    kind("perf_event", 7, 0),
    kind("cgroup_skb", 8, 0),
    kind("cgroup_sock", 9, 2),
    kind("lwt_in", 10, 0),
    kind("lwt_out", 11, 0),
    kind("lwt_xmit", 12, 0),
    kind("sock_ops", 13, 3),
    kind("sk_skb", 14, 0),
    kind("cgroup_device", 15, 6),
    kind("sk_msg", 16, 7),
    kind("raw_tracepoint", 17, 0),
    kind("cgroup_sock_addr", 18, 10),
    kind("lwt_seg6local", 19, 0),
    kind("lirc_mode2", 20, 16),
    kind("sk_reuseport", 21, 39),
    kind("flow_dissector", 22, 17),
    kind("cgroup_sysctl", 23, 18),
    kind("raw_tracepoint_writable", 24, 0),
    kind("cgroup_sockopt", 25, 21),
    kind("sk_lookup", 30, 36),
    ProgramKind { name: "syscall", number: 31, attach_type: 0, flags: SLEEPABLE, target: 0 },
    kind("netfilter", 32, 45),
];

/// What the name of a section says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recognised {
    /// The type of its programs.
    Kind(ProgramKind),
    /// They are for the raw tracepoint whose name follows behind the `/`, and are checked against its type:
    /// see [`ProgramKind::typed_raw_tracepoint`].
    TypedRawTracepoint,
    /// They are of a type that is checked against a function or structure of the kernel.
    NeedsTarget,
    /// Nothing.
    Unknown,
}

impl ProgramKind {
    /// The type with that name.
    ///
    /// ```
    /// use rlat::loader::ProgramKind;
    ///
    /// assert_eq!(ProgramKind::named("xdp").map(|kind| kind.number), Some(6));
    /// assert_eq!(ProgramKind::named("tracing"), None);
    /// ```
    pub fn named(name: &str) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.name == name)
    }

    /// `BPF_PROG_TYPE_TRACING` for `BPF_TRACE_RAW_TP`, checked against what
    /// [`TracepointType`](super::TracepointType) finds. Linux 5.5.
    pub const fn typed_raw_tracepoint(type_number: u32) -> Self {
        Self { name: "tracing", number: 26, attach_type: 23, flags: 0, target: type_number }
    }

    /// What the name of a section tells, as libbpf reads it.
    ///
    /// ```
    /// use rlat::loader::{ProgramKind, Recognised};
    ///
    /// let kind = ProgramKind::of_section("tp/syscalls/sys_enter_read");
    /// assert_eq!(kind, Recognised::Kind(ProgramKind::named("tracepoint").unwrap()));
    /// assert_eq!(ProgramKind::of_section("fentry/do_unlinkat"), Recognised::NeedsTarget);
    /// assert_eq!(ProgramKind::of_section("tp_btf/sys_enter"), Recognised::TypedRawTracepoint);
    /// assert_eq!(ProgramKind::of_section(".text"), Recognised::Unknown);
    /// ```
    pub fn of_section(section: &str) -> Recognised {
        // libbpf does not load by itself what begins so.
        let section = section.strip_prefix('?').unwrap_or(section);
        let fits = |name: &str| {
            section.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if section.starts_with("tp_btf/") {
            return Recognised::TypedRawTracepoint;
        }
        // The longest name that fits: `xdp/devmap` is more than `xdp`.
        let known = SECTIONS.iter().filter(|(name, ..)| fits(name));
        let Some((_, kind, attach_type, flags)) = known.max_by_key(|(name, ..)| name.len()) else {
            let target = TARGETS.iter().any(|name| fits(name));
            return if target { Recognised::NeedsTarget } else { Recognised::Unknown };
        };
        Self::named(kind).map_or(Recognised::Unknown, |kind| {
            Recognised::Kind(Self {
                attach_type: attach_type.unwrap_or(kind.attach_type),
                flags: kind.flags | flags,
                ..kind
            })
        })
    }
}

/// What sections of the other programs begin with.
const TARGETS: [&str; 14] = [
    "tp_btf",
    "fentry",
    "fentry.s",
    "fexit",
    "fexit.s",
    "fmod_ret",
    "fmod_ret.s",
    "freplace",
    "lsm",
    "lsm.s",
    "lsm_cgroup",
    "iter",
    "iter.s",
    "struct_ops",
];

/// The name of a section, or what it begins with before a `/`; the type; the place, where it is another one
/// than that of the type; flags.
#[rustfmt::skip]
const SECTIONS: [(&str, &str, Option<u32>, u32); 81] = [
    ("socket", "socket_filter", None, 0),
    ("sk_reuseport", "sk_reuseport", None, 0),
    ("sk_reuseport/migrate", "sk_reuseport", Some(40), 0),
    ("kprobe", "kprobe", None, 0),
    ("kretprobe", "kprobe", None, 0),
    ("uprobe", "kprobe", None, 0),
    ("uprobe.s", "kprobe", None, SLEEPABLE),
    ("uretprobe", "kprobe", None, 0),
    ("uretprobe.s", "kprobe", None, SLEEPABLE),
    ("kprobe.multi", "kprobe", Some(42), 0),
    ("kretprobe.multi", "kprobe", Some(42), 0),
    ("kprobe.session", "kprobe", Some(56), 0),
    ("uprobe.multi", "kprobe", Some(48), 0),
    ("uretprobe.multi", "kprobe", Some(48), 0),
    ("uprobe.multi.s", "kprobe", Some(48), SLEEPABLE),
    ("uretprobe.multi.s", "kprobe", Some(48), SLEEPABLE),
    ("ksyscall", "kprobe", None, 0),
    ("kretsyscall", "kprobe", None, 0),
    ("usdt", "kprobe", None, 0),
    ("usdt.s", "kprobe", None, SLEEPABLE),
    ("tc", "sched_cls", None, 0),
    ("tc/ingress", "sched_cls", Some(46), 0),
    ("tc/egress", "sched_cls", Some(47), 0),
    ("tcx/ingress", "sched_cls", Some(46), 0),
    ("tcx/egress", "sched_cls", Some(47), 0),
    ("netkit/primary", "sched_cls", Some(54), 0),
    ("netkit/peer", "sched_cls", Some(55), 0),
    ("classifier", "sched_cls", None, 0),
    ("action", "sched_act", None, 0),
    ("tracepoint", "tracepoint", None, 0),
    ("tp", "tracepoint", None, 0),
    ("raw_tracepoint", "raw_tracepoint", None, 0),
    ("raw_tp", "raw_tracepoint", None, 0),
    ("raw_tracepoint.w", "raw_tracepoint_writable", None, 0),
    ("raw_tp.w", "raw_tracepoint_writable", None, 0),
    ("syscall", "syscall", None, 0),
    ("xdp", "xdp", None, 0),
    ("xdp.frags", "xdp", None, FRAGMENTS),
    ("xdp/devmap", "xdp", Some(33), 0),
    ("xdp.frags/devmap", "xdp", Some(33), FRAGMENTS),
    ("xdp/cpumap", "xdp", Some(35), 0),
    ("xdp.frags/cpumap", "xdp", Some(35), FRAGMENTS),
    ("perf_event", "perf_event", None, 0),
    ("lwt_in", "lwt_in", None, 0),
    ("lwt_out", "lwt_out", None, 0),
    ("lwt_xmit", "lwt_xmit", None, 0),
    ("lwt_seg6local", "lwt_seg6local", None, 0),
    ("sockops", "sock_ops", None, 0),
    ("sk_skb", "sk_skb", None, 0),
    ("sk_skb/stream_parser", "sk_skb", Some(4), 0),
    ("sk_skb/stream_verdict", "sk_skb", Some(5), 0),
    ("sk_skb/verdict", "sk_skb", Some(38), 0),
    ("sk_msg", "sk_msg", None, 0),
    ("lirc_mode2", "lirc_mode2", None, 0),
    ("flow_dissector", "flow_dissector", None, 0),
    ("cgroup_skb/ingress", "cgroup_skb", None, 0),
    ("cgroup_skb/egress", "cgroup_skb", Some(1), 0),
    ("cgroup/skb", "cgroup_skb", None, 0),
    ("cgroup/sock", "cgroup_sock", None, 0),
    ("cgroup/sock_create", "cgroup_sock", None, 0),
    ("cgroup/sock_release", "cgroup_sock", Some(34), 0),
    ("cgroup/post_bind4", "cgroup_sock", Some(12), 0),
    ("cgroup/post_bind6", "cgroup_sock", Some(13), 0),
    ("cgroup/bind4", "cgroup_sock_addr", Some(8), 0),
    ("cgroup/bind6", "cgroup_sock_addr", Some(9), 0),
    ("cgroup/connect4", "cgroup_sock_addr", Some(10), 0),
    ("cgroup/connect6", "cgroup_sock_addr", Some(11), 0),
    ("cgroup/sendmsg4", "cgroup_sock_addr", Some(14), 0),
    ("cgroup/sendmsg6", "cgroup_sock_addr", Some(15), 0),
    ("cgroup/recvmsg4", "cgroup_sock_addr", Some(19), 0),
    ("cgroup/recvmsg6", "cgroup_sock_addr", Some(20), 0),
    ("cgroup/getpeername4", "cgroup_sock_addr", Some(29), 0),
    ("cgroup/getpeername6", "cgroup_sock_addr", Some(30), 0),
    ("cgroup/getsockname4", "cgroup_sock_addr", Some(31), 0),
    ("cgroup/getsockname6", "cgroup_sock_addr", Some(32), 0),
    ("cgroup/sysctl", "cgroup_sysctl", None, 0),
    ("cgroup/getsockopt", "cgroup_sockopt", None, 0),
    ("cgroup/setsockopt", "cgroup_sockopt", Some(22), 0),
    ("cgroup/dev", "cgroup_device", None, 0),
    ("sk_lookup", "sk_lookup", None, 0),
    ("netfilter", "netfilter", None, 0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_section_has_a_known_type_and_is_found_by_its_own_name() {
        for (name, kind, ..) in SECTIONS {
            let Recognised::Kind(found) = ProgramKind::of_section(name) else { panic!("{name}") };
            assert_eq!(found.name, kind, "{name}");
        }
    }

    #[test]
    fn the_longest_name_counts_and_a_word_is_a_word() {
        let attach = |name| match ProgramKind::of_section(name) {
            Recognised::Kind(kind) => Some((kind.name, kind.attach_type)),
            _ => None,
        };
        assert_eq!(attach("?tc/egress"), Some(("sched_cls", 47)));
        assert_eq!(attach("tc/other"), Some(("sched_cls", 0)));
        assert_eq!(attach("xdp.frags/devmap"), Some(("xdp", 33)));
        assert_eq!(attach("xdp_pass"), None);
    }
}
