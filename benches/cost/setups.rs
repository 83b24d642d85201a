//! What is attached while the calls are made.

use rlat::histogram::Unit;
use rlat::insn::{Assembler, Helper, Program, Reg};
use rlat::latency::{AttachChoice, Chosen, Measurement, Needs, Request, Returns, Subject, choose};
use rlat::loader::sys::ProgramType;
use rlat::loader::{Attachment, Tracepoint, attach, attach_raw, load};
use rlat::maps::cpus;
use rlat::process::Target;
use rlat::survey::Survey;
use rlat::tracefs::Tracefs;

/// What is attached in one row of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setup {
    Nothing,
    /// Two programs that return at once, where rlat attaches its own: what no tracer there can go below.
    Empty,
    /// Two that read the clock, which no tracer of latencies can do without.
    EmptyWithClock,
    /// Two that return at once, on the raw tracepoints.
    EmptyRaw,
    Rlat,
    RlatRaw,
    /// Every call of the process.
    Survey,
}

impl Setup {
    pub(crate) const ALL: [Self; 7] = [
        Self::Nothing,
        Self::Empty,
        Self::EmptyWithClock,
        Self::EmptyRaw,
        Self::Rlat,
        Self::RlatRaw,
        Self::Survey,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Empty => "two empty programs",
            Self::EmptyWithClock => "the same, reading the clock",
            Self::EmptyRaw => "two empty programs, raw",
            Self::Rlat => "rlat",
            Self::RlatRaw => "rlat --attach raw",
            Self::Survey => "rlat survey",
        }
    }

    /// Attaches it to measure process `pid`, calls `while_attached`, and detaches.
    pub(crate) fn run(self, pid: u32, tracefs: &Tracefs, while_attached: impl FnOnce()) {
        match self {
            Self::Nothing => while_attached(),
            Self::Empty => {
                let _attached = on_tracepoints(&returning(false), tracefs);
                while_attached();
            }
            Self::EmptyWithClock => {
                let _attached = on_tracepoints(&returning(true), tracefs);
                while_attached();
            }
            Self::EmptyRaw => {
                let program = load(&returning(false), ProgramType::RawTracepoint, &[]).unwrap();
                let _attached = [c"sys_exit", c"sys_enter"].map(|name| attach_raw(&program, name));
                while_attached();
            }
            Self::Rlat => with_rlat(pid, AttachChoice::Tracepoint, while_attached),
            Self::RlatRaw => with_rlat(pid, AttachChoice::Raw, while_attached),
            Self::Survey => {
                let subject = Subject::Processes(vec![Target::open(pid).unwrap()]);
                let mut survey = Survey::attach(&subject, &mut |_| {}).unwrap();
                survey.open();
                while_attached();
                assert!(survey.recorded() > 0, "it does not see any call");
            }
        }
    }
}

pub(crate) fn with_rlat(pid: u32, choice: AttachChoice, while_attached: impl FnOnce()) {
    let subject = Subject::Processes(vec![Target::open(pid).unwrap()]);
    let syscalls = ["read".to_owned()];
    let needs = Needs { tracefs: None, syscalls: &syscalls, descriptors: false, follow: false };
    let Chosen { way, syscalls, tracefs, .. } = choose(choice, needs).unwrap();
    let request = Request {
        subject: &subject,
        syscalls,
        descriptors: Vec::new(),
        returns: Returns::Any,
        unit: Unit::Us,
        linear: None,
        way,
        tracefs: tracefs.as_ref(),
        starts: None,
    };
    let mut measurement = Measurement::attach(request, &mut |_| {}).unwrap();
    measurement.open();
    while_attached();
    assert!(measurement.recorded() > 0, "it does not measure");
}

/// A program that returns, and reads the clock before if that is asked for.
fn returning(clock: bool) -> Program {
    let mut asm = Assembler::new("empty");
    if clock {
        asm.call(Helper::KtimeGetNs);
    }
    asm.mov(Reg::R0, 0);
    asm.exit();
    asm.finish().unwrap()
}

fn on_tracepoints(program: &Program, tracefs: &Tracefs) -> [Attachment; 2] {
    let program = load(program, ProgramType::Tracepoint, &[]).unwrap();
    ["sys_exit_read", "sys_enter_read"].map(|name| {
        let id = tracefs.tracepoint_id("syscalls", name).unwrap();
        let tracepoint = Tracepoint { category: "syscalls".to_owned(), name: name.to_owned(), id };
        attach(&program, &tracepoint, cpus::first_online().unwrap()).unwrap()
    })
}
