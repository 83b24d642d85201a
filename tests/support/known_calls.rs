//! What the tests survey: a program that makes known numbers of known system calls.
//!
//! Orders and reports go through standard output, a socket, as with the workload: an order is taken by
//! recvfrom(2), and a report is one write(2).
//!
//! ```text
//! known_calls N THREADS   at each order, THREADS threads make the calls in `once`, N times each
//! ```

#![allow(unsafe_code, clippy::unwrap_used, clippy::panic)] // A failure here fails the test.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Barrier;
use std::thread;

use libc::c_long;

fn main() {
    let args: Vec<usize> = std::env::args().skip(1).map(|arg| arg.parse().unwrap()).collect();
    let [times, threads] = args[..] else { panic!("known_calls N THREADS") };
    let (zero, null) =
        (File::open("/dev/zero").unwrap(), File::options().write(true).open("/dev/null").unwrap());
    let file = tempfile();
    let calls = || {
        for _ in 0..times {
            once(zero.as_raw_fd(), null.as_raw_fd());
        }
        rarely(file.as_raw_fd());
    };
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| {
                loop {
                    barrier.wait();
                    calls();
                    barrier.wait();
                }
            });
        }
        let mut socket = UnixStream::from(io::stdout().as_fd().try_clone_to_owned().unwrap());
        println!("ready");
        // To read from a socket, the standard library calls recvfrom(2).
        while matches!(socket.read(&mut [0]), Ok(1)) {
            if threads > 1 {
                barrier.wait();
            }
            calls();
            if threads > 1 {
                barrier.wait();
            }
            println!("done");
        }
        std::process::exit(0);
    });
}

/// Each order makes these N times in each thread: tests/survey.rs has their numbers.
fn once(zero: RawFd, null: RawFd) {
    let mut byte = 0_u8;
    let byte = (&raw mut byte) as c_long;
    call(libc::SYS_getppid, [0; 4]);
    call(libc::SYS_read, [zero.into(), byte, 1, 0]);
    for _ in 0..2 {
        call(libc::SYS_write, [null.into(), byte, 1, 0]);
    }
    for _ in 0..3 {
        call(libc::SYS_read, [-1, byte, 1, 0]);
    }
    let opened = openat(c"/dev/null");
    call(libc::SYS_close, [opened, 0, 0, 0]);
    openat(c"/no/such/file");
}

/// And these as often as they stand here, however great N is.
fn rarely(file: RawFd) {
    let two_ms = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };
    for _ in 0..3 {
        call(libc::SYS_nanosleep, [(&raw const two_ms) as c_long, 0, 0, 0]);
    }
    call(libc::SYS_fsync, [file.into(), 0, 0, 0]);
    // Numbers that are no calls: of a getpid() of x32 on x86-64, and two that no kernel knows.
    for number in [0x4000_0027, 1_000_000, -1] {
        call(number, [0; 4]);
    }
}

fn openat(path: &CStr) -> c_long {
    call(libc::SYS_openat, [libc::AT_FDCWD.into(), path.as_ptr() as c_long, 0, 0])
}

fn call(number: c_long, args: [c_long; 4]) -> c_long {
    // SAFETY: the calls above read and write at most the byte, the path and the time that are passed.
    unsafe { libc::syscall(number, args[0], args[1], args[2], args[3]) }
}

/// A file without a name.
fn tempfile() -> File {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = File::options();
    options.write(true).custom_flags(libc::O_TMPFILE);
    options.open(std::env::temp_dir()).unwrap()
}
