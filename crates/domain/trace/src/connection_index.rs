//! Finds the place of a connection by its tuple. `Shard` keeps the tuples with the connections, so that the index takes
//! eight bytes for each slot.

use crate::tuple::Tuple;
use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// An open-addressing table of places. Slots are probed one after the other, and at most three of four are used.
#[derive(Debug, Default)]
pub(crate) struct ConnectionIndex {
    slots: Vec<Slot>,
    len: usize,
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u32,
    /// [`EMPTY`], or where the connection is
    place: u32,
}

impl ConnectionIndex {
    pub(crate) fn hash(&self, tuple: &Tuple) -> u32 {
        self.hasher.hash_one(tuple) as u32
    }

    /// The place with this hash that `is_same` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u32, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let at = self.position(hash, is_same)?;
        Some(self.slots[at].place)
    }

    /// Adds a place that is not in the index.
    pub(crate) fn insert(&mut self, hash: u32, place: u32) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.len += 1;
        self.place_slot(Slot { hash, place });
    }

    /// Changes where a connection is.
    pub(crate) fn replace(&mut self, hash: u32, old: u32, new: u32) {
        if let Some(at) = self.position(hash, |place| place == old) {
            self.slots[at].place = new;
        }
    }

    pub(crate) fn remove(&mut self, hash: u32, place: u32) {
        let Some(mut hole) = self.position(hash, |found| found == place) else {
            return;
        };
        self.len -= 1;
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.place == EMPTY {
                break;
            }
            // A slot moves into the hole unless it would be before its first position.
            let first = slot.hash as usize & mask;
            if at.wrapping_sub(first) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = FREE;
    }

    /// Heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    #[inline]
    fn position(&self, hash: u32, is_same: impl Fn(u32) -> bool) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.place == EMPTY {
                return None;
            }
            if slot.hash == hash && is_same(slot.place) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn place_slot(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = slot.hash as usize & mask;
        while self.slots[at].place != EMPTY {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    fn grow(&mut self) {
        let len = (self.slots.len() * 2).max(SLOTS_MIN);
        let old = std::mem::replace(&mut self.slots, vec![FREE; len]);
        for slot in old.into_iter().filter(|slot| slot.place != EMPTY) {
            self.place_slot(slot);
        }
    }
}

const EMPTY: u32 = u32::MAX;
const FREE: Slot = Slot {
    hash: 0,
    place: EMPTY,
};
const SLOTS_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_until_they_are_removed() {
        let mut index = ConnectionIndex::default();
        // Few different hashes: most slots are displaced.
        let hash = |place: u32| (place % 7).wrapping_mul(0x9e37_79b9) | 0xf;
        for place in 0..1_000 {
            index.insert(hash(place), place);
        }
        for place in (0..1_000).step_by(3) {
            index.remove(hash(place), place);
        }
        index.replace(hash(1), 1, 5_000);
        for place in 0..1_000 {
            let found = index.find(hash(place), |found| found == place);
            assert_eq!(found, (place % 3 != 0 && place != 1).then_some(place));
        }
        assert_eq!(index.find(hash(1), |found| found == 5_000), Some(5_000));
    }

    #[test]
    fn place_is_found_among_equal_hashes() {
        let mut index = ConnectionIndex::default();
        index.insert(3, 10);
        index.insert(3, 11);
        assert_eq!(index.find(3, |place| place == 11), Some(11));
        index.remove(3, 10);
        assert_eq!(index.find(3, |_| true), Some(11));
        assert_eq!(index.find(4, |_| true), None);
    }
}
