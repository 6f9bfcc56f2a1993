//! Sets of inodes and of descriptors. The kernel gives both out one after the other, so that 64 of them have one place in a hash table: the
//! sets of a hundred thousand sockets stay in the processor's cache.

use foldhash::HashMap;

/// A set of numbers, most of which are near others.
#[derive(Debug, Clone, Default)]
pub(super) struct NumberSet {
    /// One bit for each number: by the number without its last six bits.
    bits: HashMap<u32, u64>,
}

impl NumberSet {
    pub(super) fn insert(&mut self, number: u32) {
        *self.bits.entry(number >> 6).or_default() |= bit(number);
    }

    pub(super) fn remove(&mut self, number: u32) {
        if let Some(bits) = self.bits.get_mut(&(number >> 6)) {
            *bits &= !bit(number);
        }
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        let bits = self.bits.get(&(number >> 6));
        bits.is_some_and(|bits| bits & bit(number) != 0)
    }

    pub(super) fn len(&self) -> u64 {
        self.bits.values().map(|bits| u64::from(bits.count_ones())).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bits.values().all(|bits| *bits == 0)
    }

    /// Returns the largest number.
    pub(super) fn last(&self) -> Option<u32> {
        let filled = self.bits.iter().filter(|(_, bits)| **bits != 0);
        filled
            .max_by_key(|(place, _)| **place)
            .map(|(place, bits)| (place << 6) | bits.ilog2())
    }

    /// Counts the numbers that `others` does not have.
    pub(super) fn without(&self, others: &Self) -> u64 {
        let left = self.bits.iter().map(|(place, bits)| {
            let of_others = others.bits.get(place).copied().unwrap_or(0);
            u64::from((bits & !of_others).count_ones())
        });
        left.sum()
    }
}

impl Extend<u32> for NumberSet {
    fn extend<T: IntoIterator<Item = u32>>(&mut self, numbers: T) {
        for number in numbers {
            self.insert(number);
        }
    }
}

const fn bit(number: u32) -> u64 {
    1 << (number & 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u32]) -> NumberSet {
        let mut set = NumberSet::default();
        set.extend(numbers.iter().copied());
        set
    }

    #[test]
    fn has_the_numbers_that_were_inserted() {
        let numbers = [0, 1, 63, 64, 65, 4_026_531_840, u32::MAX];
        let set = set(&numbers);
        assert_eq!(set.len(), numbers.len() as u64);
        assert_eq!(set.last(), Some(u32::MAX));
        for number in numbers {
            assert!(set.contains(number));
        }
        for number in [2, 62, 66, 128, 4_026_531_841, u32::MAX - 1] {
            assert!(!set.contains(number));
        }
    }

    #[test]
    fn removed_numbers_leave_others() {
        let mut set = set(&[7, 8, 8, 200]);
        for number in [200, 200, 9, 100_000] {
            set.remove(number);
        }
        assert_eq!((set.len(), set.last()), (2, Some(8)));
        set.remove(7);
        set.remove(8);
        assert!(set.is_empty());
        assert_eq!((set.len(), set.last()), (0, None));
    }

    #[test]
    fn numbers_that_others_lack_are_counted() {
        let some = set(&[1, 2, 3, 64, 1000]);
        assert_eq!(some.without(&set(&[2, 64, 5000])), 3);
        assert_eq!(some.without(&some), 0);
        assert_eq!(some.without(&NumberSet::default()), 5);
        assert_eq!(NumberSet::default().without(&some), 0);
    }
}
