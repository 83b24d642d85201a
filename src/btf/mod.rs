//! BTF, the BPF type format: what functions and maps are, and which source line an instruction is from.
//!
//! The kernel, libbpf and bpftool know types by it. rlat needs it for none of its own work; it is written
//! so that object files of ours can be loaded by others, and so that `bpftool prog dump` and the
//! verifier's log quote our comments, which go as source lines.
//!
//! 1. [`Types`] writes types and strings, [`TypesRead`] reads them;
//! 2. [`Lines`] says which instruction begins a function, and which one has a comment;
//! 3. [`encode_ext`] is how an object file has the second, and [`Lines::functions_for_kernel`] and
//!    [`Lines::lines_for_kernel`] are how bpf(2) takes it.
//!
//! Source: Documentation/bpf/btf.rst, `include/uapi/linux/btf.h`, and for the checks `kernel/bpf/btf.c`.

mod ext;
mod lines;
mod read;
mod types;

pub use ext::{SectionLines, encode_ext, read_ext};
pub use lines::{FunctionInfo, LineInfo, Lines, SourceFile};
pub use read::{MalformedBtf, TypesRead};
pub use types::{Linkage, TypeId, Types};

/// The first two bytes of either section, as a number.
const MAGIC: u16 = 0xeb9f;
/// The version that there is.
const VERSION: u8 = 1;

/// Numbers in the byte order of the target.
trait Put {
    fn put16(&mut self, order: crate::insn::Endianness, number: u16);
    fn put32(&mut self, order: crate::insn::Endianness, number: u32);
}

impl Put for Vec<u8> {
    fn put16(&mut self, order: crate::insn::Endianness, number: u16) {
        match order {
            crate::insn::Endianness::Little => self.extend(number.to_le_bytes()),
            crate::insn::Endianness::Big => self.extend(number.to_be_bytes()),
        }
    }

    fn put32(&mut self, order: crate::insn::Endianness, number: u32) {
        match order {
            crate::insn::Endianness::Little => self.extend(number.to_le_bytes()),
            crate::insn::Endianness::Big => self.extend(number.to_be_bytes()),
        }
    }
}

/// A number at an offset, if it is within the bytes.
fn get32(order: crate::insn::Endianness, bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?.first_chunk::<4>()?;
    Some(match order {
        crate::insn::Endianness::Little => u32::from_le_bytes(*field),
        crate::insn::Endianness::Big => u32::from_be_bytes(*field),
    })
}
