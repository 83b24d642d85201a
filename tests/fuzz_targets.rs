//! What the fuzzer looks for in `fuzz/`, looked for by every `cargo test`: each target, with its seeds, with
//! bytes of any kind, and with seeds that have been changed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

// The targets are compiled as they are, with a macro of our own for the one of libFuzzer.
extern crate self as libfuzzer_sys;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

/// The folder of the targets and their seeds.
const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz");

/// Makes a function of a target. One for text is given what is UTF-8 at the beginning, as by libFuzzer.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:expr) => {
        pub(crate) fn check($data: &[u8]) {
            $body
        }
    };
    (|$text:ident: &str| $body:expr) => {
        pub(crate) fn check(bytes: &[u8]) {
            let $text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            $body
        }
    };
}

/// The seeds of a target, by their names.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(FUZZ).join("seeds").join(target);
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// A seed in which some bytes are others, and which may have been cut, or have a part of it twice.
fn changed(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec((any::<Index>(), any::<u8>()), 0..6);
    let part = prop::option::of((any::<Index>(), any::<Index>()));
    (prop::sample::select(seeds), bytes, prop::option::weighted(0.3, any::<Index>()), part)
        .prop_map(|(mut seed, bytes, end, part)| {
            if seed.is_empty() {
                return seed;
            }
            for (at, byte) in bytes {
                let at = at.index(seed.len());
                seed[at] = byte;
            }
            if let Some((from, to)) = part {
                let (from, to) = (from.index(seed.len()), to.index(seed.len()));
                let again = seed[from.min(to)..from.max(to)].to_vec();
                seed.splice(to..to, again);
            }
            if let Some(end) = end {
                let end = end.index(seed.len());
                seed.truncate(end);
            }
            seed
        })
}

macro_rules! targets {
    ($($name:ident $file:literal,)*) => {
        $(
            #[path = $file]
            // It begins as a program of its own does.
            #[allow(unused_attributes, unused_imports)]
            mod $name;
        )*

        mod checked {
            use proptest::prelude::*;

            $(
                mod $name {
                    use super::*;
                    use crate::$name::check;
                    use crate::{changed, seeds};

                    #[test]
                    fn seeds_are_as_they_should_be() {
                        let seeds = seeds(stringify!($name));
                        assert!(!seeds.is_empty());
                        for seed in seeds {
                            check(&seed);
                        }
                    }

                    proptest! {
                        #[test]
                        fn any_bytes_are(bytes: Vec<u8>) {
                            check(&bytes);
                        }

                        #[test]
                        fn any_text_is(text: String) {
                            check(text.as_bytes());
                        }

                        #[test]
                        fn changed_seeds_are(bytes in changed(seeds(stringify!($name)))) {
                            check(&bytes);
                        }
                    }
                }
            )*
        }

        /// The targets that are tested here.
        const TARGETS: &[&str] = &[$(stringify!($name)),*];
    };
}

targets! {
    elf "../fuzz/fuzz_targets/elf.rs",
    escape "../fuzz/fuzz_targets/escape.rs",
    insns "../fuzz/fuzz_targets/insns.rs",
    lockdown "../fuzz/fuzz_targets/lockdown.rs",
    mountinfo "../fuzz/fuzz_targets/mountinfo.rs",
    proc_stat "../fuzz/fuzz_targets/proc_stat.rs",
    proc_status "../fuzz/fuzz_targets/proc_status.rs",
    proc_syscall "../fuzz/fuzz_targets/proc_syscall.rs",
    text "../fuzz/fuzz_targets/text.rs",
    tracepoint_format "../fuzz/fuzz_targets/tracepoint_format.rs",
    verifier_log "../fuzz/fuzz_targets/verifier_log.rs",
}

#[test]
fn no_target_is_left_out() {
    let files = fs::read_dir(Path::new(FUZZ).join("fuzz_targets")).unwrap();
    let names: BTreeSet<String> = files
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), TARGETS);
    let manifest = fs::read_to_string(Path::new(FUZZ).join("Cargo.toml")).unwrap();
    assert!(names.iter().all(|name| manifest.contains(&format!("name = \"{name}\""))));
}
