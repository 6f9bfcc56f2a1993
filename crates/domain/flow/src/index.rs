//! A hash index over entries that its owner keeps in a list: eight bytes for each slot, whatever an entry is.
//!
//! Written here although `HashMap` exists: a map keeps its keys a second time, and moves them whenever it grows. The folds of a
//! host with a flow for each connection need half of the memory this way.

use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hash};

/// Finds the number of an entry by its hash.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// A power of two of slots, or none. The low half of a used slot is the number of the entry plus one, the high half a part
    /// of its hash: it saves most comparisons of entries, and growth needs no entries.
    slots: Vec<u64>,
    used: usize,
    hasher: RandomState,
}

impl Index {
    /// Returns the number of the entry that has this key, as `is_entry` says; `next` if there was none, which is then the
    /// number of this key.
    #[inline]
    pub(crate) fn find_or_insert(
        &mut self,
        key: &impl Hash,
        next: u32,
        is_entry: impl Fn(u32) -> bool,
    ) -> u32 {
        if self.used >= self.slots.len() / 4 * 3 {
            self.grow();
        }
        let hash = self.hasher.hash_one(key) & HASH;
        let mask = self.slots.len() - 1;
        let mut at = first_slot(hash, mask);
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                self.slots[at] = hash | (u64::from(next) + 1);
                self.used += 1;
                return next;
            }
            if slot & HASH == hash {
                let number = (slot & !HASH) as u32 - 1;
                if is_entry(number) {
                    return number;
                }
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        let mask = slots - 1;
        let smaller = std::mem::replace(&mut self.slots, vec![0; slots]);
        for slot in smaller.into_iter().filter(|slot| *slot != 0) {
            let mut at = first_slot(slot & HASH, mask);
            while self.slots[at] != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }
}

const fn first_slot(hash: u64, mask: usize) -> usize {
    (hash >> 32) as usize & mask
}

/// The part of a slot that comes from the hash.
const HASH: u64 = 0xffff_ffff_0000_0000;

const SLOTS_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_one_number() {
        let (mut index, mut entries) = (Index::default(), Vec::new());
        for turn in 0..3 {
            for key in 0..10_000_u64 {
                let next = u32::try_from(entries.len()).unwrap();
                let number = index.find_or_insert(&key, next, |number| entries[number as usize] == key);
                if number == next {
                    assert_eq!(turn, 0, "{key} was there");
                    entries.push(key);
                }
                assert_eq!(u64::from(number), key);
            }
        }
    }

    #[test]
    fn keys_with_the_same_hash_stay_apart() {
        struct SameHash;
        impl Hash for SameHash {
            fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
        }
        let mut index = Index::default();
        for number in 0..200 {
            assert_eq!(index.find_or_insert(&SameHash, number, |_| false), number);
        }
        assert_eq!(index.find_or_insert(&SameHash, 200, |number| number == 137), 137);
    }
}
