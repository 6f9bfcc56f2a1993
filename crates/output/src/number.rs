//! Numbers as text: exact decimals, and short forms with a unit for people.

/// Appends `number` in decimal.
#[inline]
pub fn push_decimal(out: &mut Vec<u8>, number: u64) {
    // Copies of constant length are a few instructions; most numbers are this short.
    match number {
        0..10 => out.push(b'0' + number as u8),
        10..100 => out.extend_from_slice(pair(number)),
        100..1_000 => {
            let [b, c] = *pair(number % 100);
            out.extend_from_slice(&[b'0' + (number / 100) as u8, b, c]);
        }
        1_000..10_000 => {
            let ([a, b], [c, d]) = (*pair(number / 100), *pair(number % 100));
            out.extend_from_slice(&[a, b, c, d]);
        }
        _ => push_digits(out, number),
    }
}

fn push_digits(out: &mut Vec<u8>, number: u64) {
    // Twice the length: the copy of constant length at the end may begin at any digit.
    let mut digits = [0; 2 * DIGITS_MAX];
    let mut at = DIGITS_MAX;
    let mut rest = number;
    while rest >= 10_000 {
        let four = rest % 10_000;
        rest /= 10_000;
        at -= 4;
        digits[at..at + 2].copy_from_slice(pair(four / 100));
        digits[at + 2..at + 4].copy_from_slice(pair(four % 100));
    }
    if rest >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(pair(rest % 100));
        rest /= 100;
    }
    if rest >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(pair(rest));
    } else {
        at -= 1;
        digits[at] = b'0' + rest as u8;
    }
    if let Some(padded) = digits[at..].first_chunk::<DIGITS_MAX>() {
        push_padded(out, padded, DIGITS_MAX - at);
    }
}

/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

/// Appends a short slice: two copies of constant length that may overlap, instead of one of variable length, which is a
/// function call (and with musl a slow one).
#[inline]
pub fn push_short(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        0 => {}
        1..4 => bytes.iter().for_each(|&byte| out.push(byte)),
        4..8 => push_overlapping::<4>(out, bytes),
        8..16 => push_overlapping::<8>(out, bytes),
        16..=32 => push_overlapping::<16>(out, bytes),
        _ => out.extend_from_slice(bytes),
    }
}

/// Appends a slice of `N` to `2 * N` bytes.
#[inline]
fn push_overlapping<const N: usize>(out: &mut Vec<u8>, bytes: &[u8]) {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) {
        let start = out.len();
        out.extend_from_slice(first);
        out.truncate(start + bytes.len() - N);
        out.extend_from_slice(last);
    }
}

/// Appends the first `len` of `padded`.
///
/// All are copied, then the length is reduced: a copy of constant length is a few instructions, one of variable length
/// is a function call, and rows consist of short copies.
#[inline]
pub fn push_padded<const N: usize>(out: &mut Vec<u8>, padded: &[u8; N], len: usize) {
    let start = out.len();
    out.extend_from_slice(padded);
    out.truncate(start + len);
}

/// Appends `0x` and `number` in hexadecimal.
pub fn push_hexadecimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(format!("{number:#x}").as_bytes());
}

/// Appends `number` in short form: exact below 10,000, then three digits and a decimal prefix: `12.3M`.
pub fn push_human(out: &mut Vec<u8>, number: u128) {
    if number < 10_000 {
        push_decimal(out, number as u64);
        return;
    }
    let (mut divisor, mut unit) = (1000, 0);
    // Each comparison uses the rounded value: 999,950 is 1.0M, not 1000K.
    while (number.saturating_add(divisor / 2)) / divisor >= 1000 && unit + 1 < UNITS.len() {
        divisor *= 1000;
        unit += 1;
    }
    let tenths = (number.saturating_mul(10).saturating_add(divisor / 2)) / divisor;
    if tenths < 1000 {
        push_tenths(out, tenths as u64);
    } else {
        push_decimal(out, (number.saturating_add(divisor / 2) / divisor) as u64);
    }
    out.push(UNITS[unit]);
}

/// Appends a rate in bytes per second as bits per second: `12.3Mbit/s`.
pub fn push_bit_rate(out: &mut Vec<u8>, bytes_per_s: u64) {
    push_human(out, u128::from(bytes_per_s) * 8);
    out.extend_from_slice(b"bit/s");
}

/// Appends a rate in bytes per second: `1182 B/s`, `17.1 KB/s`; below ten with a tenth, so that little is not shown as none.
pub fn push_byte_rate(out: &mut Vec<u8>, bytes_per_s: f64) {
    if bytes_per_s > 0.0 && bytes_per_s < 9.95 {
        out.extend_from_slice(format!("{bytes_per_s:.1} B/s").as_bytes());
        return;
    }
    push_human(out, bytes_per_s.max(0.0).round() as u128);
    let prefix = out.pop_if(|last| last.is_ascii_alphabetic());
    out.push(b' ');
    out.extend(prefix);
    out.extend_from_slice(b"B/s");
}

