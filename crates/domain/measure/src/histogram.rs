//! Counts of delays, in fixed memory.
//!
//! The buckets are those of the crate `hdrhistogram`. Values for which a bucket is too coarse (shortest, longest,
//! mean) are kept here to the nanosecond, and the rank of a percentile is computed in whole numbers, not in floating point.

use std::fmt;

/// Delays in nanoseconds, counted in buckets that are never wider than a thousandth of what they hold.
///
/// Up to 2048 ns each nanosecond has a bucket; from there on each doubling is divided into 1024 of them (HdrHistogram with
/// three significant figures). It reaches to nine hours; longer delays are counted
/// in the last bucket. Memory does not grow, and recording a delay costs a shift and an addition.
///
/// It corrects nothing. Where requests have a schedule, a delay has to be counted from the time at which the request should
/// have been sent: then a stall is in the delays of all the requests that it held up (no "coordinated omission").
///
/// ```
/// use sockeye_measure::Histogram;
///
/// let mut delays = Histogram::new();
/// (1..=1000).for_each(|us| delays.record(us * 1000));
/// assert_eq!(delays.percentile(Histogram::P50), Some(500_223));
/// assert_eq!(delays.max(), Some(1_000_000));
/// ```
#[derive(Clone, PartialEq)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
    sum: u128,
    min: u64,
    max: u64,
}

impl Histogram {
    /// The one in the middle, for [`percentile`](Self::percentile).
    pub const P50: u32 = 500_000;
    /// A tenth took longer.
    pub const P90: u32 = 900_000;
    /// One in a hundred took longer.
    pub const P99: u32 = 990_000;
    /// One in a thousand took longer.
    pub const P99_9: u32 = 999_000;
    /// One in ten thousand took longer.
    pub const P99_99: u32 = 999_900;

    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: hdrhistogram::Histogram::new_with_bounds(1, LONGEST, SIGNIFICANT_FIGURES)
                .expect("bounds that are in order, and at most five figures"),
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Counts a delay.
    pub fn record(&mut self, ns: u64) {
        self.counts.saturating_record(ns);
        self.sum += u128::from(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("all have the same bounds");
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many delays there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// The shortest, to the nanosecond.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.min)
    }

    /// The longest, to the nanosecond.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max)
    }

    /// The mean of all, exactly.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// Returns the delay in nanoseconds that `ppm` millionths of all did not exceed: the upper end of its bucket, and never more than
    /// the longest; `None` if there is none.
    #[must_use]
    pub fn percentile(&self, ppm: u32) -> Option<u64> {
        let ppm = u128::from(ppm.min(1_000_000));
        let rank = (u128::from(self.count()) * ppm).div_ceil(1_000_000).max(1);
        let mut below = 0_u128;
        for bucket in self.counts.iter_recorded() {
            below += u128::from(bucket.count_at_value());
            if below >= rank {
                let top = bucket.value_iterated_to();
                // The last bucket has those too that are longer than any.
                let top = if top >= LONGEST { self.max } else { top };
                return Some(top.clamp(self.min, self.max));
            }
        }
        None
    }

    /// The curve of percentiles: how many of all there are for one that took longer, and how long it is at most, from
    /// the median (2) on, a few points each doubling, to the longest.
    #[must_use]
    pub fn tail(&self) -> Vec<(f64, u64)> {
        let mut points = Vec::new();
        let mut one_in = 1.0_f64;
        while one_in <= self.count() as f64 {
            let ppm = 1e6 - 1e6 / one_in;
            let Some(ns) = self.percentile(ppm.round() as u32) else {
                break;
            };
            points.push((one_in, ns));
            if ppm > 999_999.0 {
                break;
            }
            one_in *= STEP;
        }
        points
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("min", &self.min())
            .field("p50", &self.percentile(Self::P50))
            .field("p99", &self.percentile(Self::P99))
            .field("max", &self.max())
            .finish()
    }
}

