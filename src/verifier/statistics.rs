//! What the search has cost, from the last lines of the log.

use std::fmt;

/// The numbers that the kernel gives; a kernel that leaves one out leaves `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Instructions that were gone through, one as often as paths lead through it.
    pub instructions: Option<u64>,
    /// How many would have been too many.
    pub limit: Option<u64>,
    /// States that were kept, to compare later paths with.
    pub states: Option<u64>,
    /// The most that were kept at one time.
    pub peak_states: Option<u64>,
    /// Bytes of stack: the most that a chain of calls takes; before Linux 7.3 the sum over all functions.
    pub stack_bytes: Option<u64>,
    /// Microseconds.
    pub time_us: Option<u64>,
}

impl Statistics {
    /// Reads them; `None` when the log has none.
    ///
    /// ```
    /// let log = "verification time 1756 usec\nstack depth 8+16\nprocessed 6 insns (limit 1000000) \
    ///            max_states_per_insn 0 total_states 1 peak_states 1 mark_read 0\n";
    /// assert_eq!(
    ///     rlat::verifier::Statistics::read(log).unwrap().to_string(),
    ///     "6 instructions processed (limit 1000000), 1 state, 1 at the peak, 24 bytes of stack, 1756 us"
    /// );
    /// ```
    pub fn read(log: &str) -> Option<Self> {
        let mut read = Self::default();
        let mut functions = None;
        for line in log.lines().map(str::trim) {
            let number = |name| number_behind(line, name);
            if line.starts_with("processed ") {
                read.instructions = number("processed");
                read.limit = number("(limit");
                read.states = number("total_states");
                read.peak_states = number("peak_states");
            } else if let Some((_, time)) = line.split_once("verification time ") {
                // Not always at the beginning: some messages have no end of line.
                read.time_us = time.split(' ').next().and_then(|number| number.parse().ok());
            } else if let Some(depths) = line.strip_prefix("stack depth ") {
                let bytes = depths.trim_start_matches("max ").split('+').map(str::parse::<u64>);
                read.stack_bytes = bytes.sum::<Result<u64, _>>().ok();
            } else if line.starts_with("subprog ") && line.contains(" stack ") {
                functions = functions.max(number("stack"));
            }
        }
        // Linux 7.3 gives up the chain of calls when it refuses a program, but not each function.
        read.stack_bytes = read.stack_bytes.max(functions);
        (read != Self::default()).then_some(read)
    }
}

/// The number behind a word.
fn number_behind(line: &str, name: &str) -> Option<u64> {
    let mut words = line.split(' ').skip_while(|word| *word != name).skip(1);
    words.next()?.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(instructions) = self.instructions {
            let limit = self.limit.map_or(String::new(), |limit| format!(" (limit {limit})"));
            parts.push(format!("{} processed{limit}", counted(instructions, "instruction")));
        }
        parts.extend(self.states.map(|states| counted(states, "state")));
        parts.extend(self.peak_states.map(|states| format!("{states} at the peak")));
        parts.extend(self.stack_bytes.map(|bytes| format!("{} of stack", counted(bytes, "byte"))));
        parts.extend(self.time_us.map(|time| format!("{time} us")));
        f.write_str(&parts.join(", "))
    }
}

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_before_and_a_message_on_the_same_line_do_not_hide_the_numbers() {
        let log = "\texpected prog array map for tail callverification time 35 usec\n\
                   \tprocessed 3 insns (limit 9)\n";
        let read = Statistics::read(log).unwrap();
        assert_eq!((read.time_us, read.instructions, read.limit), (Some(35), Some(3), Some(9)));
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        assert_eq!(Statistics::read("R0 !read_ok\n"), None);
        assert_eq!(Statistics::read("processed x insns\nstack depth 1+y\n"), None);
        let newest =
            "stack depth max 0\nsubprog 0 (<unknown>) main insns_self 6 insns_total 6 stack 8\n";
        assert_eq!(Statistics::read(newest).unwrap().stack_bytes, Some(8));
    }
}
