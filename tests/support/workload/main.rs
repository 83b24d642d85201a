//! What the tests measure: a program that makes exactly known read() calls.
//!
//! Its standard input is what it reads, so that a test decides when a read() returns. Its standard
//! output is a socket to the test: it reports there, and takes orders from there with recvfrom(2).
//! Whatever it does for its own sake it does without read(), for that would be counted.
//!
//! ```text
//! workload reads CALLS THREADS   at each order, THREADS threads make CALLS calls each on /dev/zero
//! workload short CALLS           at each order, CALLS calls, each in a thread that ends after it
//! workload crowd THREADS         at the first order, THREADS threads start, make one call each on a
//!                                descriptor that it reports, and end all together
//! workload mixed CALLS           at each order, CALLS calls on one descriptor, twice as many on
//!                                another and three times as many on a third, in turn
//! workload preads CALLS THREADS  the same calls of pread64(): a pool of threads that share a descriptor
//! workload maps                  from the first order on, reads a map through bpf(2) until it is ended
//! workload ring                  has an io_uring, if the kernel lets it: it reports that
//! workload input THREADS         from the first order on, THREADS threads read standard input, a
//!                                byte a call, until its end
//! workload handler               the same with one thread, and SIGUSR1 has a handler (SA_RESTART)
//! workload exec THREADS CALLS    the same, but at the second order one more thread calls execve(2),
//!                                which ends the others inside of their calls. What comes after it
//!                                makes CALLS calls on standard input at each order
//! workload reuse THREADS CALLS   as exec, but the calls that come after it are made by threads that
//!                                have the ids of those that were ended, CALLS by each
//! workload refuse CALL[:INDEX=VALUE] ERRNO COMMAND   starts COMMAND, to which system call CALL returns ERRNO,
//!                                with VALUE as that argument or with any
//! workload programs              lists the ids of all BPF programs in the kernel
//! workload translated ID         writes the name of that one, and its instructions as the kernel has them
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A failure here fails the test.

mod kernel;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::thread::{self, Builder};
use std::time::Instant;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{gettid, read};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["reads", calls, threads] => by_threads(number(calls), number(threads), |zero| {
            read_byte(zero);
        }),
        ["short", calls] => short(number(calls)),
        ["crowd", threads] => crowd(number(threads)),
        ["mixed", calls] => mixed(number(calls)),
        ["preads", calls, threads] => by_threads(number(calls), number(threads), |zero| {
            zero.read_exact_at(&mut [0], 0).unwrap();
        }),
        ["maps"] => maps(),
        ["ring"] => ring(),
        ["input", threads] => input(number(threads)),
        ["handler"] => handler(),
        [then @ ("exec" | "reuse"), threads, calls] => exec(then, number(threads), calls),
        ["after-exec", calls] => after_exec(number(calls)),
        ["after-reuse", calls, tids @ ..] => after_reuse(number(calls), tids),
        ["refuse", call, errno, command, args @ ..] => {
            let (call, argument) =
                call.split_once(':').map_or((*call, None), |(call, argument)| {
                    let (index, value) = argument.split_once('=').unwrap();
                    (call, Some((number(index), number(value))))
                });
            kernel::refuse(number(call), argument, number(errno));
            panic!("{command}: {}", Command::new(command).args(args).exec());
        }
        ["translated", id] => {
            let (name, insns) = kernel::translated(number(id));
            println!("{name}");
            io::stdout().write_all(&insns).unwrap();
        }
        ["programs"] => kernel::program_ids().for_each(|id| println!("{id}")),
        _ => panic!("not known (perhaps to an old build: `cargo build --examples`): {args:?}"),
    }
}

fn number<N: std::str::FromStr>(text: &str) -> N {
    text.parse().unwrap_or_else(|_| panic!("{text} is no such number"))
}

/// The orders of the test.
struct Orders(UnixStream);

impl Orders {
    /// Reports that all is prepared, and waits for the first order.
    fn ready() -> Self {
        let socket = io::stdout().as_fd().try_clone_to_owned().unwrap();
        let orders = Self(UnixStream::from(socket));
        println!("ready");
        orders.wait();
        orders
    }

    /// Reports that the order is carried out, and waits for the next one.
    fn done(&self) {
        println!("done");
        self.wait();
    }

    /// Ends the process when there will be no more orders.
    fn wait(&self) {
        // To read from a socket, the standard library calls recvfrom(2).
        if !matches!((&self.0).read(&mut [0]), Ok(1)) {
            std::process::exit(0);
        }
    }
}

/// One read() of one byte. Returns how many came: 0 at the end of the file.
fn read_byte(fd: impl AsFd) -> usize {
    read(fd, &mut [0]).unwrap()
}

fn zero() -> File {
    File::open("/dev/zero").unwrap()
}

