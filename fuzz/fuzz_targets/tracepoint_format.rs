//! A tracepoint's `format` file: each field that is read is found by its name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rlat::tracefs::Format;

fuzz_target!(|data: &[u8]| {
    match Format::parse(data) {
        Ok(format) => {
            for field in &format.fields {
                let found = format.field(&field.name).expect("a field has its own name");
                assert_eq!(found.name, field.name);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
