//! The kernel's description of its own types, as far as attaching needs it.
//!
//! *BTF* is a list of types, each with a number by its place, followed by their names; kernels that are
//! built with it have theirs in `/sys/kernel/btf/vmlinux`, see `Documentation/bpf/btf.rst`. For each raw
//! tracepoint `NAME` there is a typedef `btf_trace_NAME`, and a program that is loaded for its number may
//! follow the pointers in its arguments by plain loads.
//!
//! The file has some 6 MB and one number is wanted, so it is read in pieces and none of it is kept.

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
const TYPEDEF: u32 = 8;
/// The greatest kind that is known here: what a later one takes is not.
const LAST_KIND: u32 = 19;

/// The number of the type by which a program is loaded for a raw tracepoint, such as `sys_enter`; `None`
/// where the kernel has no such description, or it may not be read.
pub fn raw_tracepoint_type(tracepoint: &str) -> Option<u32> {
    find_typedef(Path::new(VMLINUX), &format!("btf_trace_{tracepoint}"))
}

fn find_typedef(file: &Path, name: &str) -> Option<u32> {
    let mut file = BufReader::with_capacity(PIECE, File::open(file).ok()?);
    typedef_number(&mut file, name).ok()?
}

/// The number of the typedef of that name in a BTF file.
///
/// # Errors
/// As reading and seeking; `InvalidData` or `UnexpectedEof` for what is no BTF in this machine's byte order.
///
/// ```
/// let nothing = std::io::Cursor::new(b"no types");
/// assert!(rlat::loader::typedef_number(&mut { nothing }, "btf_trace_sys_enter").is_err());
/// ```
pub fn typedef_number(file: &mut (impl Read + Seek), name: &str) -> io::Result<Option<u32>> {
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
    let Some(wanted) = place_of(&mut file.take(u64::from(names_length)), name.as_bytes())? else {
        return Ok(None);
    };
    file.seek(SeekFrom::Start(types))?;
    number_of(&mut file.take(u64::from(types_length)), wanted)
}

/// Where a name begins among names that end in a zero each.
fn place_of(names: &mut impl Read, name: &[u8]) -> io::Result<Option<u32>> {
    let mut piece = vec![0; PIECE];
    let mut at = 0_u32;
    // What of the name the current one, which began at `start`, has begun with so far.
    let (mut start, mut matched) = (0_u32, Some(0_usize));
    loop {
        let read = names.read(&mut piece)?;
        if read == 0 {
            return Ok(None);
        }
        for byte in &piece[..read] {
            if *byte == 0 {
                if matched == Some(name.len()) {
                    return Ok(Some(start));
                }
                (start, matched) = (at + 1, Some(0));
            } else {
                matched = matched.filter(|next| name.get(*next) == Some(byte)).map(|next| next + 1);
            }
            at = at.saturating_add(1);
        }
    }
}

/// The number of the typedef whose name begins at that place. The first type has number 1.
fn number_of(types: &mut impl Read, wanted: u32) -> io::Result<Option<u32>> {
    let mut number = 0_u32;
    let mut common = [0; TYPE];
    loop {
        match types.read_exact(&mut common) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        number = number.saturating_add(1);
        let (name, info) = (u32_at(&common, 0), u32_at(&common, 4));
        let (kind, parts) = (info >> 24 & 0x1f, info & 0xffff);
        if kind == TYPEDEF && name == wanted {
            return Ok(Some(number));
        }
        if kind > LAST_KIND {
            return Err(io::ErrorKind::InvalidData.into());
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

    /// An int, a struct of two members, and a typedef, in this order.
    fn example() -> Vec<u8> {
        let names = b"\0int\0pair\0btf_trace_x\0";
        let mut types: Vec<u32> = vec![1, 1 << 24, 4, 32];
        types.extend([5, 4 << 24 | 2, 8, 0, 1, 0, 0, 1, 32]);
        types.extend([10, TYPEDEF << 24, 1]);
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

    #[test]
    fn a_typedef_is_found_by_its_whole_name() {
        let find = |name| typedef_number(&mut Cursor::new(example()), name).unwrap();
        assert_eq!(find("btf_trace_x"), Some(3));
        for other in ["btf_trace_", "btf_trace_xy", "int", "pair", ""] {
            assert_eq!(find(other), None, "{other}");
        }
    }

    #[test]
    fn the_running_kernel_is_described_if_it_says_so() {
        if Path::new(VMLINUX).exists() {
            assert!(raw_tracepoint_type("sys_enter").is_some());
            assert_ne!(raw_tracepoint_type("sys_enter"), raw_tracepoint_type("sys_exit"));
        }
        assert_eq!(raw_tracepoint_type("rlat_no_such_tracepoint"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, cut in 0_usize..100, at in 0_usize..100, to: u8) {
            let _ = typedef_number(&mut Cursor::new(bytes), "btf_trace_x");
            let mut bytes = example();
            let length = bytes.len();
            bytes[at % length] = to;
            bytes.truncate(cut);
            let _ = typedef_number(&mut Cursor::new(bytes), "btf_trace_x");
        }
    }
}