/// Appends a duration: `85us`, `3.42ms`, `1.2s`, `2m3s`, `1h58m`, `3d4h`.
pub fn push_time_us(out: &mut Vec<u8>, us: u64) {
    let seconds = us / 1_000_000;
    match us {
        0 => out.push(b'0'),
        1..100 => {
            push_decimal(out, us);
            out.extend_from_slice(b"us");
        }
        100..1_000_000 => {
            push_ms(out, us);
            out.extend_from_slice(b"ms");
        }
        1_000_000..60_000_000 => {
            push_tenths(out, us / 100_000);
            out.push(b's');
        }
        60_000_000..3_600_000_000 => push_two(out, seconds / 60, b'm', seconds % 60, b's'),
        3_600_000_000..86_400_000_000 => push_two(out, seconds / 3600, b'h', seconds / 60 % 60, b'm'),
        _ => push_two(out, seconds / 86_400, b'd', seconds / 3600 % 24, b'h'),
    }
}

/// Appends microseconds as milliseconds with three significant digits, without the unit: `0.123`.
pub fn push_ms(out: &mut Vec<u8>, us: u64) {
    let decimals = match us {
        0..1_000 => 3,
        1_000..10_000 => 2,
        10_000..100_000 => 1,
        _ => 0,
    };
    push_decimal(out, us / 1000);
    if decimals > 0 {
        out.push(b'.');
        let fraction = us % 1000;
        let digits = [
            b'0' + (fraction / 100) as u8,
            b'0' + (fraction / 10 % 10) as u8,
            b'0' + (fraction % 10) as u8,
        ];
        out.extend_from_slice(&digits[..decimals]);
    }
}

/// Appends a number of 256ths with two decimals: `2.89` for 739. A half is rounded to the even digit.
pub fn push_256ths(out: &mut Vec<u8>, number: u32) {
    let (whole, rest) = (u64::from(number) * 100 / 256, u64::from(number) * 100 % 256);
    let hundredths = whole + u64::from(rest > 128 || rest == 128 && whole % 2 == 1);
    push_decimal(out, hundredths / 100);
    out.push(b'.');
    out.extend_from_slice(pair(hundredths % 100));
}

fn push_tenths(out: &mut Vec<u8>, tenths: u64) {
    push_decimal(out, tenths / 10);
    out.push(b'.');
    out.push(b'0' + (tenths % 10) as u8);
}

fn push_two(out: &mut Vec<u8>, large: u64, large_unit: u8, small: u64, small_unit: u8) {
    push_decimal(out, large);
    out.push(large_unit);
    if small > 0 {
        push_decimal(out, small);
        out.push(small_unit);
    }
}

/// Decimal prefixes; `u64::MAX * 8` does not need the last.
const UNITS: &[u8] = b"KMGTPEZY";

#[inline]
fn pair(number: u64) -> &'static [u8; 2] {
    &PAIRS[number as usize % 100]
}

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(push: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut out = Vec::new();
        push(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn short_slice_of_every_length_is_appended() {
        let bytes: Vec<u8> = (0..80).collect();
        for len in 0..bytes.len() {
            let mut out = vec![9, 9];
            push_short(&mut out, &bytes[..len]);
            assert_eq!(out[..2], [9, 9]);
            assert_eq!(out[2..], bytes[..len]);
        }
    }

    #[test]
    fn decimals_equal_to_string() {
        let mut number = 1_u64;
        for digit in 0..20_u64 {
            for near in [number - 1, number, number + 1, number.wrapping_mul(digit)] {
                check(|out| push_decimal(out, near), &near.to_string());
            }
            number = number.saturating_mul(10);
        }
        check(|out| push_decimal(out, u64::MAX), "18446744073709551615");
    }

    #[test]
    fn human_numbers_have_three_digits_and_a_prefix() {
        for (number, expected) in [
            (0, "0"),
            (9_999, "9999"),
            (10_000, "10.0K"),
            (99_949, "99.9K"),
            (99_950, "100K"),
            (123_456, "123K"),
            (999_499, "999K"),
            (999_500, "1.0M"),
            (1_234_567, "1.2M"),
            (u128::from(u64::MAX), "18.4E"),
            (u128::MAX, "340282366920938Y"),
        ] {
            check(|out| push_human(out, number), expected);
        }
        check(|out| push_bit_rate(out, u64::MAX), "148Ebit/s");
        check(|out| push_bit_rate(out, 1_540_000), "12.3Mbit/s");
    }

    #[test]
    fn byte_rates_have_their_unit() {
        for (rate, expected) in [
            (0.0, "0 B/s"),
            (0.25, "0.2 B/s"),
            (9.96, "10 B/s"),
            (1_182.4, "1182 B/s"),
            (17_100.0, "17.1 KB/s"),
            (1_234_567.0, "1.2 MB/s"),
            (-1.0, "0 B/s"),
        ] {
            check(|out| push_byte_rate(out, rate), expected);
        }
    }

    #[test]
    fn parts_of_256_equal_to_float_format() {
        for number in (0..2_000).chain([u32::MAX - 1, u32::MAX]) {
            check(
                |out| push_256ths(out, number),
                &format!("{:.2}", f64::from(number) / 256.0),
            );
        }
    }

    #[test]
    fn durations_have_at_most_two_units() {
        for (us, expected) in [
            (0, "0"),
            (85, "85us"),
            (123, "0.123ms"),
            (3_420, "3.42ms"),
            (12_345, "12.3ms"),
            (999_999, "999ms"),
            (1_250_000, "1.2s"),
            (59_990_000, "59.9s"),
            (60_000_000, "1m"),
            (123_000_000, "2m3s"),
            (7_130_000_000, "1h58m"),
            (273_600_000_000, "3d4h"),
            (u64::MAX, "213503982d8h"),
        ] {
            check(|out| push_time_us(out, us), expected);
        }
    }
}
