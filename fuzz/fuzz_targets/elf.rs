//! Object files: what is read can be shown, its text be read, and what an object file can say of it be
//! written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rlat::elf;
use rlat::insn::text;

fuzz_target!(|bytes: &[u8]| match elf::read(bytes) {
    Ok(object) => {
        let written = text::write(&object.module);
        let parsed = text::parse(&written).expect("what is shown can be read");
        if let Ok(again) = elf::write(&parsed.module, "x", &parsed.lines, object.order) {
            assert!(elf::read(&again).is_ok());
        }
    }
    Err(error) => assert!(!error.to_string().is_empty()),
});
