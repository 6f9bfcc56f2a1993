//! A compact histogram.

use crate::percentiles::Percentiles;

/// Counts values in buckets of an eighth of a power of two: percentiles are exact to about 6 %.
///
/// The first few buckets are kept as a list: most connections are short, and their values are few and far apart. With more, the
/// buckets from the lowest to the highest used one take memory.
#[derive(Debug, Default, Clone)]
pub(crate) struct Histogram(Option<Box<Buckets>>);

#[derive(Debug, Default, Clone)]
struct Buckets {
    count: u64,
    min: u64,
    max: u64,
    /// Used buckets in order, as long as `counts` is empty
    few: [(u16, u32); FEW],
    few_len: u8,
    /// Number of the first bucket in `counts`
    first: u16,
    counts: Vec<u32>,
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
        if self.count == 0 {
            self.min = value;
        }
        self.count = self.count.saturating_add(u64::from(weight));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if self.counts.is_empty() && self.add_to_few(bucket, weight) {
            return;
        }
        self.add_to_all(bucket, weight);
    }

    /// `false` if the bucket is new and the list is full: then `counts` has all.
    fn add_to_few(&mut self, bucket: u16, weight: u32) -> bool {
        let len = usize::from(self.few_len);
        let at = self.few[..len].partition_point(|(known, _)| *known < bucket);
        if let Some((_, count)) = self.few[..len].get_mut(at).filter(|(known, _)| *known == bucket) {
            *count = count.saturating_add(weight);
            return true;
        }
        if len < FEW {
            self.few.copy_within(at..len, at + 1);
            self.few[at] = (bucket, weight);
            self.few_len += 1;
            return true;
        }
        let (first, last) = (self.few[0].0, self.few[FEW - 1].0);
        self.first = first;
        self.counts.reserve_exact(usize::from(last - first) + 1);
        self.counts.resize(usize::from(last - first) + 1, 0);
        for (bucket, count) in self.few {
            self.counts[usize::from(bucket - first)] = count;
        }
        false
    }

    fn add_to_all(&mut self, bucket: u16, weight: u32) {
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
    }

    fn percentile(&self, percent: u64) -> Option<u64> {
        if self.counts.is_empty() {
            let few = &self.few[..usize::from(self.few_len)];
            self.nth(
                percent,
                few.iter().map(|(bucket, count)| (usize::from(*bucket), *count)),
            )
        } else {
            let first = usize::from(self.first);
            let all = self.counts.iter().enumerate();
            self.nth(percent, all.map(|(index, count)| (first + index, *count)))
        }
    }

    fn nth(&self, percent: u64, buckets: impl Iterator<Item = (usize, u32)> + Clone) -> Option<u64> {
        let total: u64 = buckets.clone().map(|(_, count)| u64::from(count)).sum();
        let rank = (total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (bucket, count) in buckets {
            seen += u64::from(count);
            if seen >= rank {
                return Some(middle_of(bucket).clamp(self.min, self.max));
            }
        }
        None
    }
}

/// Buckets of a list.
const FEW: usize = 6;

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

    /// Lists and arrays of buckets count the same.
    #[test]
    fn few_values_far_apart_are_counted_as_many() {
        let values = [5_u64, 1 << 40, 3, 1 << 20, 77, 9_000, 77, 1 << 50, 2, 4];
        for len in 1..=values.len() {
            let mut spread = Histogram::default();
            let mut sorted = values[..len].to_vec();
            for value in &values[..len] {
                spread.add(*value, 1);
            }
            sorted.sort_unstable();
            for (index, value) in sorted.iter().enumerate() {
                let percent = ((index + 1) * 100).div_euclid(len) as u64;
                let rank = (len as u64 * percent).div_ceil(100).max(1) as usize;
                let expected = sorted[rank - 1];
                let found = spread.percentile(percent).expect("values");
                assert_eq!(bucket_of(found), bucket_of(expected), "{len} {percent} {value}");
            }
            assert_eq!((spread.count(), spread.min()), (len as u64, Some(sorted[0])));
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
