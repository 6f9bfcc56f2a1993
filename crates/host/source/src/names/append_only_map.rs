//! Cache for `SystemNames` (namespace names, interfaces of other namespaces) and `Hosts`. It gives out
//! references while other threads add, without a lock. The users of the map must bound its size.

use std::borrow::Borrow;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::OnceLock;

/// A map that only grows, and whose values never move: readers on any thread may keep references into it while
/// others add. Each bucket is a chain of cells that are written once.
pub(super) struct AppendOnlyMap<K, V> {
    buckets: Box<[Cell<K, V>]>,
    hasher: RandomState,
}

type Cell<K, V> = OnceLock<Box<Node<K, V>>>;

struct Node<K, V> {
    key: K,
    value: V,
    next: Cell<K, V>,
}

/// Chains stay short up to some ten thousand entries; the users of this map enforce such a bound.
const BUCKETS: usize = 1024;

impl<K, V> Default for AppendOnlyMap<K, V> {
    fn default() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| OnceLock::new()).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl<K: Hash + Eq, V> AppendOnlyMap<K, V> {
    pub(super) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut cell = self.bucket(key);
        while let Some(node) = cell.get() {
            if node.key.borrow() == key {
                return Some(&node.value);
            }
            cell = &node.next;
        }
        None
    }

    /// Returns the value of this key, and creates it if there is none. If two threads create one, the first stays.
    pub(super) fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> &V
    where
        K: Clone,
    {
        if let Some(value) = self.get(&key) {
            return value;
        }
        self.insert(key.clone(), make());
        self.get(&key)
            .expect("it was just inserted, and nothing is ever removed")
    }

    /// Adds a value, unless the key has one.
    pub(super) fn insert(&self, key: K, value: V) {
        let mut cell = self.bucket(&key);
        let mut new = Box::new(Node {
            key,
            value,
            next: OnceLock::new(),
        });
        // If another thread fills the cell first, we get our node back and try the next cell.
        while let Err(rejected) = cell.set(new) {
            new = rejected;
            match cell.get() {
                Some(node) if node.key != new.key => cell = &node.next,
                _ => return,
            }
        }
    }

    fn bucket<Q: Hash + ?Sized>(&self, key: &Q) -> &Cell<K, V> {
        &self.buckets[self.hasher.hash_one(key) as usize % BUCKETS]
    }
}

impl<K, V> fmt::Debug for AppendOnlyMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendOnlyMap").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_do_not_move_while_threads_insert() {
        let map = AppendOnlyMap::default();
        map.insert(0, 0);
        let first: &u32 = map.get(&0).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5000).for_each(|n| map.insert(n, n * 2)));
            }
        });
        assert!((0..5000).all(|n| map.get(&n) == Some(&(n * 2))));
        assert_eq!(map.get(&5000), None);
        assert!(std::ptr::eq(first, map.get(&0).unwrap()));
        map.insert(0, 7);
        assert_eq!(*first, 0);
        assert_eq!(*map.get_or_insert_with(0, || unreachable!()), 0);
        assert_eq!(*map.get_or_insert_with(5000, || 1), 1);
    }
}
