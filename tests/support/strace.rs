//! What strace(1) counts.

use std::collections::BTreeMap;

/// The calls column and the errors column of `strace -c`.
pub(crate) fn strace_counts(text: &str) -> BTreeMap<String, (u64, u64)> {
    text.lines()
        .skip_while(|line| !line.starts_with("------"))
        .skip(1)
        .take_while(|line| !line.starts_with("------"))
        .map(|line| {
            let cells: Vec<&str> = line.split_ascii_whitespace().collect();
            let errors = if cells.len() == 6 { cells[4].parse().unwrap() } else { 0 };
            (cells[cells.len() - 1].to_owned(), (cells[3].parse().unwrap(), errors))
        })
        .collect()
}
