//! When nothing came, rlat says what it saw instead.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;
mod support;

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, Stdio};

use ::rlat::process::{Activity, Status, activity, is_open};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use support::{Rlat, Workload, can_measure, rlat, send, until};

/// A process that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that sleeps, as seen in /proc.
fn sleeper() -> Killed {
    let sleep = Killed(Command::new("sleep").arg("600").spawn().unwrap());
    let pid = sleep.0.id();
    until("it sleeps", || match activity(pid, pid) {
        Ok(Activity::InSyscall { number: libc::SYS_clock_nanosleep, .. }) => Some(()),
        _ => None,
    });
    sleep
}

/// What rlat says on standard error, with these arguments for a while, when nothing comes.
fn hints<const N: usize>(args: [&str; N]) -> String {
    let mut command = rlat(["-d", "20ms"]);
    let ended = Rlat::spawn(command.args(args).stdout(Stdio::piped())).ended();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stdout.starts_with("@calls: 0\n"), "{ended:#?}");
    assert!(!ended.stdout.contains("hint"), "{ended:#?}");
    ended.stderr
}

#[test]
fn a_sleeping_process() {
    if !can_measure() {
        return;
    }
    let sleep = sleeper();
    let pid = sleep.0.id();
    assert_eq!(
        hints([&pid.to_string()]),
        format!(
            "ready\n\
             hint: process {pid} was in clock_nanosleep() all the time\n\
             hint: try `rlat survey {pid}`, which shows every call, or `rlat -e clock_nanosleep {pid}`\n"
        )
    );
}

#[test]
fn a_stopped_process() {
    if !can_measure() {
        return;
    }
    let sleep = sleeper();
    let pid = sleep.0.id();
    send(Signal::SIGSTOP, pid);
    until("it is stopped", || (Status::read(pid).unwrap().state == Some('T')).then_some(()));
    let hints = hints([&pid.to_string()]);
    assert!(
        hints.contains(&format!("hint: process {pid} is stopped: `kill -CONT {pid}`")),
        "{hints}"
    );
    assert!(!hints.contains("rlat survey"), "{hints}");
}

#[test]
fn a_process_that_reads_with_another_call() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["preads", "1000", "1"]);
    let pid = target.pid;
    let rlat = Rlat::measure(pid);
    target.carry_out();
    rlat.send(Signal::SIGINT);
    let ended = rlat.ended();
    assert!(ended.stdout.starts_with("@calls: 0\n"), "{ended:#?}");
    let stderr = &ended.stderr;
    // The kernel counts them where it has CONFIG_TASK_IO_ACCOUNTING.
    let what = format!("hint: process {pid} made 1,000 calls that read and ");
    assert!(stderr.contains(&what), "{ended:#?}");
    assert!(stderr.contains(&format!("or `rlat -e @read {pid}`\n")), "{ended:#?}");
}

#[test]
fn a_descriptor_that_was_never_open() {
    if !can_measure() {
        return;
    }
    let sleep = sleeper();
    let pid = sleep.0.id();
    let hints = hints([&pid.to_string(), "77"]);
    assert!(hints.starts_with("ready\nrlat: note: process "), "{hints}");
    assert!(hints.contains(&format!("hint: process {pid} has no descriptor 77 open")), "{hints}");
}

#[test]
fn a_descriptor_that_was_closed_in_the_window() {
    if !can_measure() {
        return;
    }
    let script = "exec 7</dev/null; trap 'exec 7<&-' USR1; while :; do sleep 0.01; done";
    let shell = Killed(Command::new("sh").args(["-c", script]).spawn().unwrap());
    let pid = shell.0.id();
    until("its descriptor is open", || is_open(pid, 7).filter(|open| *open));
    // The trap is set after that, and the first child started after the trap.
    support::child_of(pid);
    let mut command = rlat(["-v", "-d", "0", &pid.to_string(), "7"]);
    let rlat = Rlat::with_open_window(&mut command);
    send(Signal::SIGUSR1, pid);
    until("its descriptor is closed", || is_open(pid, 7).filter(|open| !*open).map(|_| ()));
    rlat.send(Signal::SIGINT);
    let ended = rlat.ended();
    let what = format!("hint: process {pid} closed descriptor 7 while the window was open");
    assert!(ended.stderr.contains(&what), "{ended:#?}");
}

#[test]
fn an_io_uring() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::spawn(support::workload().arg("ring"));
    if target.report("ring ") == 0 {
        requirements::skip("io_uring_setup(2) is refused here");
        return;
    }
    target.wait_until_ready();
    let hints = hints([&target.pid.to_string()]);
    let what = format!("hint: process {} has 1 io_uring descriptor: ", target.pid);
    assert!(hints.contains(&what), "{hints}");
}

#[test]
fn no_hint_is_given_when_something_came() {
    if !can_measure() {
        return;
    }
    let mut target = Workload::start(["input", "1"]);
    // In flight all the time: that is what the report says.
    let rlat = Rlat::measure(target.pid);
    target.start_reading(1);
    rlat.send(Signal::SIGINT);
    let ended = rlat.ended();
    assert!(!ended.stderr.contains("hint"), "{ended:#?}");
}

