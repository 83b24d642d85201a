//! Bytes of a program: what decodes encodes to the very same bytes, and every instruction has a text.
//! The first byte says which endianness the others have.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rlat::insn::{DecodeReason, Endianness, Insn, SLOT_BYTES, decode, encode};

fuzz_target!(|data: &[u8]| {
    let Some((order, bytes)) = data.split_first() else { return };
    let order = if order & 1 == 0 { Endianness::Little } else { Endianness::Big };
    match decode(bytes, order) {
        Ok(insns) => {
            assert_eq!(encode(&insns, order), bytes);
            assert_eq!(insns.iter().map(Insn::slots).sum::<usize>() * SLOT_BYTES, bytes.len());
            assert!(insns.iter().all(|insn| !insn.to_string().is_empty()));
        }
        Err(error) => {
            assert!(error.slot * SLOT_BYTES < bytes.len());
            assert!(error.to_string().starts_with("slot "));
            // Half a slot at the end is seen first; any other fault has a program before it.
            if error.reason != DecodeReason::Truncated {
                assert!(decode(&bytes[..error.slot * SLOT_BYTES], order).is_ok());
            }
        }
    }
});
