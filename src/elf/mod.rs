//! Object files: programs as `clang -target bpf` leaves them and libbpf loads them.
//!
//! An object file is an ELF file for the machine `EM_BPF`. What is where:
//!
//! | section | holds |
//! |---|---|
//! | `tracepoint/...`, `kprobe/...`, `socket`, ... | programs; the name tells libbpf their type and what to attach them to |
//! | `.text` | functions that programs of other sections call |
//! | `.maps` | one variable a map; what it is like is said by its type, in `.BTF` |
//! | `.data.NAME`, `.data`, `.bss`, `.rodata` | variables: libbpf makes an array map of one value of each section |
//! | `license` | the license, with an ending zero |
//! | `.BTF`, `.BTF.ext` | types; functions and source lines, see [`btf`](crate::btf) |
//! | `.rel...` | which instructions refer to which symbol |
//!
//! A *relocation* of type `R_BPF_64_64` is a 64-bit load of the address of a map, variable or function,
//! and one of type `R_BPF_64_32` a call of a function in another section. What is added to the symbol
//! stands in the instruction's `imm`.
//!
//! The text syntax has no variables. A map of which `map[NAME][0]+OFFSET` loads a byte's address becomes a
//! section `.data.NAME` here, and back: that is how libbpf knows such loads. It needs to be what libbpf
//! makes of such a section, an array of one value that can be mapped into memory (`flags 1024`). A compiler's
//! `.data`, `.bss` and `.rodata` (`flags 1152`: programs only read it) keep their names; all values are 0.
//!
//! Source: libbpf's `src/libbpf.c`, and LLVM's documentation of the BPF relocations
//! (Documentation/bpf/llvm_reloc.rst).

mod definitions;
mod error;
mod read;
mod relocations;
#[cfg(test)]
mod tests;
mod write;

pub use error::{MalformedObject, Unwritable};
pub use read::{Object, read};
pub use write::write;

/// `R_BPF_64_64`: the 64-bit load of an address.
const LOAD_ADDRESS: u32 = 1;
/// `R_BPF_64_32`: a call.
const CALL_FUNCTION: u32 = 10;

/// Where maps are defined.
const MAPS: &str = ".maps";
/// Where the license is.
const LICENSE: &str = "license";
const TYPES: &str = ".BTF";
const LINES: &str = ".BTF.ext";
/// What a section of one variable begins with, here.
const DATA: &str = ".data.";
/// Functions that programs call.
const FUNCTIONS: &str = ".text";

/// The type of a map that libbpf makes of a section of variables, `BPF_MAP_TYPE_ARRAY`.
const ARRAY: u32 = 2;
/// And its flag, `BPF_F_MMAPABLE`.
const MMAPABLE: u32 = 1 << 10;
/// `BPF_F_RDONLY_PROG`, for what programs cannot change.
const READ_ONLY: u32 = 1 << 7;

/// Whether a compiler puts constants into a section of that name.
fn is_read_only(name: &str) -> bool {
    name == ".rodata" || name.starts_with(".rodata.")
}

/// Whether a compiler puts variables into a section of that name, which is then that of the map, too.
fn is_of_variables(name: &str) -> bool {
    name == ".bss" || name == ".data" || is_read_only(name)
}
