//! The goals, and how far each is met.

/// All of them, in the order in which they are looked at.
#[derive(Default)]
pub(crate) struct Goals(Vec<Goal>);

struct Goal {
    what: String,
    measured: String,
    value: f64,
    at_most: f64,
}

impl Goals {
    /// A ratio that is to be at most so much.
    pub(crate) fn ratio(&mut self, what: impl Into<String>, ratio: f64, at_most: f64) {
        self.add(what, format!("{ratio:.3}"), ratio, at_most);
    }

    /// Any number that is to be at most so much, with its own way to write it.
    pub(crate) fn add(
        &mut self,
        what: impl Into<String>,
        measured: String,
        value: f64,
        at_most: f64,
    ) {
        self.0.push(Goal { what: what.into(), measured, value, at_most });
    }

    pub(crate) fn print(&self) {
        println!("\n{:<66} {:>10} {:>9}", "goal", "measured", "at most");
        for Goal { what, measured, value, at_most } in &self.0 {
            let verdict = if value <= at_most { "met" } else { "MISSED" };
            let at_most =
                if *at_most < 0.1 { format!("{at_most:.3}") } else { format!("{at_most:.2}") };
            println!("{what:<66} {measured:>10} {at_most:>9} {verdict}");
        }
    }
}
