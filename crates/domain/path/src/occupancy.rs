//! How many packets were in a hop at the same time.

/// Collects when packets entered and left, in bounded memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Occupancy {
    /// Times of entering and leaving, in nanoseconds.
    stays: Vec<(u64, u64)>,
    max: u64,
}

impl Occupancy {
    /// Adds a packet's stay.
    pub(crate) fn add(&mut self, entered_ns: u64, left_ns: u64) {
        if self.stays.len() >= STAYS_MAX {
            self.max = self.max();
            // Journeys come in the order of their ends: what left long ago meets no later one.
            self.stays.sort_unstable_by_key(|(_, left)| *left);
            self.stays.drain(..STAYS_MAX - STAYS_KEPT);
        }
        self.stays.push((entered_ns, left_ns));
    }

    /// Adds the stays of another one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.max = self.max.max(other.max);
        for (entered_ns, left_ns) in &other.stays {
            self.add(*entered_ns, *left_ns);
        }
    }

    /// Returns how many packets were there at once, at most.
    pub(crate) fn max(&self) -> u64 {
        // A packet that leaves at a time makes room for one that enters then.
        let mut changes: Vec<(u64, bool)> = self
            .stays
            .iter()
            .filter(|(entered, left)| entered < left)
            .flat_map(|(entered, left)| [(*entered, true), (*left, false)])
            .collect();
        changes.sort_unstable();
        let (mut now, mut max) = (0_u64, self.max);
        for (_, enters) in changes {
            now = if enters { now + 1 } else { now - 1 };
            max = max.max(now);
        }
        max
    }
}

const STAYS_MAX: usize = 65_536;
const STAYS_KEPT: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stays: &[(u64, u64)], max: u64) {
        let mut occupancy = Occupancy::default();
        for (entered, left) in stays {
            occupancy.add(*entered, *left);
        }
        assert_eq!(occupancy.max(), max);
    }

    #[test]
    fn overlapping_stays_are_counted() {
        check(&[], 0);
        check(&[(1, 5), (2, 6), (3, 4)], 3);
        check(&[(1, 2), (2, 3), (3, 4)], 1);
        check(&[(4, 4)], 0);
    }

    #[test]
    fn maximum_survives_the_bound() {
        let early = (0..5).map(|nth| (nth, 10));
        let late = (0..2 * STAYS_MAX as u64).map(|nth| (100 + nth, 101 + nth));
        check(&early.chain(late).collect::<Vec<_>>(), 5);
    }
}
