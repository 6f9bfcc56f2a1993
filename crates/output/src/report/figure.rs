//! Values of a report as text for people: three digits, and a unit prefix.

use crate::number::{push_decimal, push_time_us};
use crate::text::push_clean;
use sockeye_measure::{Unit, Value};

/// Appends a value; nothing if it is absent.
pub(super) fn push(out: &mut Vec<u8>, unit: Unit, value: &Value) {
    match value {
        Value::Absent => {}
        Value::Text(text) => push_clean(out, text.as_bytes()),
        Value::Bool(yes) => out.extend_from_slice(if *yes { b"yes" } else { b"no" }),
        Value::Whole(number) if is_plain(unit, *number) => push_decimal(out, *number),
        Value::Whole(number) => push_scaled(out, unit, *number as f64, true),
        Value::Real(number) if number.is_finite() => push_scaled(out, unit, *number, false),
        Value::Real(_) => {}
    }
}

/// Returns a round number as the label of an axis.
pub(super) fn short(unit: Unit, number: f64) -> String {
    let mut out = Vec::new();
    push_scaled(&mut out, unit, number, false);
    let text = String::from_utf8_lossy(&out).into_owned();
    let is_digit = |character: char| character.is_ascii_digit() || ".-".contains(character);
    let end = text.find(|character| !is_digit(character)).unwrap_or(text.len());
    let (digits, name) = text.split_at(end);
    format!("{}{name}", trimmed(digits.to_owned()))
}

/// Returns whether the value is present and finite.
pub(super) fn is_present(value: &Value) -> bool {
    match value {
        Value::Absent => false,
        Value::Real(number) => number.is_finite(),
        Value::Whole(_) | Value::Bool(_) | Value::Text(_) => true,
    }
}

/// Returns whether the value is a number above 0.
pub(super) fn is_positive(value: &Value) -> bool {
    match value {
        Value::Whole(number) => *number > 0,
        Value::Real(number) => *number > 0.0,
        Value::Absent | Value::Bool(_) | Value::Text(_) => false,
    }
}

/// Returns whether a whole number is shown with all of its digits.
const fn is_plain(unit: Unit, number: u64) -> bool {
    match unit {
        Unit::Text | Unit::Number => true,
        Unit::Count => number < EXACT_BELOW,
        _ => false,
    }
}

fn push_scaled(out: &mut Vec<u8>, unit: Unit, number: f64, exact: bool) {
    if number < 0.0 {
        out.push(b'-');
    }
    let size = number.abs();
    let text = match unit {
        Unit::Text | Unit::Number => trimmed(format!("{size:.3}")),
        Unit::Count if size < EXACT_BELOW as f64 => trimmed(digits(size)),
        Unit::Count => scaled(size, 1000.0, &["", "K", "M", "G", "T", "P", "E"], false),
        Unit::Bytes => scaled(size, 1024.0, &["B", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], exact),
        Unit::BitsPerSecond => scaled(size * 8.0, 1000.0, BITS_PER_SECOND, false),
        Unit::BytesPerSecond => scaled(size, 1000.0, BYTES_PER_SECOND, false),
        Unit::PerSecond => scaled(size, 1000.0, PER_SECOND, false),
        Unit::Nanoseconds => time(size, exact),
        Unit::Microseconds => time(size * 1e3, exact),
        Unit::Seconds => time(size * 1e9, exact),
        Unit::Permille => format!("{}%", trimmed(digits(size / 10.0))),
        Unit::Ratio => format!(
            "{}x",
            if exact {
                trimmed(digits(size))
            } else {
                digits(size)
            }
        ),
    };
    out.extend_from_slice(text.as_bytes());
}

/// Returns `size` with the largest prefix that leaves at least one digit before the decimal point.
fn scaled(size: f64, base: f64, units: &[&str], exact: bool) -> String {
    if size == 0.0 {
        return "0".to_owned();
    }
    let (mut rest, mut nth) = (size, 0);
    // Compares the rounded value: 999.9 of one prefix is 1.00 of the next. With base 1024 there may be four digits.
    while rest >= base - 0.5 && nth + 1 < units.len() {
        rest /= base;
        nth += 1;
    }
    let is_whole = rest.fract() == 0.0 && (exact || nth == 0);
    let number = if is_whole { format!("{rest}") } else { digits(rest) };
    format!("{number}{}", units[nth])
}

fn time(ns: f64, exact: bool) -> String {
    if ns >= 59.95e9 {
        let mut out = Vec::new();
        push_time_us(&mut out, (ns / 1e3).min(u64::MAX as f64).round() as u64);
        return String::from_utf8_lossy(&out).into_owned();
    }
    scaled(ns, 1000.0, &["ns", "us", "ms", "s"], exact)
}

