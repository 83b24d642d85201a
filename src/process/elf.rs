//! What the program of a process is made for: 32 or 64 bits.
//!
//! A 64-bit kernel runs 32-bit programs, too. Their system calls have numbers of their own, and the
//! kernel keeps them away from the tracepoints of system calls (`ARCH_TRACE_IGNORE_COMPAT_SYSCALLS`
//! in `kernel/trace/trace_syscalls.c`), so that they are not mistaken for others.

use std::fs::File;
use std::io::Read as _;

use object::FileKind;

/// The length of a 64-bit ELF header; that of 32 bits is shorter.
const HEADER_BYTES: u64 = 64;

/// Whether process `pid` executes a 32-bit program; `None` where this process may not look, `pid` has
/// ended, or the program is no ELF file.
///
/// ```
/// let own = rlat::process::is_32_bit(std::process::id());
/// assert_eq!(own, Some(cfg!(target_pointer_width = "32")));
/// ```
pub fn is_32_bit(pid: u32) -> Option<bool> {
    // The file may be gone from its folder, or belong to a container: this link leads to it all the same.
    let program = File::open(format!("/proc/{pid}/exe")).ok()?;
    let mut header = Vec::new();
    program.take(HEADER_BYTES).read_to_end(&mut header).ok()?;
    has_32_bits(&header)
}

fn has_32_bits(header: &[u8]) -> Option<bool> {
    match FileKind::parse(header) {
        Ok(FileKind::Elf32) => Some(true),
        Ok(FileKind::Elf64) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_class_is_read_from_the_header() {
        let header = |class| [&[0x7f, b'E', b'L', b'F', class, 1, 1, 0][..], &[0; 56]].concat();
        assert_eq!(has_32_bits(&header(1)), Some(true));
        assert_eq!(has_32_bits(&header(2)), Some(false));
        assert_eq!(has_32_bits(&header(3)), None);
        assert_eq!(has_32_bits(b"#!/bin/sh\n"), None);
        assert_eq!(is_32_bit(u32::MAX), None);
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let _ = has_32_bits(&bytes);
        }
    }
}
