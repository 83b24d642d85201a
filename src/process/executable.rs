//! What kind of program a process runs, from `/proc/PID/exe`.

use std::fs::File;
use std::io::Read as _;

use object::FileKind;

/// Bytes that are read of the program: more than the identification at its beginning.
const HEAD: usize = 64;

/// Whether the process runs a 32-bit program on this 64-bit kernel. Such a program, and on x86-64
/// also one of the x32 kind, makes its system calls by other numbers.
///
/// `false` where it cannot be known: the process has ended, or the reader lacks ptrace access.
pub fn is_32_bit(pid: u32) -> bool {
    if cfg!(target_pointer_width = "32") {
        return false;
    }
    // Read in full, even when a signal or a small filesystem block cuts a read() short.
    let mut head = Vec::with_capacity(HEAD);
    File::open(format!("/proc/{pid}/exe"))
        .and_then(|file| file.take(HEAD as u64).read_to_end(&mut head))
        .is_ok_and(|_| is_elf32(&head))
}

/// Whether a file that begins so is a 32-bit program.
fn is_elf32(head: &[u8]) -> bool {
    matches!(FileKind::parse(head), Ok(FileKind::Elf32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The beginning of an ELF file of that class, 1 for 32 bits and 2 for 64.
    fn elf(class: u8) -> Vec<u8> {
        let mut head = b"\x7fELF".to_vec();
        head.extend([class, 1, 1]);
        head.resize(HEAD, 0);
        head
    }

    #[test]
    fn classes_are_told_apart() {
        assert!(is_elf32(&elf(1)));
        assert!(!is_elf32(&elf(2)));
        assert!(!is_elf32(b"#!/bin/sh\n"));
        assert!(!is_elf32(b""));
    }

    #[test]
    fn this_process_and_one_that_is_not_there_are_not_32_bit() {
        assert!(!is_32_bit(std::process::id()));
        assert!(!is_32_bit(u32::MAX));
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let _ = is_elf32(&bytes);
        }
    }
}
