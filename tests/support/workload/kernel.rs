//! What the workload asks of the kernel, and no crate has a function for.

#![allow(unsafe_code)] // Three system calls; the tests themselves need none.

use std::ffi::CStr;
use std::fs;
use std::mem::size_of;
use std::thread;

use nix::errno::Errno;
use nix::sys::prctl::set_no_new_privs;
use nix::unistd::gettid;

/// How often to try for a thread id that somebody else may have taken just before.
const TRIES: usize = 1000;

/// The threads of this process. Listing a folder takes no read().
pub(crate) fn own_tids() -> Vec<i32> {
    let names = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().file_name());
    names.map(|name| name.to_str().unwrap().parse().unwrap()).collect()
}

/// Runs `work` in a thread that has the id `tid`, and waits for it. Ids are given in rising order, and
/// this tells the kernel which one was the last.
pub(crate) fn with_tid(tid: i32, work: impl Fn() + Sync) {
    // The process's own id is that of a thread that is there already.
    if tid == gettid().as_raw() {
        return work();
    }
    let work = || {
        let lucky = gettid().as_raw() == tid;
        if lucky {
            work();
        }
        lucky
    };
    for _ in 0..TRIES {
        fs::write("/proc/sys/kernel/ns_last_pid", (tid - 1).to_string()).unwrap();
        if thread::scope(|scope| scope.spawn(work).join().unwrap()) {
            return;
        }
    }
    panic!("no thread was given the id {tid}");
}

/// From now on, and in whatever this process executes, the system call fails with the error number: any
/// of it, or one whose argument of that index has that value in its low 32 bits.
pub(crate) fn refuse(call: u32, argument: Option<(u32, u32)>, errno: u32) {
    /// Where `args` begins in `struct seccomp_data`, and how long each is.
    const ARGS: (u32, u32) = (16, 8);
    set_no_new_privs().unwrap();
    let insn = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |offset| insn(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let skip_unless =
        |value, count| insn(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, count, value);
    let low_half = if cfg!(target_endian = "big") { 4 } else { 0 };
    let (index, value) = argument.unwrap_or_default();
    let with_any = u8::from(argument.is_none());
    let mut filter = [
        // The number of the call is the first thing in struct seccomp_data.
        load(0),
        skip_unless(call, 4),
        insn(libc::BPF_JMP | libc::BPF_JA, 0, 0, u32::from(2 * with_any)),
        load(ARGS.0 + ARGS.1 * index + low_half),
        skip_unless(value, 1),
        insn(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno),
        insn(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the filter during the call, and both live until then.
    let result =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    Errno::result(result).unwrap();
}

/// A ring of one entry, open until this process ends.
pub(crate) fn io_uring() -> Result<libc::c_long, Errno> {
    // `struct io_uring_params` of `include/uapi/linux/io_uring.h`, all zero for no wishes.
    let mut params = [0_u64; 15];
    // SAFETY: the kernel reads and writes the 120 bytes of the parameters.
    Errno::result(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) })
}

/// The ids of all BPF programs in the kernel.
pub(crate) fn program_ids() -> impl Iterator<Item = u32> {
    /// `BPF_PROG_GET_NEXT_ID` of `enum bpf_cmd` in `include/uapi/linux/bpf.h`.
    const PROG_GET_NEXT_ID: libc::c_int = 11;

    /// Its part of `union bpf_attr`.
    #[repr(C)]
    struct Attr {
        start_id: u32,
        next_id: u32,
        open_flags: u32,
    }

    let next = |&id: &u32| {
        let mut attr = Attr { start_id: id, next_id: 0, open_flags: 0 };
        // SAFETY: the kernel reads and writes as many bytes as the last argument says, which is what
        // there is.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, PROG_GET_NEXT_ID, &raw mut attr, size_of::<Attr>())
        };
        match Errno::result(result) {
            Ok(_) => Some(attr.next_id),
            Err(Errno::ENOENT) => None,
            Err(errno) => panic!("BPF_PROG_GET_NEXT_ID: {errno}"),
        }
    };
    std::iter::successors(next(&0), next)
}

/// The name of a loaded program, and its instructions as the kernel has rewritten them.
pub(crate) fn translated(id: u32) -> (String, Vec<u8>) {
    const PROG_GET_FD_BY_ID: libc::c_int = 13;
    const OBJ_GET_INFO_BY_FD: libc::c_int = 15;

    /// The beginning of `struct bpf_prog_info`; the kernel fills as much as there is.
    #[repr(C)]
    struct Info {
        before: [u32; 5],
        translated_bytes: u32,
        jited: u64,
        translated: u64,
        between: [u64; 3],
        name: [u8; 16],
    }

    /// Its part of `union bpf_attr`.
    #[repr(C)]
    struct Attr {
        fd: u32,
        info_bytes: u32,
        info: u64,
    }

    let mut by_id = [id, 0, 0];
    // SAFETY: the kernel reads the twelve bytes that the last argument says.
    let fd = Errno::result(unsafe {
        libc::syscall(libc::SYS_bpf, PROG_GET_FD_BY_ID, by_id.as_mut_ptr(), size_of_val(&by_id))
    });
    let fd = fd.unwrap() as u32;
    let (mut name, mut bytes) = ([0; 16], Vec::new());
    // Once to ask for their number, and once for them.
    for _ in 0..2 {
        let mut info = Info {
            before: [0; 5],
            translated_bytes: bytes.len() as u32,
            jited: 0,
            translated: bytes.as_mut_ptr() as u64,
            between: [0; 3],
            name: [0; 16],
        };
        let info_at = (&raw mut info) as u64;
        let mut attr = Attr { fd, info_bytes: size_of::<Info>() as u32, info: info_at };
        // SAFETY: the kernel reads and writes `attr` and `info`, each as long as said, and at most as many
        // instructions as `bytes` has room for.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, OBJ_GET_INFO_BY_FD, &raw mut attr, size_of::<Attr>())
        };
        Errno::result(result).unwrap();
        bytes.resize(info.translated_bytes as usize, 0);
        name = info.name;
    }
    let name = CStr::from_bytes_until_nul(&name).unwrap().to_str().unwrap();
    (name.to_owned(), bytes)
}
