//! Types and strings that programs can be described with.

use std::os::fd::{BorrowedFd, OwnedFd};

use nix::Result;

use super::{bpf, own};

const BPF_BTF_LOAD: i32 = 18;

/// What a program says about its functions and source lines: BTF that is in the kernel, and tables that
/// refer to it. See [`btf`](crate::btf).
#[derive(Clone, Copy, Debug)]
pub struct DebugTables<'a> {
    /// The types and strings, as [`btf_load`] gives them.
    pub types: BorrowedFd<'a>,
    /// An array of `struct bpf_func_info`.
    pub functions: &'a [u8],
    /// An array of `struct bpf_line_info`.
    pub lines: &'a [u8],
}

#[repr(C)]
#[derive(Default)]
struct BtfLoadAttr {
    btf: u64,
    log_buf: u64,
    btf_size: u32,
    log_size: u32,
    log_level: u32,
}

/// Hands types and strings to the kernel. Linux 4.18.
///
/// # Errors
/// As bpf(2): `EPERM` without the privilege, `EINVAL` when the kernel does not know the command, or does
/// not take what is in there.
pub fn btf_load(bytes: &[u8]) -> Result<OwnedFd> {
    let mut attr = BtfLoadAttr {
        btf: bytes.as_ptr() as u64,
        btf_size: bytes.len() as u32,
        ..BtfLoadAttr::default()
    };
    // SAFETY: the attribute is the one that BPF_BTF_LOAD reads; the bytes are borrowed for the call, and
    // there is no log.
    own(unsafe { bpf(BPF_BTF_LOAD, &mut attr) }?)
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::BtfLoadAttr;

    #[test]
    fn the_attribute_is_laid_out_as_in_the_kernels_header() {
        assert_eq!(offset_of!(BtfLoadAttr, log_level), 24);
    }
}
