//! A hash index over entries that its owner keeps in a list: five bytes for each slot, whatever an entry is.
//!
//! Written here although `HashMap` exists: a map keeps its keys a second time, and moves them whenever it grows. The fold of a host with
//! a flow for each connection needs half of the memory this way. A new key, of which there are as many as connections then, is
//! decided by bytes that fit into the processor's cache.

use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hash};

/// Finds the number of an entry by its hash.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Of a power of two of slots, or none: a part of the hash, or [`FREE`].
    tags: Vec<u8>,
    /// The numbers of the entries in these slots.
    numbers: Vec<u32>,
    hasher: RandomState,
}

impl Index {
    /// Returns the number of the entry with this key; `next` if there was none, which is then its number. Entries are numbered from
    /// 0, and `key_of` returns the key of each.
    #[inline]
    pub(crate) fn find_or_insert<K: Hash + Eq>(
        &mut self,
        key: &K,
        next: u32,
        key_of: impl Fn(u32) -> K,
    ) -> u32 {
        if next as usize >= self.tags.len() / 4 * 3 {
            self.grow(next, &key_of);
        }
        let hash = self.hasher.hash_one(key);
        let (tag, mask) = (tag(hash), self.tags.len() - 1);
        let mut slot = hash as usize & mask;
        loop {
            match self.tags[slot] {
                FREE => {
                    (self.tags[slot], self.numbers[slot]) = (tag, next);
                    return next;
                }
                same if same == tag && key_of(self.numbers[slot]) == *key => return self.numbers[slot],
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    /// Doubles the slots for entries with the numbers before `next`.
    #[cold]
    fn grow<K: Hash>(&mut self, next: u32, key_of: &impl Fn(u32) -> K) {
        let slots = (self.tags.len() * 2).max(SLOTS_MIN);
        (self.tags, self.numbers) = (vec![FREE; slots], vec![0; slots]);
        for number in 0..next {
            let hash = self.hasher.hash_one(key_of(number));
            let mut slot = hash as usize & (slots - 1);
            while self.tags[slot] != FREE {
                slot = (slot + 1) & (slots - 1);
            }
            (self.tags[slot], self.numbers[slot]) = (tag(hash), number);
        }
    }
}

/// The bits of a hash that do not choose the slot.
const fn tag(hash: u64) -> u8 {
    (hash >> 56) as u8 | 1
}

const FREE: u8 = 0;

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
                let number = index.find_or_insert(&key, next, |number| entries[number as usize]);
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
        #[derive(PartialEq, Eq)]
        struct SameHash(u32);
        impl Hash for SameHash {
            fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
        }
        let mut index = Index::default();
        for number in 0..200 {
            assert_eq!(index.find_or_insert(&SameHash(number), number, SameHash), number);
        }
        assert_eq!(index.find_or_insert(&SameHash(137), 200, SameHash), 137);
    }
}
