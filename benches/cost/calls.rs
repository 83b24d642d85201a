//! The time of one call, of the measured process and of another one, with this and that attached.

use std::time::{Duration, Instant};

use rlat::calibration::{Added, Call, Caller, Nanos, Sample};
use rlat::tracefs::Tracefs;

use crate::goals::Goals;
use crate::peers::{Peer, PeerKind};
use crate::setups::Setup;

const ROUNDS: usize = 15;
/// Runs of each kind in a round, of which the fastest counts: somebody else had the CPU in the others.
const RUNS: usize = 60;
/// Slow tracers are given no more time than that for them.
const LONGEST: Duration = Duration::from_millis(150);
const FEWEST_RUNS: usize = 3;

/// What is measured in each row: which call, and whether the caller is the traced process.
const COLUMNS: [(&str, Call, bool); 4] = [
    ("read", Call::Read, true),
    ("getppid", Call::Getppid, true),
    ("other's read", Call::Read, false),
    ("other's getppid", Call::Getppid, false),
];
pub(crate) const READ: usize = 0;
pub(crate) const OTHERS_READ: usize = 2;
pub(crate) const OTHERS_GETPPID: usize = 3;

/// What is attached in a row.
#[derive(Clone, Copy)]
pub(crate) enum Traced<'a> {
    By(Setup),
    ByPeer(&'a Peer),
}

impl Traced<'_> {
    fn name(self) -> String {
        match self {
            Self::By(setup) => setup.name().to_owned(),
            Self::ByPeer(peer) => peer.name(),
        }
    }
}

/// The rows, the untraced one first.
pub(crate) struct Table<'a>(Vec<Row<'a>>);

struct Row<'a> {
    traced: Traced<'a>,
    /// For each column the fastest run of each round.
    rounds: [Sample; COLUMNS.len()],
}

pub(crate) fn measure<'a>(traced: &[Traced<'a>], tracefs: &Tracefs, cpu: usize) -> Table<'a> {
    let (measured, other) = (Caller::start(cpu).unwrap(), Caller::start(cpu).unwrap());
    let row = |traced: &Traced<'a>| Row { traced: *traced, rounds: Default::default() };
    let mut rows: Vec<Row<'a>> = traced.iter().map(row).collect();
    for _ in 0..ROUNDS {
        for row in &mut rows {
            let rounds = &mut row.rounds;
            let mut round = || {
                for (sample, (_, call, is_measured)) in rounds.iter_mut().zip(COLUMNS) {
                    sample.add(fastest(if is_measured { &measured } else { &other }, call));
                }
            };
            match row.traced {
                Traced::By(setup) => setup.run(measured.pid(), tracefs, round),
                Traced::ByPeer(peer) => {
                    let running = peer.attach(measured.pid());
                    round();
                    running.end();
                }
            }
        }
    }
    Table(rows)
}

fn fastest(caller: &Caller, call: Call) -> f64 {
    let begun = Instant::now();
    let mut least = f64::INFINITY;
    for run in 0..RUNS {
        if run >= FEWEST_RUNS && begun.elapsed() > LONGEST {
            break;
        }
        least = least.min(caller.nanos_per(call).unwrap());
    }
    least
}

impl Table<'_> {
    /// What that row adds to a call.
    fn added(&self, row: &Row<'_>, column: usize) -> Nanos {
        let untraced = self.0[0].rounds[column].nanos().unwrap();
        Added { untraced, traced: row.rounds[column].nanos().unwrap() }.added()
    }

    /// The same for the row that is found so, if there is one.
    fn added_by(&self, is_it: impl Fn(Traced<'_>) -> bool, column: usize) -> Option<f64> {
        let row = self.0.iter().find(|row| is_it(row.traced))?;
        Some(self.added(row, column).min)
    }

    pub(crate) fn print(&self) {
        println!("\nns added to one call: the least of {ROUNDS} rounds (the median)");
        print!("{:<28}", "");
        for (name, ..) in COLUMNS {
            print!(" {name:>18}");
        }
        println!();
        print!("{:<28}", "nothing: the call itself");
        for sample in &self.0[0].rounds {
            let Nanos { min, median } = sample.nanos().unwrap();
            print!(" {min:>10.0} {:>7}", format!("({median:.0})"));
        }
        println!();
        for row in &self.0[1..] {
            print!("{:<28}", row.traced.name());
            for column in 0..COLUMNS.len() {
                let Nanos { min, median } = self.added(row, column);
                print!(" {min:>+10.0} {:>7}", format!("({median:+.0})"));
            }
            println!();
        }
    }
}

/// Compares the rows with each other.
pub(crate) fn judge(table: &Table<'_>, goals: &mut Goals) {
    let ours = |setup: Setup, column| {
        table.added_by(|traced| matches!(traced, Traced::By(it) if it == setup), column)
    };
    let theirs = |kind: PeerKind, column| {
        table.added_by(|traced| matches!(traced, Traced::ByPeer(peer) if peer.kind == kind), column)
    };
    for (us, them, column, at_most) in [
        (Setup::Rlat, Setup::EmptyWithClock, READ, 1.25),
        (Setup::Rlat, Setup::Empty, OTHERS_READ, 1.10),
        (Setup::Rlat, Setup::Empty, OTHERS_GETPPID, 1.05),
    ] {
        if let (Some(a), Some(b)) = (ours(us, column), ours(them, column)) {
            let what = format!("{}: {} / {}", COLUMNS[column].0, us.name(), them.name());
            goals.ratio(what, a / b, at_most);
        }
    }
    for (us, them, at_most) in [
        (Setup::Rlat, PeerKind::Bpftrace, 0.50),
        (Setup::RlatRaw, PeerKind::Bpftrace, 0.35),
        (Setup::Rlat, PeerKind::NewestBpftrace, 0.50),
        (Setup::RlatRaw, PeerKind::NewestBpftrace, 0.35),
    ] {
        if let (Some(a), Some(b)) = (ours(us, READ), theirs(them, READ)) {
            goals.ratio(format!("read: {} / {}", us.name(), them.name()), a / b, at_most);
        }
    }
    // A load of read() and getppid() in equal parts.
    let mixed = |one: &dyn Fn(usize) -> Option<f64>| Some(f64::midpoint(one(READ)?, one(1)?));
    for (them, at_most) in [(PeerKind::Strace, 0.02), (PeerKind::PerfTrace, 0.05)] {
        let survey = mixed(&|column| ours(Setup::Survey, column));
        if let (Some(a), Some(b)) = (survey, mixed(&|column| theirs(them, column))) {
            goals.ratio(format!("read and getppid: rlat survey / {}", them.name()), a / b, at_most);
        }
    }
}
