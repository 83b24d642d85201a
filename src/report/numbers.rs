//! Numbers for people: times with a unit, counts in groups of three digits.

/// A time with the unit that fits, and four significant digits where the nanoseconds give them.
///
/// Further digits are cut off, as the buckets do, so that "more than" such a time is true.
pub fn time(ns: u128) -> String {
    let (unit, unit_ns) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("us", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let whole = ns / unit_ns;
    let thousandths = ns % unit_ns * 1000 / unit_ns;
    match whole {
        0..10 => format!("{whole}.{thousandths:03} {unit}"),
        10..100 => format!("{whole}.{:02} {unit}", thousandths / 10),
        100..1000 => format!("{whole}.{} {unit}", thousandths / 100),
        _ => format!("{whole} {unit}"),
    }
}

/// A time that is known in whole microseconds only, rounded down: below one, all that is known is `<1 us`.
pub fn whole_microseconds(us: u64) -> String {
    match us {
        0 => "<1 us".to_owned(),
        1..1000 => format!("{us} us"),
        _ => time(u128::from(us) * 1000),
    }
}

/// A count with a comma after every three digits: `1,234,567`.
pub fn grouped(n: impl Into<u128>) -> String {
    let digits = n.into().to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (ns, text) in [
            (0, "0 ns"),
            (812, "812 ns"),
            (3_210, "3.210 us"),
            (12_345, "12.34 us"),
            (999_999, "999.9 us"),
            (1_234_567, "1.234 ms"),
            (30_000_000_000, "30.00 s"),
            (86_400_000_000_000, "86400 s"),
        ] {
            assert_eq!(time(ns), text);
        }
    }

    #[test]
    fn microseconds() {
        assert_eq!(whole_microseconds(0), "<1 us");
        assert_eq!(whole_microseconds(255), "255 us");
        assert_eq!(whole_microseconds(1055), "1.055 ms");
        assert_eq!(whole_microseconds(u64::MAX), "18446744073709 s");
    }

    #[test]
    fn groups() {
        assert_eq!(grouped(0_u64), "0");
        assert_eq!(grouped(999_u64), "999");
        assert_eq!(grouped(1_000_u64), "1,000");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }
}
