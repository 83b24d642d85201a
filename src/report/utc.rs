//! Moments as RFC 3339 has them, in UTC: what a reader in another time zone, and a program, understands.

use std::time::{Duration, SystemTime};

/// `2026-11-30T08:51:02.001Z`: the moment in UTC, with the milliseconds cut off. Moments before 1970
/// are shown as its beginning.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use rlat::report::utc::utc;
///
/// let moment = UNIX_EPOCH + Duration::from_millis(1_709_164_799_999);
/// assert_eq!(utc(moment), "2024-02-28T23:59:59.999Z");
/// ```
pub fn utc(moment: SystemTime) -> String {
    let since_1970 = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = since_1970.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let millis = since_1970.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month and day of the Gregorian calendar, from the days since 1970-01-01.
///
/// The year begins on 1 March here, so that a leap day is its last day, and lengths of months follow
/// one formula: 153 days for each five months. 400 years have 146,097 days.
fn date(days_since_1970: u64) -> (u64, u64, u64) {
    const DAYS_FROM_MARCH_OF_YEAR_0: u64 = 719_468;
    let days = days_since_1970 + DAYS_FROM_MARCH_OF_YEAR_0;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leap_days = day_of_era / 1_460 + day_of_era / 146_096 - day_of_era / 36_524;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_since_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_since_march + 2) / 5 + 1;
    let month =
        if months_since_march < 10 { months_since_march + 3 } else { months_since_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (19_782, (2024, 2, 29)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn each_day_follows_the_one_before() {
        let leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..200_000 {
            assert_eq!(date(days), (year, month, day));
            let length = match month {
                2 => 28 + u64::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn before_1970_is_its_beginning() {
        let early = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(utc(early), "1970-01-01T00:00:00.000Z");
    }
}
