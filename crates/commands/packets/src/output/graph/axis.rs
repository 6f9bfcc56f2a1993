//! Axes of graphs: from values to pixels, and round values for labels.

use sockeye_output::picture::steps::round_step;

/// A linear axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    from: f32,
    to: f32,
}

impl Axis {
    /// Creates an axis with `low` at pixel `from` and `high` at `to`; an empty range is extended.
    pub(super) fn new(low: f64, high: f64, from: f32, to: f32) -> Self {
        let high = if high > low {
            high
        } else {
            low + (low.abs() * 1e-9).max(1.0)
        };
        Self { low, high, from, to }
    }

    /// Returns the pixel of a value, limited to the ends.
    pub(super) fn at(&self, value: f64) -> f32 {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + (self.to - self.from) * share as f32
    }

    /// Returns whether a value is between its ends.
    pub(super) fn has(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Returns pixels and texts of labels at 1, 2 or 5 times a power of ten, about one per `distance` pixels.
    pub(super) fn ticks(&self, quantity: Quantity, distance: f32) -> Vec<(f32, String)> {
        let labels_max = f64::from(((self.to - self.from).abs() / distance).max(1.0));
        let unit = quantity.unit(self.low.abs().max(self.high.abs()), self.high - self.low);
        let step = round_step((self.high - self.low) / unit.1 / labels_max);
        let step = if quantity.is_whole() && step * unit.1 < 1.0 {
            1.0 / unit.1
        } else {
            step
        };
        let first = (self.low / unit.1 / step).ceil();
        let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        (0..TICKS_MAX)
            .map(|nth| (first + f64::from(nth)) * step)
            // Half a thousandth of a step more, because of rounding.
            .take_while(|value| value * unit.1 <= self.high + step * unit.1 * 0.0005)
            .map(|value| {
                let text = if value == 0.0 {
                    "0".to_owned()
                } else {
                    format!("{value:.decimals$}{}", unit.0)
                };
                (self.at(value * unit.1), text)
            })
            .collect()
    }
}

/// Quantity of an axis, in its base unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Nanoseconds.
    Time,
    /// Bytes, with prefixes of 1000.
    Bytes,
    /// Bits per second, with prefixes of 1000.
    Rate,
}

impl Quantity {
    /// Returns the unit for values up to `high`, and its factor.
    fn unit(self, high: f64, span: f64) -> (&'static str, f64) {
        let units: &[(&str, f64)] = match self {
            Self::Time => &[
                ("ns", 1.0),
                ("us", 1e3),
                ("ms", 1e6),
                ("s", 1e9),
                ("min", 6e10),
                ("h", 3.6e12),
                ("d", 8.64e13),
            ],
            Self::Bytes => &[
                ("B", 1.0),
                ("KB", 1e3),
                ("MB", 1e6),
                ("GB", 1e9),
                ("TB", 1e12),
                ("PB", 1e15),
                ("EB", 1e18),
            ],
            Self::Rate => &[
                ("bit/s", 1.0),
                ("Kbit/s", 1e3),
                ("Mbit/s", 1e6),
                ("Gbit/s", 1e9),
                ("Tbit/s", 1e12),
            ],
        };
        // A short span far from zero would need many decimals in a large unit; times stay in seconds, for orientation.
        let high = if self == Self::Bytes && span < high / 1e4 {
            span * 1e4
        } else {
            high
        };
        *units
            .iter()
            .rev()
            // Minutes, hours and days from three on
            .find(|unit| {
                high >= unit.1
                    * if unit.1 > 1e10 && self == Self::Time {
                        3.0
                    } else {
                        1.0
                    }
            })
            .unwrap_or(&units[0])
    }

    const fn is_whole(self) -> bool {
        matches!(self, Self::Bytes | Self::Time)
    }

    /// Returns a value with about three digits and its unit.
    pub(super) fn label(self, value: f64) -> String {
        let (name, factor) = self.unit(value, value);
        let number = value / factor;
        let decimals = match number {
            _ if factor == 1.0 && self != Self::Rate => 0,
            0.0..10.0 => 2,
            10.0..100.0 => 1,
            _ => 0,
        };
        let digits = format!("{number:.decimals$}");
        let digits = if decimals > 0 {
            digits.trim_end_matches('0').trim_end_matches('.')
        } else {
            &digits
        };
        format!("{digits}{name}")
    }
}

/// Returns `12,345` for 12345.
pub(super) fn counted(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Upper limit for labels of an axis.
const TICKS_MAX: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(low: f64, high: f64, quantity: Quantity, expected: &[&str]) {
        let ticks = Axis::new(low, high, 0.0, 500.0).ticks(quantity, 100.0);
        let labels: Vec<_> = ticks
            .iter()
            .map(|(_, text)| text.replace('\u{a0}', " "))
            .collect();
        assert_eq!(labels, expected);
    }

    #[test]
    fn ticks_are_round_values() {
        check(0.0, 2.4e9, Quantity::Time, &["0", "0.5s", "1.0s", "1.5s", "2.0s"]);
        check(0.0, 130e6, Quantity::Time, &["0", "50ms", "100ms"]);
        check(0.0, 0.0, Quantity::Time, &["0", "1ns"]);
        check(
            0.0,
            100_000.0,
            Quantity::Bytes,
            &["0", "20KB", "40KB", "60KB", "80KB", "100KB"],
        );
        check(0.0, 3.0, Quantity::Bytes, &["0", "1B", "2B", "3B"]);
        check(
            0.0,
            1e9,
            Quantity::Rate,
            &[
                "0",
                "0.2Gbit/s",
                "0.4Gbit/s",
                "0.6Gbit/s",
                "0.8Gbit/s",
                "1.0Gbit/s",
            ],
        );
    }

    #[test]
    fn extreme_ranges_have_few_labels() {
        for (low, high) in [
            (0.0, 1.8e19),
            (1.8e19, 1.8e19),
            (1e18, 1e18 + 1.0),
            (0.0, f64::MIN_POSITIVE),
        ] {
            for quantity in [Quantity::Time, Quantity::Bytes, Quantity::Rate] {
                let ticks = Axis::new(low, high, 0.0, 500.0).ticks(quantity, 100.0);
                assert!(ticks.len() <= TICKS_MAX as usize, "{low} {high} {ticks:?}");
            }
        }
    }

    #[test]
    fn values_have_three_digits_and_a_unit() {
        let label = |quantity: Quantity, value| quantity.label(value).replace('\u{a0}', " ");
        assert_eq!(label(Quantity::Time, 12_340_000.0), "12.3ms");
        assert_eq!(label(Quantity::Time, 120e9), "120s");
        assert_eq!(label(Quantity::Time, 883e9), "14.7min");
        assert_eq!(label(Quantity::Time, 66_045e9), "18.3h");
        assert_eq!(label(Quantity::Bytes, 1500.0), "1.5KB");
        assert_eq!(label(Quantity::Bytes, 12.0), "12B");
        assert_eq!(counted(1_234_567), "1,234,567");
        assert_eq!(counted(12), "12");
    }
}
