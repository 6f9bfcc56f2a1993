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
        let (mut low, mut high) = (start, end);
        self.0.retain(|range| {
            let is_apart = range.1 < low || high < range.0;
            if !is_apart {
                (low, high) = (low.min(range.0), high.max(range.1));
            }
            is_apart
        });
        if self.0.len() >= RANGES_MAX {
            return false;
        }
        let place = self.0.partition_point(|range| range.0 < low);
        self.0.insert(place, (low, high));
        true
    }

    /// Whether one range has all of these numbers.
    pub(crate) fn covers(&self, start: u64, end: u64) -> bool {
        self.0.iter().any(|range| range.0 <= start && end <= range.1)
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
        self.0.retain_mut(|(start, end)| {
            *start = acked.max(*start);
            *end > acked
        });
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(u64, u64)>()
    }
}

const RANGES_MAX: usize = 128;
