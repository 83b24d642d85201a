//! The command line, defined once: parsing and help come from it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

const EXAMPLES: &str = "\
Examples:
  rlat 1234               read() calls of process 1234, all its threads, for 30 seconds
  rlat 1234 7             only those on descriptor 7
  rlat -d 5s 1234         for 5 seconds; also 500ms, 2m, 1h, or a bare number of seconds
  rlat -d 0 1234          until Ctrl-C
  rlat -v 1234 2>log      with the loading steps and the verifier's log
  rlat $(pidof postgres | tr ' ' '\\n' | tail -1)

Ctrl-C ends the measurement early and prints what there is; a second one quits.

Exit codes: 0 measured, 1 other failure, 2 usage, 3 permission, 4 the kernel lacks something,
5 the verifier refused a program, 6 no such process.";

/// Shows how long the read() calls of a process take, as a histogram.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// The process to measure, with all its threads
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub pid: u32,

    /// Measure only read() calls on this descriptor of the process
    #[arg(value_name = "FD", value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX)))]
    pub descriptor: Option<u32>,

    /// How long to measure: 500ms, 5s, 2m, 1h, or a number of seconds; 0 means until Ctrl-C
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub duration: Duration,

    /// Show the loading steps and the verifier's log on standard error
    #[arg(short, long)]
    pub verbose: bool,

    /// Where tracefs is mounted; found, or mounted for rlat alone, when not given
    #[arg(long, value_name = "DIR")]
    pub tracefs: Option<PathBuf>,
}

/// The longest that can be asked for. Longer ones are more likely to be a slip than meant.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads a duration: a decimal number, and `ms`, `s`, `m` or `h`.
fn duration(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let nanos_per_unit = match unit {
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3600 * 1_000_000_000,
        _ => return Err("give a number and ms, s, m or h, such as 500ms or 2m".to_owned()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err("give a number such as 30, 1.5s or 500ms".to_owned());
    }
    let duration = whole
        .parse::<u64>()
        .ok()
        .and_then(|whole| {
            whole.checked_mul(nanos_per_unit)?.checked_add(part(fraction, nanos_per_unit))
        })
        .map(Duration::from_nanos)
        .filter(|duration| *duration <= LONGEST)
        .ok_or_else(|| "at most 365 days (8760h)".to_owned())?;
    if duration.is_zero() && number.contains(|c| matches!(c, '1'..='9')) {
        return Err("this is less than a nanosecond; 0 means until Ctrl-C".to_owned());
    }
    Ok(duration)
}

/// The digits after the point, in nanoseconds: each is worth a tenth of the one before.
fn part(fraction: &str, nanos_per_unit: u64) -> u64 {
    let digits = fraction.bytes().map(|digit| u64::from(digit - b'0'));
    let worths = std::iter::successors(Some(nanos_per_unit / 10), |worth| Some(worth / 10));
    digits.zip(worths).map(|(digit, worth)| digit * worth).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_as_people_write_them() {
        for (text, millis) in [
            ("0", 0),
            ("30", 30_000),
            ("0.5", 500),
            ("500ms", 500),
            ("5s", 5_000),
            ("1.25s", 1_250),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("8760h", 31_536_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "s",
            "-1",
            "+1",
            "1.",
            ".5",
            "1..2",
            "1e3",
            "NaN",
            "inf",
            "1 s",
            "5 ",
            "5d",
            "1s1s",
            "8761h",
            "18446744073709551616",
            "99999999999999999999999h",
            "0.0000000001",
            "٣",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: String) {
            let _ = duration(&text);
        }
    }
}
