//! Numbers in the formats of C's `printf`.

use sockeye_output::number::push_decimal;

/// `%g` of `thousandths / 1000`.
#[inline]
pub(super) fn push_g_thousandths(out: &mut Vec<u8>, thousandths: u64) {
    // Six significant digits hold it exactly.
    if thousandths < 1_000_000 {
        push_decimal(out, thousandths / 1000);
        let rest = thousandths % 1000;
        if rest > 0 {
            let digits = [
                b'0' + (rest / 100) as u8,
                b'0' + (rest / 10 % 10) as u8,
                b'0' + (rest % 10) as u8,
            ];
            out.push(b'.');
            out.extend_from_slice(&digits[..3 - trailing_zeros(&digits)]);
        }
    } else {
        push_g(out, thousandths as f64 / 1000.0, 6);
    }
}

/// `%g` of `number / 256`.
pub(super) fn push_g_256ths(out: &mut Vec<u8>, number: u32) {
    // From 1 to 10 six digits are five after the point; a half is rounded to even.
    let (whole, rest) = (
        u64::from(number) * 100_000 / 256,
        u64::from(number) * 100_000 % 256,
    );
    let rounded = whole + u64::from(rest > 128 || (rest == 128 && whole % 2 == 1));
    if !(100_000..1_000_000).contains(&rounded) {
        return push_g(out, f64::from(number) / 256.0, 6);
    }
    out.push(b'0' + (rounded / 100_000) as u8);
    let mut digits = [0; 5];
    let mut left = rounded % 100_000;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let digits = &digits[..5 - trailing_zeros(&digits)];
    if !digits.is_empty() {
        out.push(b'.');
        out.extend_from_slice(digits);
    }
}

/// `%.Ng`: N significant digits, without trailing zeros, with an exponent where it is below -4 or at least N.
pub(super) fn push_g(out: &mut Vec<u8>, value: f64, digits: usize) {
    let text = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let all: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let all = &all[..all.len() - trailing_zeros(&all).min(all.len().saturating_sub(1))];
    out.extend_from_slice(sign.as_bytes());
    if exponent < -4 || exponent >= digits as i32 {
        out.push(all[0]);
        if all.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&all[1..]);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', exponent.unsigned_abs() as usize - 1));
        out.extend_from_slice(all);
    } else {
        let whole = exponent.unsigned_abs() as usize + 1;
        for place in 0..whole {
            out.push(all.get(place).copied().unwrap_or(b'0'));
        }
        if all.len() > whole {
            out.push(b'.');
            out.extend_from_slice(&all[whole..]);
        }
    }
}

/// `%.0f` of a value that is not negative: halves are rounded to even.
pub(super) fn push_whole(out: &mut Vec<u8>, value: f64) {
    let rounded = value.round_ties_even();
    if rounded < EXACT_MAX {
        push_decimal(out, rounded as u64);
    } else {
        out.extend_from_slice(format!("{rounded:.0}").as_bytes());
    }
}

fn trailing_zeros(digits: &[u8]) -> usize {
    digits.iter().rev().take_while(|&&digit| digit == b'0').count()
}

/// Below this every rounded float fits into 64 bits.
const EXACT_MAX: f64 = 1e18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_format_equals_printf() {
        let g = |value: f64, digits| {
            let mut out = Vec::new();
            push_g(&mut out, value, digits);
            String::from_utf8(out).unwrap()
        };
        // Of glibc 2.36.
        for (value, digits, expected) in [
            (0.0, 6, "0"),
            (0.037, 6, "0.037"),
            (1_234.567, 6, "1234.57"),
            (999_999.5, 6, "1e+06"),
            (12_345_678.9, 6, "1.23457e+07"),
            (0.000_012_345, 6, "1.2345e-05"),
            (0.000_1, 6, "0.0001"),
            (100.0, 6, "100"),
            (12.345, 3, "12.3"),
            (999.9, 3, "1e+03"),
            (2.886_718_75, 6, "2.88672"),
            (-1.5, 6, "-1.5"),
        ] {
            assert_eq!(g(value, digits), expected);
        }
        for thousandths in [
            0,
            1,
            10,
            37,
            200_000,
            204_500,
            999_999,
            1_000_000,
            1_234_567,
            120_000_000,
        ] {
            let mut out = Vec::new();
            push_g_thousandths(&mut out, thousandths);
            assert_eq!(String::from_utf8(out).unwrap(), g(thousandths as f64 / 1000.0, 6));
        }
    }

    #[test]
    fn fast_256ths_equal_general_format() {
        for number in 0..6_000 {
            let (mut fast, mut exact) = (Vec::new(), Vec::new());
            push_g_256ths(&mut fast, number);
            push_g(&mut exact, f64::from(number) / 256.0, 6);
            assert_eq!(fast, exact, "{number}/256");
        }
    }

    #[test]
    fn halves_are_rounded_to_even() {
        for (value, expected) in [(0.5, "0"), (1.5, "2"), (2.5, "2"), (1e19, "10000000000000000000")] {
            let mut out = Vec::new();
            push_whole(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