fn by_threads(calls: usize, threads: usize, call: impl Fn(&File) + Sync) {
    let zero = zero();
    // The threads are there before the first order: to start one, the C library may read a file.
    let all_there = Barrier::new(threads + 1);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                all_there.wait();
                loop {
                    all_there.wait();
                    for _ in 0..calls {
                        call(&zero);
                    }
                    all_there.wait();
                }
            });
        }
        all_there.wait();
        let orders = Orders::ready();
        loop {
            all_there.wait();
            all_there.wait();
            orders.done();
        }
    });
}

fn short(calls: usize) {
    let zero = zero();
    let in_a_thread = || thread::scope(|scope| scope.spawn(|| read_byte(&zero)).join().unwrap());
    // What the C library reads for the sake of threads, it reads for the first one.
    in_a_thread();
    let orders = Orders::ready();
    loop {
        for _ in 0..calls {
            in_a_thread();
        }
        orders.done();
    }
}

fn crowd(threads: usize) {
    let zero = zero();
    println!("descriptor {}", zero.as_raw_fd());
    let orders = Orders::ready();
    let all_have_called = Barrier::new(threads);
    thread::scope(|scope| {
        for _ in 0..threads {
            let little = Builder::new().stack_size(1 << 16);
            let call = || {
                read_byte(&zero);
                all_have_called.wait();
            };
            little.spawn_scoped(scope, call).unwrap();
        }
    });
    orders.done();
}

fn mixed(calls: usize) {
    let zeros = [zero(), zero(), zero()];
    for zero in &zeros {
        println!("descriptor {}", zero.as_raw_fd());
    }
    let orders = Orders::ready();
    loop {
        for _ in 0..calls {
            for (more, zero) in zeros.iter().enumerate() {
                for _ in 0..=more {
                    read_byte(zero);
                }
            }
        }
        orders.done();
    }
}

fn maps() {
    let map = rlat::maps::HashMap::<u32, u64>::create("workload", 4).unwrap();
    map.set(&1, &1).unwrap();
    let _orders = Orders::ready();
    loop {
        map.get(&1).unwrap();
    }
}

fn ring() {
    let ring = kernel::io_uring();
    println!("ring {}", u32::from(ring.is_ok()));
    let orders = Orders::ready();
    loop {
        orders.done();
    }
}

fn input(threads: usize) {
    let begin = start_readers(threads);
    let orders = Orders::ready();
    begin.wait();
    orders.wait();
}

/// Threads that read standard input as soon as somebody waits for what this returns.
fn start_readers(threads: usize) -> Arc<Barrier> {
    let begin = Arc::new(Barrier::new(threads + 1));
    for number in 0..threads {
        let begin = Arc::clone(&begin);
        let reader = Builder::new().name(format!("reader-{number}"));
        reader.spawn(move || read_input(&begin)).unwrap();
    }
    begin
}

/// Reports the thread's id; then, after each call, how long it took at most.
fn read_input(begin: &Barrier) {
    begin.wait();
    println!("thread {}", gettid());
    loop {
        let before = Instant::now();
        let bytes = read_byte(io::stdin());
        println!("took {}", before.elapsed().as_nanos());
        if bytes == 0 {
            return;
        }
    }
}

fn handler() {
    // The handler writes to a socket, and from there the test learns that it has run.
    let (handled, to_tell) = UnixStream::pair().unwrap();
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGUSR1, to_tell).unwrap();
    thread::spawn(move || {
        SigSet::from(Signal::SIGUSR1).thread_block().unwrap();
        while matches!((&handled).read(&mut [0]), Ok(1)) {
            println!("handled");
        }
    });
    with_orders_elsewhere(|orders| {
        SigSet::from(Signal::SIGUSR1).thread_block().unwrap();
        orders.wait();
    });
}

/// The first thread is one of the readers, so that execve(2) gives its id to the thread that calls it.
fn exec(then: &str, threads: usize, calls: &str) {
    let mut after = Command::new(std::env::current_exe().unwrap());
    after.args([&format!("after-{then}"), calls]);
    let begin = start_readers(threads - 1);
    if then == "reuse" {
        after.args(kernel::own_tids().iter().map(ToString::to_string));
    }
    with_orders_elsewhere(move |orders| {
        begin.wait();
        orders.wait();
        panic!("{}", after.exec());
    });
}

/// Lets the first thread read standard input from the first order on, and another one follow orders.
fn with_orders_elsewhere(mut after_the_first: impl FnMut(Orders) + Send + 'static) {
    let begin = Arc::new(Barrier::new(2));
    let first_order = Arc::clone(&begin);
    thread::spawn(move || {
        let orders = Orders::ready();
        first_order.wait();
        after_the_first(orders);
    });
    read_input(&begin);
    thread::park(); // until there are no more orders
}

fn after_exec(calls: usize) {
    let orders = Orders::ready();
    loop {
        for _ in 0..calls {
            read_byte(io::stdin());
        }
        orders.done();
    }
}

fn after_reuse(calls: usize, tids: &[&str]) {
    let orders = Orders::ready();
    loop {
        for tid in tids.iter().map(|tid| number(tid)) {
            kernel::with_tid(tid, || {
                for _ in 0..calls {
                    read_byte(io::stdin());
                }
            });
        }
        orders.done();
    }
}
