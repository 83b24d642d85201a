//! `/sys/kernel/security/lockdown`: only a word in brackets is in force.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rlat::process::Lockdown;

fuzz_target!(|text: &str| {
    if let Some(mode) = Lockdown::parse(text) {
        let word = match mode {
            Lockdown::None => "[none]",
            Lockdown::Integrity => "[integrity]",
            Lockdown::Confidentiality => "[confidentiality]",
        };
        assert!(text.contains(word));
    }
});
