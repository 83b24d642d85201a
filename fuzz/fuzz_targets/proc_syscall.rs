//! `/proc/PID/task/TID/syscall`: what is read can be written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rlat::process::Activity;

fuzz_target!(|data: &[u8]| {
    let Some(activity) = Activity::parse(data) else { return };
    if let Activity::InSyscall { number, args, sp, pc } = activity {
        let words: Vec<String> =
            args.iter().chain([&sp, &pc]).map(|word| format!("{word:#x}")).collect();
        let line = format!("{number} {}\n", words.join(" "));
        assert_eq!(Activity::parse(line.as_bytes()), Some(activity));
    }
});
