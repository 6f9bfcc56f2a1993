//! Ranges of sequence numbers that the receiver reported (SACK).

/// SACKed ranges, in order, disjoint.
#[derive(Debug, Default)]
pub(crate) struct SackedRanges(Vec<(u64, u64)>);

impl SackedRanges {
    /// Adds a range; returns whether it fitted.
    pub(crate) fn add(&mut self, start: u64, end: u64) -> bool {
        // Most blocks extend a known one.
        if self.covers(start, end) {
            return true;
        }
        let first = self.0.partition_point(|range| range.1 < start);
        let touching = self.0[first..].partition_point(|range| range.0 <= end);
        if let Some(last) = touching.checked_sub(1) {
            let merged = (self.0[first].0.min(start), self.0[first + last].1.max(end));
            self.0[first] = merged;
            self.0.drain(first + 1..=first + last);
            return true;
        }
        if self.0.len() >= RANGES_MAX {
            return false;
        }
        self.0.insert(first, (start, end));
        true
    }

    /// Whether one range has all of these numbers.
    pub(crate) fn covers(&self, start: u64, end: u64) -> bool {
        let place = self.0.partition_point(|range| range.1 < end);
        self.0.get(place).is_some_and(|range| range.0 <= start)
    }

    /// Whether a later number was reported.
    pub(crate) fn extend_beyond(&self, end: u64) -> bool {
        self.0.last().is_some_and(|range| range.1 > end)
    }

    /// Start of the first range; `None` if there is none.
    pub(crate) fn first_start(&self) -> Option<u64> {
        self.0.first().map(|range| range.0)
    }

    /// Removes what is acknowledged.
    pub(crate) fn remove_up_to(&mut self, acked: u64) {
        let below = self.0.partition_point(|range| range.1 <= acked);
        self.0.drain(..below);
        if let Some(first) = self.0.first_mut() {
            first.0 = acked.max(first.0);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(u64, u64)>()
    }
}

/// A window of 16 MB with every third segment lost has fewer.
const RANGES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_become_one() {
        let mut ranges = SackedRanges::default();
        for (start, end) in [(30, 40), (10, 20), (50, 60), (20, 30), (35, 55), (70, 80)] {
            assert!(ranges.add(start, end));
        }
        assert_eq!(ranges.0, [(10, 60), (70, 80)]);
        assert!(ranges.covers(10, 60) && ranges.covers(71, 75) && !ranges.covers(55, 65));
        ranges.remove_up_to(72);
        assert_eq!(ranges.0, [(72, 80)]);
    }

    #[test]
    fn ranges_beyond_the_limit_do_not_fit() {
        let mut ranges = SackedRanges::default();
        for number in 0..RANGES_MAX as u64 {
            assert!(ranges.add(10 * number, 10 * number + 1));
        }
        assert!(!ranges.add(1_000_000, 1_000_001));
        assert!(ranges.add(1, 5));
    }
}
