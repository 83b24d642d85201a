//! `/proc/PID/stat`, in which the name of the thread can hold any byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rlat::process::Stat;

fuzz_target!(|data: &[u8]| {
    if let Some(stat) = Stat::parse(data) {
        // The fields stand behind the last bracket, so that the name cannot forge them.
        let end_of_name = data.iter().rposition(|&byte| byte == b')').expect("there is a name");
        let renamed = [b"1 (x", &data[end_of_name..]].concat();
        assert_eq!(Stat::parse(&renamed), Some(stat));
    }
});
