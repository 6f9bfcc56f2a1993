//! Numbers as C parses them: with leading blanks, signs, `0x` and leading zeros.

/// The number at the beginning of a text, as `strtol(3)` and the like parse it in base 0.
struct Digits<'a> {
    negative: bool,
    /// Whether the digits are a single 0.
    is_zero: bool,
    /// Value; `None` if it has more than 64 bits
    magnitude: Option<u64>,
    rest: &'a str,
}

impl<'a> Digits<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let text = text.trim_start_matches(SPACE);
        let negative = text.starts_with('-');
        let text = text.strip_prefix(['-', '+']).unwrap_or(text);
        let hexadecimal = text
            .strip_prefix("0x")
            .or_else(|| text.strip_prefix("0X"))
            .filter(|digits| digits.starts_with(|first: char| first.is_ascii_hexdigit()));
        let (digits, radix) = match hexadecimal {
            Some(digits) => (digits, 16),
            None if text.starts_with('0') => (text, 8),
            None => (text, 10),
        };
        let count = digits
            .find(|digit: char| !digit.is_digit(radix))
            .unwrap_or(digits.len());
        let (digits, rest) = digits.split_at(count);
        (count > 0).then(|| Self {
            negative,
            is_zero: radix == 8 && digits == "0",
            magnitude: u64::from_str_radix(digits, radix).ok(),
            rest,
        })
    }

    /// Converts as `strtol`: out of range gives the nearest value.
    fn signed(&self) -> i64 {
        match (self.negative, self.magnitude) {
            (false, magnitude) => magnitude.and_then(|n| n.try_into().ok()).unwrap_or(i64::MAX),
            (true, magnitude) => magnitude
                .and_then(|n| 0_i64.checked_sub_unsigned(n))
                .unwrap_or(i64::MIN),
        }
    }

    /// Converts as `strtoul`: a negative number is taken modulo 2^64.
    const fn unsigned(&self) -> u64 {
        match self.magnitude {
            None => u64::MAX,
            Some(magnitude) if self.negative => magnitude.wrapping_neg(),
            Some(magnitude) => magnitude,
        }
    }

    fn to_the_end(text: &'a str) -> Option<Self> {
        Self::read(text).filter(|digits| digits.rest.is_empty())
    }
}

/// Parses as `get_integer()`.
pub(super) fn signed(text: &str) -> Option<i32> {
    Digits::to_the_end(text)?.signed().try_into().ok()
}

/// Parses as `get_long()`.
pub(super) fn wide(text: &str) -> Option<i64> {
    let digits = Digits::to_the_end(text)?;
    let magnitude = digits.magnitude?;
    if digits.negative {
        0_i64.checked_sub_unsigned(magnitude)
    } else {
        magnitude.try_into().ok()
    }
}

/// Parses a number as `ss` does (`get_unsigned()`, `get_u32()`): decimal, or hexadecimal after `0x`, or octal after `0`.
#[must_use]
pub fn unsigned(text: &str) -> Option<u32> {
    Digits::to_the_end(text)?.unsigned().try_into().ok()
}

/// Parses a number at the beginning as `strtoul`, and returns the rest too.
pub(super) fn leading(text: &str) -> Option<(u64, &str)> {
    Digits::read(text).map(|digits| (digits.unsigned(), digits.rest))
}

/// Parses as `%i` of `sscanf(3)` into 32 bits, and returns the rest too. Unlike `strtol` it consumes an `x` after a `0`
/// even if no digit follows.
pub(super) fn scan(text: &str) -> Option<(u32, &str)> {
    let digits = Digits::read(text)?;
    let rest = match digits.rest.strip_prefix(['x', 'X']) {
        Some(rest) if digits.is_zero => rest,
        _ => digits.rest,
    };
    Some((digits.signed() as u32, rest))
}

/// `isspace(3)`
pub(super) const SPACE: [char; 6] = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_numbers_have_64_bits() {
        for (text, expected) in [
            ("0x50", Some(80)),
            ("-1", Some(-1)),
            ("4294967376", Some((1 << 32) + 80)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("99999999999999999999", None),
            ("80x", None),
        ] {
            assert_eq!(wide(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_parse_as_in_c() {
        let check = |text: &str, expected: (Option<i32>, Option<u32>, Option<(u32, &str)>)| {
            assert_eq!((signed(text), unsigned(text), scan(text)), expected, "{text:?}");
        };
        for (text, expected) in [
            ("80", (Some(80), Some(80), Some((80, "")))),
            (" \n+0x50", (Some(80), Some(80), Some((80, "")))),
            ("0120", (Some(80), Some(80), Some((80, "")))),
            ("08", (None, None, Some((0, "8")))),
            ("0x", (None, None, Some((0, "")))),
            ("0xg", (None, None, Some((0, "g")))),
            ("00x", (None, None, Some((0, "x")))),
            ("0x0x", (None, None, Some((0, "x")))),
            ("-1", (Some(-1), None, Some((u32::MAX, "")))),
            ("-0", (Some(0), Some(0), Some((0, "")))),
            ("2147483648", (None, Some(1 << 31), Some((1 << 31, "")))),
            ("4294967296", (None, None, Some((0, "")))),
            ("-18446744073709551615", (None, Some(1), Some((0, "")))),
            ("18446744073709551616", (None, None, Some((u32::MAX, "")))),
            ("", (None, None, None)),
            ("-", (None, None, None)),
            ("- 1", (None, None, None)),
            ("x", (None, None, None)),
            ("7/", (None, None, Some((7, "/")))),
        ] {
            check(text, expected);
        }
    }
}
