//! A compact histogram.

use crate::percentiles::Percentiles;

/// Counts values in buckets of an eighth of a power of two: percentiles are exact to about 6 %. Only the
/// buckets from the lowest to the highest used one take memory.
#[derive(Debug, Default, Clone)]
pub(crate) struct Histogram(Option<Box<Buckets>>);

#[derive(Debug, Default, Clone)]
struct Buckets {
    counts: Vec<u32>,
    first: u16,
    count: u64,
    min: u64,
    max: u64,
}

impl Histogram {
    /// Adds a value `weight` times.
    pub(crate) fn add(&mut self, value: u64, weight: u32) {
        self.0.get_or_insert_default().add(value, weight);
    }

    /// Number of values.
    pub(crate) fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |buckets| buckets.count)
    }

    /// Lowest value; `None` if empty.
    pub(crate) fn min(&self) -> Option<u64> {
        self.0.as_ref().map(|buckets| buckets.min)
    }

    /// The value of this percentile; `None` if empty.
    pub(crate) fn percentile(&self, percent: u64) -> Option<u64> {
        self.0.as_ref()?.percentile(percent)
    }

    /// The percentiles for a report.
    pub(crate) fn percentiles(&self) -> Percentiles {
        let Some(buckets) = &self.0 else {
            return Percentiles::default();
        };
        let at = |percent| buckets.percentile(percent).unwrap_or(0);
        Percentiles {
            count: buckets.count,
            min_ns: buckets.min,
            p50_ns: at(50),
            p90_ns: at(90),
            p99_ns: at(99),
            max_ns: buckets.max,
        }
    }

    /// Heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |buckets| {
            size_of::<Buckets>() + buckets.counts.capacity() * size_of::<u32>()
        })
    }
}

impl Buckets {
    fn add(&mut self, value: u64, weight: u32) {
        let bucket = bucket_of(value);
        if self.counts.is_empty() {
            (self.first, self.min) = (bucket, value);
        }
        if bucket < self.first {
            let missing = usize::from(self.first - bucket);
            self.counts.reserve_exact(missing);
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = bucket;
        }
        let index = usize::from(bucket - self.first);
        if index >= self.counts.len() {
            self.counts.reserve_exact(index + 1 - self.counts.len());
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] = self.counts[index].saturating_add(weight);
        self.count = self.count.saturating_add(u64::from(weight));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn percentile(&self, percent: u64) -> Option<u64> {
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let rank = (total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return Some(middle_of(usize::from(self.first) + index).clamp(self.min, self.max));
            }
        }
        None
    }
}

fn bucket_of(value: u64) -> u16 {
    if value < 2 * STEPS {
        return value as u16;
    }
    let octave = u64::from(63 - value.leading_zeros()) - STEP_BITS;
    (octave * STEPS + (value >> octave)) as u16
}

fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let octave = bucket / STEPS - 1;
    let low = (bucket - octave * STEPS) << octave;
    low + ((1 << octave) >> 1)
}

const STEP_BITS: u64 = 3;
const STEPS: u64 = 1 << STEP_BITS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_is_within_its_bucket() {
        for value in (0..200).chain([1_000, 123_456_789, u64::MAX / 3, u64::MAX]) {
            let middle = middle_of(usize::from(bucket_of(value)));
            assert_eq!(bucket_of(middle), bucket_of(value), "{value}");
            assert!(middle.abs_diff(value) <= value / 16 + 1, "{value} {middle}");
        }
    }

    #[test]
    fn percentiles_of_equal_steps() {
        let mut spread = Histogram::default();
        assert_eq!(spread.percentile(50), None);
        for value in (1..=1_000).rev() {
            spread.add(value * 1_000, 1);
        }
        let all = spread.percentiles();
        assert_eq!((all.count, all.min_ns, all.max_ns), (1_000, 1_000, 1_000_000));
        assert!(
            all.p50_ns.abs_diff(500_000) < 35_000 && all.p99_ns.abs_diff(990_000) < 65_000,
            "{all:?}"
        );
    }
}
