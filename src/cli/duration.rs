//! A length of time as people write it.

use std::time::Duration;

/// The longest that can be asked for. Longer ones are more likely to be a slip than meant.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads a duration: a decimal number, and `ms`, `s`, `m` or `h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let nanos_per_unit = match unit {
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3600 * 1_000_000_000,
        _ => {
            return Err(
                "give a number and ms, s, m or h, such as 500ms or 2m, up to 365 days".to_owned()
            );
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err("give a number such as 30, 1.5s or 500ms, up to 365 days".to_owned());
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

/// The shortest interval: each takes a walk through all buckets of all CPUs, and a page of text.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Reads the length of an interval, which cannot be 0.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let length = duration(text)?;
    if length < SHORTEST_INTERVAL { Err("at least 100ms".to_owned()) } else { Ok(length) }
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
    fn an_interval_is_not_too_short() {
        assert_eq!(interval("0.1"), Ok(SHORTEST_INTERVAL));
        for text in ["0", "99ms", "0.0999999999", "-1", "", "NaN", "8761h"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: String) {
            let _ = duration(&text);
        }
    }
}