/// Nine and three quarters of an hour.
const LONGEST: u64 = (1 << 45) - 1;
const SIGNIFICANT_FIGURES: u8 = 3;
/// Four points for each doubling.
const STEP: f64 = 1.189_207_115_002_721;

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random and are the same each time.
    fn numbers(seed: u64) -> impl Iterator<Item = u64> {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        })
    }

    #[test]
    fn bucket_is_at_most_a_thousandth_wide() {
        for ns in (0..45).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + (1_u64 << bits) / 3]) {
            let mut histogram = Histogram::new();
            histogram.record(ns);
            histogram.record(u64::MAX);
            let top = histogram.percentile(Histogram::P50).unwrap();
            assert!(ns <= top && top - ns <= ns / 1000, "{ns} in one up to {top}");
        }
    }

    #[test]
    fn percentiles_equal_those_of_sorted_values() {
        for (seed, count, width) in [
            (1, 1, 64),
            (2, 2, 44),
            (3, 999, 44),
            (4, 20_000, 30),
            (5, 100_000, 40),
        ] {
            let mut exact: Vec<u64> = numbers(seed)
                .zip(numbers(seed + 77))
                .take(count)
                // Of all sizes, as delays are: each as likely to have few bits as many.
                .map(|(value, size)| (value >> (size % width + 64 - 44)).max(1))
                .collect();
            let mut histogram = Histogram::new();
            exact.iter().for_each(|&ns| histogram.record(ns));
            exact.sort_unstable();
            let sum: u128 = exact.iter().map(|&ns| u128::from(ns)).sum();
            assert_eq!(histogram.count(), count as u64);
            assert_eq!(histogram.min(), exact.first().copied());
            assert_eq!(histogram.max(), exact.last().copied());
            assert_eq!(histogram.mean(), Some(sum as f64 / count as f64));
            for ppm in [
                0, 1, 250_000, 500_000, 900_000, 990_000, 999_000, 999_900, 1_000_000,
            ] {
                let rank = (count as u64 * u64::from(ppm)).div_ceil(1_000_000).max(1);
                let expected = exact[rank as usize - 1];
                let found = histogram.percentile(ppm).unwrap();
                assert!(
                    found >= expected && found - expected <= expected / 1000,
                    "{ppm} of {count}: {found} instead of {expected}"
                );
            }
        }
    }

    #[test]
    fn merged_halves_equal_the_whole() {
        let mut whole = Histogram::new();
        let mut halves = [Histogram::new(), Histogram::new()];
        for (index, ns) in numbers(9).take(5000).enumerate() {
            whole.record(ns >> 30);
            halves[index % 2].record(ns >> 30);
        }
        let [mut merged, other] = halves;
        merged.merge(&other);
        merged.merge(&Histogram::new());
        assert_eq!(merged, whole);
    }

    #[test]
    fn empty_histogram_has_no_percentiles() {
        let empty = Histogram::new();
        assert_eq!(empty.percentile(Histogram::P50), None);
        assert_eq!((empty.min(), empty.max(), empty.mean()), (None, None, None));
        assert!(empty.tail().is_empty());
    }

    #[test]
    fn delay_beyond_all_buckets_is_in_the_last() {
        let mut histogram = Histogram::new();
        histogram.record(5);
        histogram.record(u64::MAX);
        assert_eq!(histogram.max(), Some(u64::MAX));
        assert_eq!(histogram.percentile(1_000_000), Some(u64::MAX));
        assert_eq!(histogram.percentile(500_000), Some(5));
    }

    #[test]
    fn tail_rises_to_the_rarest_delay() {
        let mut histogram = Histogram::new();
        (1..=10_000).for_each(|ns| histogram.record(ns));
        let tail = histogram.tail();
        assert!(
            tail.windows(2)
                .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)
        );
        let (one_in, ns) = tail[tail.len() - 1];
        assert!(one_in > 8000.0 && ns >= 9998, "{one_in} {ns}");
    }
}
