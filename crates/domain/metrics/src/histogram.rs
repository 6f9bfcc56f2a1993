//! A histogram of round trip times.

/// How many round trip times lie between fixed bounds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    /// By bound; the last is for longer ones.
    counts: [u64; BOUNDS_US.len() + 1],
    sum_us: u64,
}

impl Histogram {
    /// Adds a round trip time.
    pub fn observe(&mut self, rtt_us: u32) {
        let place = BOUNDS_US.partition_point(|bound| *bound < rtt_us);
        self.counts[place] += 1;
        self.sum_us = self.sum_us.saturating_add(u64::from(rtt_us));
    }

    /// Adds all of another histogram.
    pub fn add(&mut self, more: &Self) {
        for (count, more) in self.counts.iter_mut().zip(more.counts) {
            *count += more;
        }
        self.sum_us = self.sum_us.saturating_add(more.sum_us);
    }

    /// Returns each upper bound in seconds, which belongs to its bucket, with the count of its bucket alone. The last has none.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        let bounds = BOUNDS_US.iter().map(|bound| Some(f64::from(*bound) / 1e6));
        bounds.chain([None]).zip(self.counts)
    }

    /// Returns the number of round trip times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns their sum, in seconds.
    #[must_use]
    pub fn sum_seconds(&self) -> f64 {
        self.sum_us as f64 / 1e6
    }
}

/// From within a host to a satellite and a full buffer.
const BOUNDS_US: [u32; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_belongs_to_the_bucket_below_it() {
        let mut times = Histogram::default();
        for rtt_us in [0, 100, 101, 2_500_000, 2_500_001, u32::MAX] {
            times.observe(rtt_us);
        }
        let filled: Vec<_> = times.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(
            filled,
            [(Some(0.0001), 2), (Some(0.00025), 1), (Some(2.5), 1), (None, 2)]
        );
        assert_eq!(times.count(), 6);
        assert!((times.sum_seconds() - 4_299.967_497).abs() < 1e-6);
    }

    #[test]
    fn sum_of_two_has_both() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        one.observe(300);
        other.observe(300);
        other.observe(9_000);
        one.add(&other);
        assert_eq!(one.count(), 3);
        assert_eq!(one.buckets().nth(2), Some((Some(0.0005), 2)));
    }
}
