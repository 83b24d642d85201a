//! The ledger: where each call that entered has gone.
//!
//! A call that entered while the window was open ends in exactly one of four places: it returned and was
//! recorded, it is still in flight, its thread ended inside it, or it was lost. The programs count the
//! five numbers independently of each other, so that [`Ledger::balance`] can tell when one is wrong.

use std::time::Duration;

/// How many calls entered, and where they went.
///
/// ```
/// use rlat::latency::{Ledger, Lost};
///
/// let ledger = Ledger {
///     entered: 10,
///     recorded: 7,
///     in_flight: 1,
///     ended_without_exit: 0,
///     lost: Lost { store_full: 2, ..Lost::default() },
///     ..Ledger::default()
/// };
/// assert_eq!(ledger.balance(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Calls that entered while the window was open.
    pub entered: u64,
    /// Calls that entered and returned while it was open.
    pub recorded: u64,
    /// Calls that entered and had not returned when the window closed.
    pub in_flight: u64,
    /// Calls whose thread ended inside of them. A deadly signal makes a waiting call return to the
    /// kernel's own code with a restart code, but never to the program; so a call that returned so,
    /// and whose thread ended before its next read(), counts here.
    pub ended_without_exit: u64,
    /// Calls whose latency is not known.
    pub lost: Lost,
    /// Returns of calls that had entered before the window opened; on neither side of the balance.
    pub exits_without_start: u64,
    /// Calls that had entered before the window opened and did not return while it was open; `None`
    /// where the kernel does not let us look at what the threads are doing.
    pub in_flight_since_before: Option<u64>,
    /// Calls that returned -512 to -516: a signal interrupted them, and the kernel may restart them.
    /// They are recorded like any other, unless the thread ended without another read().
    pub restarted: u64,
    /// Recorded calls that are not in the histogram, because of what they returned.
    pub excluded: u64,
    /// Recorded calls that returned 0.
    pub returned_zero: u64,
    /// Recorded calls that returned an error.
    pub returned_error: u64,
    /// Which errors, by errno; 0 stands for those without a name.
    pub errors: Vec<(i32, u64)>,
}

impl Ledger {
    /// What is left of the calls that entered when all that is known of them is taken away: 0 when the
    /// numbers add up, positive when calls vanished, negative when more came out than went in.
    pub fn balance(&self) -> i128 {
        i128::from(self.entered)
            - i128::from(self.recorded)
            - i128::from(self.in_flight)
            - i128::from(self.ended_without_exit)
            - i128::from(self.lost.total())
    }
}

/// Calls that entered, and whose latency could not be recorded, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The store of start times had no room for one more thread.
    pub store_full: u64,
    /// The thread entered its next call with the start of this one still there: its exit was not seen.
    pub exit_missed: u64,
    /// The thread left a call that it was not seen to enter, and this was not its first exit in the
    /// window. These count as entered, too.
    pub entry_missed: u64,
    /// The clock at the exit was behind the clock at the entry.
    pub negative: u64,
}

impl Lost {
    /// All lost calls. It saturates: a corrupt counter must not stop the report that would show it.
    pub const fn total(&self) -> u64 {
        self.store_full
            .saturating_add(self.exit_missed)
            .saturating_add(self.entry_missed)
            .saturating_add(self.negative)
    }
}

/// How often the kernel skipped a program because another one was running on that CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissedRuns {
    /// Skipped runs of the program at the entry: calls that no other number knows.
    pub entry: u64,
    /// Skipped runs of the program at the exit.
    pub exit: u64,
    /// Skipped runs of the program at the end of a thread.
    pub thread_end: u64,
}

impl MissedRuns {
    /// All skipped runs. It saturates, as [`Lost::total`] does.
    pub const fn total(&self) -> u64 {
        self.entry.saturating_add(self.exit).saturating_add(self.thread_end)
    }
}

/// One call that had not returned when the window closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The process.
    pub pid: u32,
    /// The thread that is in the call.
    pub tid: u32,
    /// The name of the thread, as /proc has it; it may hold any character.
    pub thread: String,
    /// The descriptor that it is on, if the call takes one: programs pass -1 when they have none.
    pub descriptor: Option<i32>,
    /// What the descriptor stands for, where that could be found out: a path, or the like of `pipe:[1234]`.
    pub target: Option<String>,
    /// For how long the call has been going on.
    pub elapsed: Elapsed,
}

/// For how long a call has been going on when the window closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elapsed {
    /// It entered while the window was open.
    Exactly(Duration),
    /// It entered before the window opened; this is how long the window was open.
    AtLeast(Duration),
}
