//! Axes of charts: from values to pixels, linear or logarithmic, and round values for their labels.

use crate::picture::steps::round_step;
use crate::report::figure;
use sockeye_measure::{Scale, Unit};

/// An axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    scale: Scale,
    unit: Unit,
    low: f64,
    high: f64,
    from: f32,
    to: f32,
}

impl Axis {
    /// Creates an axis from the lowest to the highest drawable of `values`, or from zero; its pixels are set later.
    pub(super) fn over(values: impl Iterator<Item = f64>, scale: Scale, unit: Unit, from_zero: bool) -> Self {
        let range = values
            .filter(|&value| is_drawn(scale, value))
            .map(|value| value.clamp(-LARGEST, LARGEST))
            .fold(None, |range, value| match range {
                None => Some((value, value)),
                Some((low, high)) => Some((value.min(low), value.max(high))),
            });
        let (low, high) = match (scale, range) {
            (Scale::Linear, None) => (0.0, 1.0),
            (Scale::Logarithmic, None) => (1.0, 10.0),
            (Scale::Linear, Some((low, high))) if from_zero => (low.min(0.0), high.max(0.0)),
            (_, Some(range)) => range,
        };
        let (low, high) = match scale {
            Scale::Linear if high - low < SMALLEST => (low, low + 1.0),
            // A single value is placed in the middle.
            Scale::Logarithmic if high <= low * 1.000_001 => (low / 2.0, high * 2.0),
            _ => (low, high),
        };
        Self {
            scale,
            unit,
            low,
            high,
            from: 0.0,
            to: 1.0,
        }
    }

    /// Sets the pixels of its ends.
    pub(super) const fn placed(mut self, from: f32, to: f32) -> Self {
        (self.from, self.to) = (from, to);
        self
    }

    /// Returns the pixel of a value; `None` if it cannot be drawn.
    pub(super) fn at(&self, value: f64) -> Option<f32> {
        let share = match self.scale {
            _ if !is_drawn(self.scale, value) => return None,
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        Some(self.from + (self.to - self.from) * share.clamp(0.0, 1.0) as f32)
    }

    /// Returns labels with their pixels, at most about one per `distance` pixels.
    pub(super) fn ticks(&self, distance: f32) -> Vec<(f32, String)> {
        let values = match self.scale {
            Scale::Linear => self.multiples(distance),
            Scale::Logarithmic => {
                let mut powers = self.powers(self.labels_max(distance));
                powers.retain(|value| (self.low * 0.999_999..=self.high * 1.000_001).contains(value));
                // The ends are those of the data: between them may be no round power.
                if powers.len() < 2 {
                    powers = self.multiples(distance);
                    powers.retain(|value| *value > 0.0);
                }
                powers
            }
        };
        let labelled = |value: f64| Some((self.at(value)?, figure::short(self.unit, value)));
        values.into_iter().filter_map(labelled).collect()
    }

    /// Returns the multiples of a round step between the ends.
    fn multiples(&self, distance: f32) -> Vec<f64> {
        let step = self.step(distance);
        let first = (self.low / step - 1e-9).ceil();
        (0..TICKS_MAX)
            .map(|nth| (first + f64::from(nth)) * step)
            .take_while(|value| *value <= self.high + step * 1e-6)
            .collect()
    }

    /// Returns the step between labels of a linear axis.
    fn step(&self, distance: f32) -> f64 {
        let least = (self.high - self.low) / self.labels_max(distance);
        match self.unit {
            Unit::Bytes => least.log2().ceil().clamp(0.0, 62.0).exp2(),
            Unit::Count => round_step(least).max(1.0),
            _ => round_step(least * self.shown()) / self.shown(),
        }
    }

    /// Returns round values from below the lower end to above the upper one; for small ranges also those between powers.
    fn powers(&self, labels_max: f64) -> Vec<f64> {
        let (base, shown): (f64, f64) = match self.unit {
            Unit::Bytes => (2.0, 1.0),
            _ => (10.0, self.shown()),
        };
        let power = |value: f64| (value * shown).ln() / base.ln();
        let (first, last) = (
            (power(self.low) + 1e-9).floor() as i32,
            (power(self.high) - 1e-9).ceil() as i32,
        );
        let count = f64::from(last - first + 1);
        let within = power(self.high) - power(self.low);
        let between: &[f64] = match self.unit {
            Unit::Bytes => &[1.0],
            _ if within * 3.0 + 1.0 <= labels_max => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let every = STEPS
            .into_iter()
            .find(|every| count / f64::from(*every) <= labels_max)
            .unwrap_or(STEPS[STEPS.len() - 1]);
        (first..=last)
            .filter(|power| power.rem_euclid(every) == 0)
            .flat_map(|power| between.iter().map(move |part| part * base.powi(power) / shown))
            .collect()
    }

    /// Returns the number of labels that fit.
    fn labels_max(&self, distance: f32) -> f64 {
        f64::from(((self.to - self.from).abs() / distance).max(1.0))
    }

    /// Returns how a value of 1 is shown: labels are round in the shown unit.
    const fn shown(&self) -> f64 {
        match self.unit {
            Unit::BitsPerSecond => 8.0,
            Unit::Permille => 0.1,
            _ => 1.0,
        }
    }
}

fn is_drawn(scale: Scale, value: f64) -> bool {
    value.is_finite() && (scale == Scale::Linear || value > SMALLEST)
}

/// Upper limit for labels of an axis.
const TICKS_MAX: u32 = 60;
/// Powers between labels.
const STEPS: [i32; 7] = [1, 2, 4, 10, 20, 50, 100];
/// Smaller values are not drawn and larger ones are drawn at the end, so that all computed values stay finite.
const SMALLEST: f64 = 1e-290;
const LARGEST: f64 = 1e300;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[f64], scale: Scale, unit: Unit, expected: &[&str]) {
        let axis = Axis::over(values.iter().copied(), scale, unit, true).placed(0.0, 500.0);
        let ticks = axis.ticks(100.0);
        let labels: Vec<&str> = ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(labels, expected);
        assert!(
            ticks.iter().all(|(at, _)| (0.0..=500.0).contains(at)),
            "{ticks:?}"
        );
        assert!(ticks.is_sorted_by(|one, other| one.0 < other.0), "{ticks:?}");
    }

