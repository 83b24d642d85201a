//! What rlat printed, taken apart.

use std::fmt;

/// The numbers of the ledger's line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) entered: u64,
    /// Those that entered before the window, and were in flight all the time.
    pub(crate) before: u64,
    pub(crate) recorded: u64,
    pub(crate) in_flight: u64,
    pub(crate) ended: u64,
    pub(crate) lost: u64,
}

impl Ledger {
    /// `4 entered = 1 recorded + 1 in flight + 1 ended without an exit + 1 lost`
    fn of(line: &str) -> Self {
        let mut ledger = Self::default();
        for term in line.split(['+', '=']) {
            let (count, what) = term.trim().split_once(' ').unwrap();
            let field = match what {
                "entered" => &mut ledger.entered,
                "entered before the window" => &mut ledger.before,
                "recorded" => &mut ledger.recorded,
                "in flight" => &mut ledger.in_flight,
                "ended without an exit" => &mut ledger.ended,
                "lost" => &mut ledger.lost,
                _ => panic!("a ledger with {term:?}"),
            };
            *field = number(count);
        }
        ledger
    }
}

/// A result that adds up: that is looked at whenever one is read.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) ledger: Ledger,
    /// The first microsecond of each row, and its count.
    pub(crate) rows: Vec<(u64, u64)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the report is:\n{}", self.text)
    }
}

impl Report {
    pub(crate) fn of(text: &str) -> Self {
        let calls = number(line(text, "@calls: ").unwrap_or_else(|| panic!("no result:\n{text}")));
        let report = Self {
            text: text.to_owned(),
            ledger: Ledger::of(line(text, "ledger: ").unwrap()),
            rows: text.lines().filter_map(row).collect(),
        };
        let Ledger { entered, before, recorded, in_flight, ended, lost } = report.ledger;
        assert_eq!(calls, recorded, "{report}");
        assert_eq!(report.rows.iter().map(|(_, count)| count).sum::<u64>(), calls, "{report}");
        assert_eq!(entered + before, recorded + in_flight + ended + lost, "{report}");
        assert!(!text.contains("WARNING"), "{report}");
        report
    }

    /// What follows in the line that begins so.
    pub(crate) fn line(&self, beginning: &str) -> Option<&str> {
        line(&self.text, beginning)
    }

    /// The calls that are listed as not returned.
    pub(crate) fn in_flight(&self) -> Vec<&str> {
        self.text.lines().filter_map(|line| line.strip_prefix("in flight: ")).collect()
    }

    /// Whether the kernel skipped one of the programs, as it may when others call bpf(2) meanwhile.
    /// Then the numbers can be too low, and no exact one can be asked of them.
    pub(crate) fn was_disturbed(&self) -> bool {
        self.line("missed runs: ").is_some_and(|runs| !runs.starts_with("unknown"))
    }
}

fn line<'a>(text: &'a str, beginning: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(beginning))
}

/// `1,234`
fn number(text: &str) -> u64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// `[512, 1K)              17 |@@@        |`
fn row(line: &str) -> Option<(u64, u64)> {
    let (label, rest) = line.strip_prefix('[')?.split_once([']', ')'])?;
    let first = label.split(',').next()?;
    let (digits, unit) = match first.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => first.split_at(at),
        None => (first, ""),
    };
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    let count = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some((digits.parse::<u64>().ok()? << shift, count))
}
