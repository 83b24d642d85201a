//! The kernel's description of its own types, as far as attaching needs it.
//!
//! *BTF* is a list of types, each with a number by its place, followed by their names; kernels that are
//! built with it have theirs in `/sys/kernel/btf/vmlinux`, see `Documentation/bpf/btf.rst`. For each raw
//! tracepoint `NAME` there is a typedef `btf_trace_NAME`, and a program that is loaded for its number may
//! follow the pointers in its arguments by plain loads, and that to the current task. Where the task has
//! what is wanted of it is said by the members of `struct task_struct`.
//!
//! The file has some 6 MB and three numbers are wanted, so it is read in pieces and none of it is kept.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Where the kernel has its types.
const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// How much is read at once.
const PIECE: usize = 1 << 16;

/// The first two bytes.
const MAGIC: u16 = 0xeb9f;
/// Bytes of the header that are read here: magic, version, flags, its own length, and where types and
/// names are.
const HEADER: usize = 24;
/// Bytes that every type has: its name's place, kind and count, and a size or another type.
const TYPE: usize = 12;

/// The kinds that have more than [`TYPE`] bytes, with those more: for each, and for each of its parts.
/// `BTF_KIND_*` in `include/uapi/linux/btf.h`.
const LARGER_KINDS: [(u32, usize, usize); 10] = [
    (1, 4, 0),   // INT
    (3, 12, 0),  // ARRAY
    (4, 0, 12),  // STRUCT
    (5, 0, 12),  // UNION
    (6, 0, 8),   // ENUM
    (13, 0, 8),  // FUNC_PROTO
    (14, 4, 0),  // VAR
    (15, 0, 12), // DATASEC
    (17, 4, 0),  // DECL_TAG
    (19, 0, 12), // ENUM64
];
const STRUCT: u32 = 4;
const TYPEDEF: u32 = 8;
/// The greatest kind that is known here: what a later one takes is not.
const LAST_KIND: u32 = 19;
/// Bytes of a struct's member: the place of its name, its type, and where it is, in bits.
const MEMBER: usize = 12;

/// What is needed of the types to load a program for a raw tracepoint, and to look at the current task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracepointType {
    /// The number of the type by which the program is loaded.
    pub number: u32,
    /// Offset of the thread's id (`pid`) in `struct task_struct`, in bytes.
    pub tid: i16,
    /// Offset of the process's id (`tgid`) in `struct task_struct`, in bytes.
    pub tgid: i16,
}

impl TracepointType {
    /// That of the running kernel, for a raw tracepoint such as `sys_enter`; `None` where the kernel has no
    /// such description, or it may not be read.
    pub fn of_this_kernel(tracepoint: &str) -> Option<Self> {
        let file = File::open(Path::new(VMLINUX)).ok()?;
        Self::read(&mut BufReader::with_capacity(PIECE, file), tracepoint).ok()?
    }

    /// That of the raw tracepoint in a BTF file; `None` if anything of it is not there.
    ///
    /// # Errors
    /// As reading and seeking; `InvalidData` or `UnexpectedEof` for what is no BTF in this machine's byte
    /// order.
    ///
    /// ```
    /// use rlat::loader::TracepointType;
    ///
    /// let mut nothing = std::io::Cursor::new(b"no types");
    /// assert!(TracepointType::read(&mut nothing, "sys_enter").is_err());
    /// ```
    pub fn read(file: &mut (impl Read + Seek), tracepoint: &str) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER];
        file.read_exact(&mut header)?;
        let word = |at: usize| u32_at(&header, at);
        if u16::from_ne_bytes([header[0], header[1]]) != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let [length, types, types_length, names, names_length] = [4, 8, 12, 16, 20].map(word);
        let (types, names) =
            (u64::from(length) + u64::from(types), u64::from(length) + u64::from(names));
        file.seek(SeekFrom::Start(names))?;
        let typedef = format!("btf_trace_{tracepoint}");
        let wanted = [typedef.as_str(), "task_struct", "pid", "tgid"].map(str::as_bytes);
        let places = places_of(&mut file.take(u64::from(names_length)), wanted)?;
        let [Some(typedef), Some(task), Some(pid), Some(tgid)] = places else { return Ok(None) };
        file.seek(SeekFrom::Start(types))?;
        find(&mut file.take(u64::from(types_length)), typedef, task, [pid, tgid])
    }
}