/// Returns three significant digits, but all digits before the decimal point, and at most three after it.
fn digits(number: f64) -> String {
    match number {
        _ if number == 0.0 => "0".to_owned(),
        0.0..0.01 => format!("{number:.3}"),
        0.0..9.995 => format!("{number:.2}"),
        0.0..99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// Removes zeros at the end of the fraction.
fn trimmed(digits: String) -> String {
    if !digits.contains('.') {
        return digits;
    }
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Counts below this are shown with all digits.
const EXACT_BELOW: u64 = 10_000;
const BITS_PER_SECOND: &[&str] = &[" bit/s", " kbit/s", " Mbit/s", " Gbit/s", " Tbit/s", " Pbit/s"];
const BYTES_PER_SECOND: &[&str] = &[" B/s", " kB/s", " MB/s", " GB/s", " TB/s", " PB/s"];
const PER_SECOND: &[&str] = &["/s", "K/s", "M/s", "G/s", "T/s"];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(unit: Unit, value: impl Into<Value>, expected: &str) {
        let mut out = Vec::new();
        push(&mut out, unit, &value.into());
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn values_have_three_digits_and_a_prefix() {
        let (whole, real) = (Value::Whole, Value::Real);
        check(Unit::Text, "a\x1b", "a\\x1b");
        check(Unit::Count, whole(9_999), "9999");
        check(Unit::Count, whole(1_234_567), "1.23M");
        check(Unit::Count, real(2.5), "2.5");
        check(Unit::Count, whole(u64::MAX), "18.4E");
        check(Unit::Number, whole(5210), "5210");
        check(Unit::Number, real(0.25), "0.25");
        check(Unit::Number, real(-1.0), "-1");
        check(Unit::Bytes, whole(64), "64B");
        check(Unit::Bytes, whole(65_536), "64Ki");
        check(Unit::Bytes, whole(1_536), "1.50Ki");
        check(Unit::Bytes, whole(1_023), "1023B");
        check(Unit::Bytes, whole(64 << 20), "64Mi");
        check(Unit::Bytes, whole((2 << 30) + 4096), "2.00Gi");
        check(Unit::Bytes, real(1_023.7), "1.00Ki");
        check(Unit::BitsPerSecond, real(1.17625e9), "9.41 Gbit/s");
        check(Unit::BitsPerSecond, whole(125), "1.00 kbit/s");
        check(Unit::BitsPerSecond, whole(0), "0");
        check(Unit::BytesPerSecond, real(12.34e9), "12.3 GB/s");
        check(Unit::PerSecond, real(123_456.0), "123K/s");
        check(Unit::PerSecond, real(0.5), "0.50/s");
        check(Unit::Permille, real(125.0), "12.5%");
        check(Unit::Permille, real(0.04), "0.004%");
        check(Unit::Permille, whole(1000), "100%");
        check(Unit::Ratio, real(1.2345), "1.23x");
        check(Unit::Ratio, whole(3), "3x");
    }

    #[test]
    fn durations_have_three_digits_below_a_minute() {
        check(Unit::Nanoseconds, Value::Real(12_345.0), "12.3us");
        check(Unit::Nanoseconds, Value::Real(0.25), "0.25ns");
        check(Unit::Microseconds, Value::Whole(1_234), "1.23ms");
        check(Unit::Microseconds, Value::Whole(2_000), "2ms");
        check(Unit::Microseconds, Value::Real(999.9), "1.00ms");
        check(Unit::Seconds, Value::Whole(10), "10s");
        check(Unit::Seconds, Value::Real(10.01), "10.0s");
        check(Unit::Seconds, Value::Whole(90), "1m30s");
        check(Unit::Seconds, Value::Real(f64::MAX), "213503982d8h");
    }

    #[test]
    fn axis_labels_have_no_trailing_zeros() {
        assert_eq!(short(Unit::Bytes, 65_536.0), "64Ki");
        assert_eq!(short(Unit::BitsPerSecond, 62.5e6), "500 Mbit/s");
        assert_eq!(short(Unit::BytesPerSecond, 1.5e9), "1.5 GB/s");
        assert_eq!(short(Unit::Nanoseconds, 100_000.0), "100us");
        assert_eq!(short(Unit::Seconds, 100.0), "1m40s");
        assert_eq!(short(Unit::Permille, 0.0), "0%");
    }

    #[test]
    fn nan_and_infinity_are_absent() {
        for value in [Value::Absent, Value::Real(f64::NAN), Value::Real(f64::INFINITY)] {
            assert!(!is_present(&value));
            check(Unit::Seconds, value, "");
        }
    }
}
