//! Numbers for people: times with a unit, counts in groups of three digits.

use crate::histogram::Unit;

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

/// A time in at most six columns up to a day, for tables: three significant digits, cut off, and the
/// unit.
pub fn short_time(ns: u128) -> String {
    let (unit, unit_ns) = match ns {
        0..1_000 => return format!("{ns}ns"),
        1_000..1_000_000 => ("us", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let whole = ns / unit_ns;
    let hundredths = ns % unit_ns * 100 / unit_ns;
    match whole {
        0..10 => format!("{whole}.{hundredths:02}{unit}"),
        10..100 => format!("{whole}.{}{unit}", hundredths / 10),
        _ => format!("{whole}{unit}"),
    }
}

/// A time that is known in whole units only, rounded down: below one, all that is known is `<1 us`.
pub fn whole_units(n: u64, unit: Unit) -> String {
    match n {
        0 if unit == Unit::Ns => "0 ns".to_owned(),
        0 => format!("<1 {}", unit.name()),
        1..1000 => format!("{n} {}", unit.name()),
        _ => time(u128::from(n) * u128::from(unit.nanos())),
    }
}

/// A time as the edge of a bucket: three significant digits, cut off, without zeros at the end.
pub fn edge_time(n: u128, unit: Unit) -> String {
    let ns = n * u128::from(unit.nanos());
    let (name, unit_ns) = match ns {
        0 => return "0".to_owned(),
        1..1_000 => ("ns", 1),
        1_000..1_000_000 => ("us", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let whole = ns / unit_ns;
    let hundredths = ns % unit_ns * 100 / unit_ns;
    let text = match whole {
        0..10 => format!("{whole}.{hundredths:02}"),
        10..100 => format!("{whole}.{}", hundredths / 10),
        _ => return format!("{whole}{name}"),
    };
    format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
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
    fn whole_units_of_each_kind() {
        assert_eq!(whole_units(0, Unit::Us), "<1 us");
        assert_eq!(whole_units(0, Unit::Ns), "0 ns");
        assert_eq!(whole_units(255, Unit::Us), "255 us");
        assert_eq!(whole_units(1055, Unit::Us), "1.055 ms");
        assert_eq!(whole_units(7, Unit::S), "7 s");
        assert_eq!(whole_units(u64::MAX, Unit::Us), "18446744073709 s");
    }

    #[test]
    fn short_times() {
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.00us"),
            (3_219, "3.21us"),
            (12_999, "12.9us"),
            (999_999, "999us"),
            (1_239_999, "1.23ms"),
            (59_999_999_999, "59.9s"),
            (86_400_000_000_000, "86400s"),
        ] {
            assert_eq!(short_time(ns), text);
        }
        assert_eq!(short_time(u128::from(u64::MAX)), "18446744073s");
    }

    #[test]
    fn edges() {
        for (us, text) in [
            (0, "0"),
            (1, "1us"),
            (512, "512us"),
            (1024, "1.02ms"),
            (2000, "2ms"),
            (16_384, "16.3ms"),
            (131_072, "131ms"),
            (1 << 20, "1.04s"),
            (1 << 34, "17179s"),
        ] {
            assert_eq!(edge_time(us, Unit::Us), text);
        }
        assert_eq!(edge_time(64, Unit::Ns), "64ns");
    }

    #[test]
    fn groups() {
        assert_eq!(grouped(0_u64), "0");
        assert_eq!(grouped(999_u64), "999");
        assert_eq!(grouped(1_000_u64), "1,000");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }
}
