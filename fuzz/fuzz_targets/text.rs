//! Programs as text: what is read is written and read again as the same, and what is wrong has a place.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rlat::insn::text::{parse, write};

fuzz_target!(|source: &str| match parse(source) {
    Ok(parsed) => {
        let written = write(&parsed.module);
        let again = parse(&written).expect("what is written can be read");
        assert_eq!(again.module, parsed.module);
        assert_eq!(write(&again.module), written);
        let lines: usize = parsed.lines.iter().map(Vec::len).sum();
        assert!(lines <= source.lines().count());
    }
    Err(error) => {
        let line = source.lines().nth(error.line - 1).expect("the line is there");
        assert!((1..=line.chars().count() + 1).contains(&error.column));
        assert_eq!(error.to_string().lines().count(), 3);
    }
});