    #[test]
    fn linear_axes_include_zero() {
        use Scale::Linear;
        let gbit = 125e6;
        check(
            &[9.41 * gbit, 3.0 * gbit],
            Linear,
            Unit::BitsPerSecond,
            &["0", "2 Gbit/s", "4 Gbit/s", "6 Gbit/s", "8 Gbit/s"],
        );
        check(&[60_000.0], Linear, Unit::Bytes, &["0", "16Ki", "32Ki", "48Ki"]);
        check(&[2.0], Linear, Unit::Count, &["0", "1", "2"]);
        check(
            &[0.0],
            Linear,
            Unit::Ratio,
            &["0x", "0.2x", "0.4x", "0.6x", "0.8x", "1x"],
        );
        check(&[-30.0, 50.0], Linear, Unit::Number, &["-20", "0", "20", "40"]);
        check(
            &[],
            Linear,
            Unit::Seconds,
            &["0", "200ms", "400ms", "600ms", "800ms", "1s"],
        );
    }

    #[test]
    fn logarithmic_axes_have_labels_at_powers() {
        use Scale::Logarithmic;
        check(&[64.0, 67_108_864.0], Logarithmic, Unit::Bytes, &["1Ki", "1Mi"]);
        check(
            &[3.0, 10_000.0],
            Logarithmic,
            Unit::Count,
            &["10", "100", "1000", "10K"],
        );
        check(
            &[0.0, -5.0, f64::NAN, 7.0],
            Logarithmic,
            Unit::Number,
            &["5", "10"],
        );
        check(
            &[31.0, 39.0],
            Logarithmic,
            Unit::Number,
            &["32", "34", "36", "38"],
        );
    }

    #[test]
    fn axes_end_where_data_end() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let axis = Axis::over([3.0, 1100.0].into_iter(), scale, Unit::Count, false).placed(0.0, 500.0);
            assert_eq!([axis.at(3.0), axis.at(1100.0)], [Some(0.0), Some(500.0)]);
            assert!(axis.ticks(100.0).len() >= 2);
        }
    }

    #[test]
    fn extreme_ranges_have_few_labels() {
        let odd = [
            0.0,
            f64::MIN_POSITIVE,
            5e-324,
            1.0,
            1e300,
            f64::MAX,
            -f64::MAX,
            f64::INFINITY,
        ];
        let units = [
            Unit::Bytes,
            Unit::Count,
            Unit::BitsPerSecond,
            Unit::Seconds,
            Unit::Permille,
        ];
        for (one, other) in odd
            .iter()
            .flat_map(|one| odd.iter().map(move |other| (*one, *other)))
        {
            for scale in [Scale::Linear, Scale::Logarithmic] {
                for unit in units {
                    let axis = Axis::over([one, other].into_iter(), scale, unit, true).placed(300.0, 0.0);
                    let ticks = axis.ticks(50.0);
                    assert!(ticks.len() <= 60, "{one} {other} {scale:?} {unit:?} {ticks:?}");
                    for (at, _) in ticks {
                        assert!((-0.1..=300.1).contains(&at), "{one} {other} {scale:?} {unit:?}");
                    }
                }
            }
        }
    }
}
