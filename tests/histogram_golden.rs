//! The rows of a histogram against those that bpftrace 0.17 printed for the same values.
//!
//! In tests/data/hist/, `NAME.values` has one `value count` a line, and `NAME.txt` is what bpftrace printed
//! for a program that calls `@ = hist(value)` that many times.

#![allow(clippy::unwrap_used)] // All of this file is tests.

use rlat::histogram::log2::{RECORDED_K, bucket_index};
use rlat::histogram::{Histogram, Unit};
use rlat::report::Labels;
use rlat::report::rows::histogram_rows;

fn check(values: &str, rows: &str) {
    let mut histogram = Histogram::new(Unit::Us);
    for line in values.lines() {
        let (value, count) = line.split_once(' ').unwrap();
        let index = bucket_index(value.parse().unwrap(), RECORDED_K);
        histogram.add_bucket(index, count.parse().unwrap());
    }
    assert_eq!(histogram_rows(&histogram.rows(0), Unit::Us, Labels::Power), rows);
}

macro_rules! golden {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            check(
                include_str!(concat!("data/hist/", stringify!($name), ".values")),
                include_str!(concat!("data/hist/", stringify!($name), ".txt")),
            );
        }
    )*};
}

golden! { zero one gap edges typical bars random_1 random_2 }
