//! Gathering what belongs into the protocol of a measurement.

use std::os::unix::ffi::OsStringExt as _;
use std::time::SystemTime;

use crate::cli::MeasureArgs;
use crate::host::Host;
use crate::latency::{Subject, Way};
use crate::maps::cpus::online_and_possible;
use crate::process::command_line;
use crate::report::meta::{Cpus, Measured, Meta, Options, Whom};

/// The protocol of what is about to be measured. The start is for the caller to set when it comes.
pub(super) fn protocol(
    args: &MeasureArgs,
    subject: &Subject,
    descriptors: &[u32],
    syscalls: &[String],
    way: Way,
) -> Meta {
    let measured = subject.targets().iter().map(|target| Measured {
        pid: target.pid,
        tid: matches!(subject, Subject::Threads(_)).then_some(target.requested),
        name: target.name.clone(),
        command_line: command_line(target.pid),
        threads: target.threads,
    });
    Meta {
        version: env!("CARGO_PKG_VERSION"),
        command_line: std::env::args_os().map(std::ffi::OsString::into_vec).collect(),
        host: Host::read(),
        cpus: online_and_possible().map_or_else(
            |_| Cpus::default(),
            |(online, possible)| Cpus { online: Some(online), possible: Some(possible) },
        ),
        started: SystemTime::now(),
        syscalls: syscalls.to_vec(),
        subject: match subject {
            Subject::Processes(_) => Whom::Processes,
            Subject::Threads(_) => Whom::Threads,
            Subject::Family(_) => Whom::Family,
            Subject::Named(name) => Whom::Named(name.clone()),
            Subject::ControlGroup(path) => Whom::ControlGroup(path.clone()),
            Subject::All => Whom::All,
        },
        targets: measured.collect(),
        options: Options {
            duration: Some(args.duration).filter(|time| !time.is_zero()),
            interval: args.interval_length(),
            descriptors: descriptors.to_vec(),
            returns: args.returns.into(),
            unit: args.unit.into(),
            k: args.buckets,
            linear: args.linear,
            way,
        },
        note: args.note.clone(),
        calibration: None,
    }
}
