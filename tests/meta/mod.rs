//! What stands in the first line of a JSON result, for tests that do not look at it.

use std::time::SystemTime;

use rlat::histogram::Unit;
use rlat::host::Host;
use rlat::latency::{Returns, Way};
use rlat::report::meta::{Cpus, Meta, Options, Whom};

pub(crate) fn meta() -> Meta {
    Meta {
        version: "0.0.0",
        command_line: Vec::new(),
        host: Host { kernel: None, architecture: None, distribution: None },
        cpus: Cpus::default(),
        started: SystemTime::UNIX_EPOCH,
        syscalls: vec!["read".to_owned()],
        subject: Whom::All,
        targets: Vec::new(),
        options: Options {
            duration: None,
            interval: None,
            descriptors: Vec::new(),
            returns: Returns::Any,
            unit: Unit::Us,
            k: 0,
            linear: None,
            way: Way::Tracepoint,
        },
        note: None,
        calibration: None,
    }
}
