//! Numbers with units: `10m`, `1.5M`, `10Mbit`.

/// The kind of a number, which determines its units and the unit in which it is stored.
///
/// ```
/// use sockeye_filter::Quantity;
///
/// assert_eq!(Quantity::Time.parse("1.5ms"), Some(1500));
/// assert_eq!(Quantity::Rate.parse("1MB/s"), Some(8_000_000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// A time, stored in microseconds. It needs a unit, except 0.
    Time,
    /// Bytes: without unit, or with k, M, G, T (1000) or Ki, Mi, Gi, Ti (1024), and an optional B.
    Bytes,
    /// A rate, stored in bits per second. It needs a unit, except 0: bit, kbit, ... or B/s, kB/s, ...
    Rate,
    /// A count: without unit or with k, M, G, T.
    Count,
    /// An identifier: a decimal or 0x... number.
    Id,
}

impl Quantity {
    /// Returns what is expected, for error messages.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Time => "a time with a unit (10us, 50ms, 2s, 10m, 1h, 1d)",
            Self::Bytes => "a number of bytes (1500, 64k, 1M, 1Mi)",
            Self::Rate => "a rate with a unit (10Mbit, 500kbit, 1MB/s)",
            Self::Count => "a number",
            Self::Id => "a number",
        }
    }

    /// Parses a number; `None` if it is not of this kind, or too large.
    #[must_use]
    pub fn parse(self, text: &str) -> Option<u64> {
        if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            return match self {
                Self::Time | Self::Rate => None,
                _ if hex.starts_with('+') => None,
                _ => u64::from_str_radix(hex, 16).ok(),
            };
        }
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || fraction.contains('.') || (fraction.is_empty() && number.contains('.')) {
            return None;
        }
        let is_zero = number.bytes().all(|byte| byte == b'0' || byte == b'.');
        let (scale, divisor) = self.scale(unit, is_zero)?;
        // No unit has more than 15 decimal places.
        let fraction = &fraction[..fraction.len().min(15)];
        let mantissa: u128 = [whole, fraction].concat().parse().ok()?;
        let shifted = mantissa.checked_mul(scale)?;
        let value = shifted / 10_u128.pow(fraction.len() as u32) / divisor;
        u64::try_from(value).ok()
    }

    /// Returns multiplier and divisor of a unit to the stored one.
    fn scale(self, unit: &str, is_zero: bool) -> Option<(u128, u128)> {
        match self {
            Self::Time => Some(match unit {
                "us" | "µs" | "μs" => (1, 1),
                "ms" => (1000, 1),
                "s" | "sec" => (1_000_000, 1),
                "m" | "min" => (60_000_000, 1),
                "h" => (3_600_000_000, 1),
                "d" => (86_400_000_000, 1),
                "" if is_zero => (1, 1),
                _ => return None,
            }),
            Self::Bytes => prefix(unit.strip_suffix('B').unwrap_or(unit)).map(|scale| (scale, 1)),
            Self::Count => match unit {
                "Ki" | "Mi" | "Gi" | "Ti" => None,
                unit => prefix(unit).map(|scale| (scale, 1)),
            },
            Self::Rate if unit.is_empty() && is_zero => Some((1, 1)),
            Self::Rate => {
                for bits in ["bit/s", "bits/s", "bps", "bit"] {
                    if let Some(rest) = unit.strip_suffix(bits) {
                        return prefix(rest).map(|scale| (scale, 1));
                    }
                }
                prefix(unit.strip_suffix("B/s")?).map(|scale| (scale * 8, 1))
            }
            Self::Id => unit.is_empty().then_some((1, 1)),
        }
    }

    /// The unit with which a stored number is printed.
    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Self::Time => "us",
            Self::Rate => "bit",
            Self::Bytes | Self::Count | Self::Id => "",
        }
    }
}

fn prefix(unit: &str) -> Option<u128> {
    Some(match unit {
        "" => 1,
        "k" | "K" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" | "ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn numbers_parse_with_units() {
        for (kind, text, expected) in [
            (Quantity::Time, "50ms", Some(50_000)),
            (Quantity::Time, "10m", Some(600_000_000)),
            (Quantity::Time, "1.5s", Some(1_500_000)),
            (Quantity::Time, "0", Some(0)),
            (Quantity::Time, "50", None),
            (Quantity::Time, "50 ms", None),
            (Quantity::Time, "ms", None),
            (Quantity::Time, "1.s", None),
            (Quantity::Time, "1.2.3s", None),
            (Quantity::Time, "99999999999999999999d", None),
            (Quantity::Bytes, "1M", Some(1_000_000)),
            (Quantity::Bytes, "1MiB", Some(1 << 20)),
            (Quantity::Bytes, "64k", Some(64_000)),
            (Quantity::Bytes, "0x10", Some(16)),
            (Quantity::Bytes, "-1", None),
            (Quantity::Bytes, "1m", None),
            (Quantity::Rate, "10Mbit", Some(10_000_000)),
            (Quantity::Rate, "1MB/s", Some(8_000_000)),
            (Quantity::Rate, "1kbps", Some(1000)),
            (Quantity::Rate, "10M", None),
            (Quantity::Rate, "0", Some(0)),
            (Quantity::Count, "3k", Some(3000)),
            (Quantity::Count, "3s", None),
            (Quantity::Id, "0xff", Some(255)),
            (Quantity::Id, "0x+ff", None),
            (Quantity::Id, "1k", None),
            (Quantity::Id, "", None),
        ] {
            assert_eq!(kind.parse(text), expected, "{text}");
        }
    }
}