/// An ELF file for 32 bits that does nothing but pause(): a header, one program header, and the code.
#[cfg(target_arch = "x86_64")]
fn pausing_32_bit_program() -> Vec<u8> {
    const BASE: u32 = 0x0804_8000;
    const HEADERS: u32 = 52 + 32;
    // mov eax, 29 (pause); int 0x80; jmp back
    const CODE: [u8; 9] = [0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7];
    let mut file = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let half = |file: &mut Vec<u8>, value: u16| file.extend(value.to_le_bytes());
    let word = |file: &mut Vec<u8>, value: u32| file.extend(value.to_le_bytes());
    half(&mut file, 2); // an executable
    half(&mut file, 3); // for i386
    for value in [1, BASE + HEADERS, 52, 0, 0] {
        word(&mut file, value); // version, entry, program headers, section headers, flags
    }
    for value in [52, 32, 1, 0, 0, 0] {
        half(&mut file, value); // sizes and numbers of headers
    }
    let length = HEADERS + CODE.len() as u32;
    for value in [1, 0, BASE, BASE, length, length, 5, 0x1000] {
        word(&mut file, value); // load all of it, to read and execute
    }
    file.extend(CODE);
    file
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_32_bit_program() {
    if !can_measure() {
        return;
    }
    let path = std::env::temp_dir().join(format!("rlat-pause32-{}", std::process::id()));
    let mut options = std::fs::File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o700).open(&path).unwrap();
    file.write_all(&pausing_32_bit_program()).unwrap();
    drop(file);
    // Another test may have forked while the file was open for writing, and not have executed yet.
    let started = until("nobody writes to it", || match Command::new(&path).spawn() {
        Err(error) if error.raw_os_error() == Some(Errno::ETXTBSY as i32) => None,
        started => Some(started),
    });
    let pause = match started {
        Ok(child) => Killed(child),
        Err(error) => {
            std::fs::remove_file(&path).unwrap();
            let no_32_bit = error.raw_os_error() == Some(Errno::ENOEXEC as i32);
            assert!(no_32_bit, "{error}");
            requirements::skip("this kernel runs no 32-bit programs");
            return;
        }
    };
    let pid = pause.0.id();
    until("it pauses", || match activity(pid, pid) {
        Ok(Activity::InSyscall { number: 29, .. }) => Some(()),
        _ => None,
    });
    let hints = hints([&pid.to_string()]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        hints,
        format!(
            "ready\n\
             rlat: warning: process {pid} executes a 32-bit program: its calls do not pass the \
             tracepoints of a 64-bit kernel, and will not be seen\n\
             hint: process {pid} executes a 32-bit program, and its calls do not pass these tracepoints\n\
             hint: process {pid} was in system call 29 all the time\n\
             hint: try `strace -c -f -p {pid}`, which counts the calls of such a program\n"
        )
    );
}

/// Hints on a command that makes none of the measured calls. It is fsync() that is measured.
fn of_command(options: &[&str], command: &[&str]) -> String {
    let mut rlat = rlat(["-e", "fsync"]);
    rlat.args(options).arg("--").args(command).stdout(Stdio::null());
    let ended = Rlat::spawn(&mut rlat).ended();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.stderr.split_inclusive('\n').filter(|line| line.starts_with("hint: ")).collect()
}

#[test]
fn a_command_that_reads_and_writes() {
    if !can_measure() {
        return;
    }
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=1000", "status=none"];
    let hints = of_command(&[], &dd);
    // The kernel counts them where it has CONFIG_TASK_IO_ACCOUNTING. The loader reads, too.
    assert!(hints.contains("hint: the command made 1,0"), "{hints}");
    assert!(hints.contains(" and 1,000 calls that write, all of other kinds\n"), "{hints}");
    assert!(hints.ends_with("hint: try `rlat survey --follow -- CMD`, which shows every call\n"));
}

#[test]
fn a_command_whose_children_do_the_work() {
    if !can_measure() {
        return;
    }
    let started = "hint: the command has started other processes, whose calls are not measured: \
                   `--follow` measures them, too\n";
    let script = ["sh", "-c", "true; /bin/true; exit 0"];
    assert!(of_command(&[], &script).contains(started));
    assert!(!of_command(&["--follow"], &script).contains(started));
    assert!(!of_command(&[], &["true"]).contains(started));
}

#[test]
fn a_command_that_sleeps_and_one_without_that_descriptor() {
    if !can_measure() {
        return;
    }
    let hints = of_command(&[], &["sleep", "1"]);
    assert!(hints.contains("clock_nanosleep()"), "{hints}");
    assert!(hints.contains("or `rlat -e clock_nanosleep -- CMD`\n"), "{hints}");
    let hints = of_command(&["--fd", "99"], &["sleep", "0.2"]);
    assert!(hints.contains("hint: the command had no descriptor 99 open"), "{hints}");
}

#[test]
fn other_formats_have_hints_on_standard_error() {
    if !can_measure() {
        return;
    }
    let sleep = sleeper();
    let pid = sleep.0.id().to_string();
    for format in ["json", "csv"] {
        let mut command = rlat(["-d", "20ms", "-f", format, &pid]);
        let ended = Rlat::spawn(command.stdout(Stdio::piped())).ended();
        assert!(!ended.stdout.contains("hint"), "{ended:#?}");
        assert!(ended.stderr.contains("clock_nanosleep() all the time\n"), "{ended:#?}");
    }
}