/// Where each of some names begins among names that end in a zero each.
fn places_of<const N: usize>(
    names: &mut impl Read,
    wanted: [&[u8]; N],
) -> io::Result<[Option<u32>; N]> {
    let mut piece = vec![0; PIECE];
    let mut places = [None; N];
    // How much of each name the current one, which began at `start`, has begun with so far.
    let (mut at, mut start, mut matched) = (0_u32, 0_u32, [Some(0_usize); N]);
    loop {
        let read = names.read(&mut piece)?;
        if read == 0 {
            return Ok(places);
        }
        for byte in &piece[..read] {
            if *byte == 0 {
                for ((place, name), matched) in places.iter_mut().zip(wanted).zip(matched) {
                    if matched == Some(name.len()) {
                        place.get_or_insert(start);
                    }
                }
                (start, matched) = (at.saturating_add(1), [Some(0); N]);
            } else {
                for (matched, name) in matched.iter_mut().zip(wanted) {
                    *matched =
                        matched.filter(|next| name.get(*next) == Some(byte)).map(|next| next + 1);
                }
            }
            at = at.saturating_add(1);
        }
    }
}

/// The typedef and the struct with the members, all by the places of their names.
fn find(
    types: &mut impl Read,
    typedef: u32,
    task: u32,
    members: [u32; 2],
) -> io::Result<Option<TracepointType>> {
    let (mut wanted, mut offsets) = (None, [None; 2]);
    // The first type has number 1.
    let mut number = 0_u32;
    let mut common = [0; TYPE];
    loop {
        if let (Some(number), [Some(tid), Some(tgid)]) = (wanted, offsets) {
            return Ok(Some(TracepointType { number, tid, tgid }));
        }
        match types.read_exact(&mut common) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        number = number.saturating_add(1);
        let (name, info) = (u32_at(&common, 0), u32_at(&common, 4));
        let (kind, parts) = (info >> 24 & 0x1f, info & 0xffff);
        if kind == TYPEDEF && name == typedef {
            wanted = Some(number);
        }
        if kind > LAST_KIND {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if kind == STRUCT && name == task {
            for _ in 0..parts {
                let mut member = [0; MEMBER];
                types.read_exact(&mut member)?;
                for (place, offset) in members.iter().zip(&mut offsets) {
                    if u32_at(&member, 0) == *place {
                        // The upper 8 bits are the width of a bit field in structs that have any.
                        let bytes = (u32_at(&member, 8) & 0x00ff_ffff) / 8;
                        *offset = i16::try_from(bytes).ok();
                    }
                }
            }
            continue;
        }
        if let Some((_, once, each)) = LARGER_KINDS.iter().find(|(larger, ..)| *larger == kind) {
            let more = (once + each * parts as usize) as u64;
            io::copy(&mut types.take(more), &mut io::sink())?;
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    /// An int, a struct of two of these, and a typedef, in this order.
    fn example(offset_of_tgid: u32) -> Vec<u8> {
        let names = b"\0int\0task_struct\0pid\0tgid\0btf_trace_x\0";
        let mut types: Vec<u32> = vec![1, 1 << 24, 4, 32];
        types.extend([5, STRUCT << 24 | 2, 8, 17, 1, 0, 21, 1, offset_of_tgid * 8]);
        types.extend([26, TYPEDEF << 24, 1]);
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let header = [24, 0, types.len() as u32, types.len() as u32, names.len() as u32]
            .map(u32::to_ne_bytes);
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        bytes.extend(header.as_flattened());
        bytes.extend(types);
        bytes.extend(names);
        bytes
    }

    fn read(bytes: Vec<u8>, name: &str) -> io::Result<Option<TracepointType>> {
        TracepointType::read(&mut Cursor::new(bytes), name)
    }

    #[test]
    fn a_type_is_found_by_its_whole_name() {
        let found = TracepointType { number: 3, tid: 0, tgid: 4 };
        assert_eq!(read(example(4), "x").unwrap(), Some(found));
        for other in ["", "xy", "y"] {
            assert_eq!(read(example(4), other).unwrap(), None, "{other}");
        }
    }

    #[test]
    fn a_member_that_no_instruction_reaches_is_not_found() {
        assert_eq!(read(example(1 << 15), "x").unwrap(), None);
    }

    #[test]
    fn the_running_kernel_is_described_if_it_says_so() {
        let of = TracepointType::of_this_kernel;
        if Path::new(VMLINUX).exists() {
            let (enter, exit) = (of("sys_enter").unwrap(), of("sys_exit").unwrap());
            assert_ne!(enter.number, exit.number);
            assert_eq!((enter.tid, enter.tgid), (exit.tid, exit.tgid));
            assert_ne!(enter.tid, enter.tgid);
        }
        assert_eq!(of("rlat_no_such_tracepoint"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, cut in 0_usize..140, at in 0_usize..140, to: u8) {
            let _ = read(bytes, "x");
            let mut bytes = example(4);
            let length = bytes.len();
            bytes[at % length] = to;
            bytes.truncate(cut);
            let _ = read(bytes, "x");
        }
    }
}
