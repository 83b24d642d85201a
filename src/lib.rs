//! rlat measures how long the system calls of a process take, with BPF instructions that it writes
//! itself.
//!
//! This crate is also a reference on how BPF works from the ground up: there is no library between
//! it and the kernel. Follow one read() call to a row of the histogram in five files:
//!
//! 1. [`insn`]: the instruction set, the assembler, and what a program looks like as bytes and text;
//! 2. [`maps`]: memory that programs and this process share;
//! 3. [`loader`]: bpf(2), the verifier and its log, attaching to a tracepoint;
//! 4. [`latency`]: the three programs, the layout of their memory, the window, the ledger;
//! 5. [`report`]: from an [`Outcome`](latency::Outcome) to text.
//!
//! The book in `docs/` tells the same from the ground up; each room has its chapter:
//!
//! | room | chapters of the book |
//! |---|---|
//! | [`insn`] | `docs/01-instruction.md`, eight bytes by hand |
//! | [`histogram`] | `docs/06-log2.md`, a bucket without a loop |
//! | [`maps`] | `docs/03-maps.md` |
//! | [`loader`] | `docs/02-return-0.md`, from bytes to attached |
//! | [`verifier`] | `docs/07-verifier.md`, how it thinks; `docs/07-rejections.md`, what it refuses |
//! | [`tracefs`] | `docs/04-tracepoints.md`, ids and formats |
//! | [`latency`] | `docs/05-pairing.md`, entry and exit, and all the ways to lose a call |
//! | [`calibration`] | chapter 8, `docs/cost.md`: what it costs |
//! | [`process`] | `docs/09-namespaces.md`, where PIDs come from |
//! | [`elf`], [`btf`] | `docs/10-elf-and-btf.md` |
//!
//! Programs also go to files and come from there: [`insn::text`] is how they are written down, [`elf`]
//! and [`btf`] make object files of them that other loaders take.
//!
//! Beside them: [`survey`] measures all calls of a process at once; [`calibration`] what measuring costs;
//! [`histogram`] has the buckets, [`tracefs`] the tracepoints, [`verifier`] what the verifier says in
//! words, [`process`] what /proc knows, [`host`] on what all of this runs,
//! [`confinement`] what is given up once the window is open, [`preflight`] whether it can, [`error`] what can
//! go wrong, [`mod@escape`] makes names safe for a terminal; [`commands`] and [`cli`] put it together.
//!
//! ```no_run
//! use rlat::histogram::Unit;
//! use rlat::latency::{ClosedBy, Measurement, Request, Returns, Subject, Syscall, Way};
//! use rlat::{process::Target, report, tracefs::Tracefs};
//!
//! let tracefs = Tracefs::open(None)?;
//! let request = Request {
//!     subject: &Subject::Processes(vec![Target::open(1234)?]),
//!     syscalls: Syscall::find_all(&tracefs, &["read".to_owned()])?,
//!     descriptors: Vec::new(),
//!     returns: Returns::Any,
//!     unit: Unit::Us,
//!     linear: None,
//!     way: Way::Tracepoint,
//!     tracefs: Some(&tracefs),
//!     starts: None,
//! };
//! let mut measurement = Measurement::attach(request, &mut |_step| {})?;
//! measurement.open();
//! std::thread::sleep(std::time::Duration::from_secs(1));
//! let outcome = measurement.close(ClosedBy::Time)?;
//! print!("{}", report::text::measurement(&outcome, report::View::default()));
//! # Ok::<(), rlat::error::Error>(())
//! ```

pub mod btf;
pub mod calibration;
pub mod cli;
pub mod commands;
pub mod confinement;
pub mod elf;
pub mod error;
pub mod escape;
pub mod histogram;
pub mod host;
pub mod insn;
pub mod latency;
pub mod loader;
pub mod maps;
pub mod preflight;
pub mod process;
pub mod report;
pub mod survey;
pub mod tracefs;
pub mod verifier;
