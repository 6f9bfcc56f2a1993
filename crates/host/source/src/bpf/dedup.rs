//! Removes duplicate sockets of a hash chain.
//!
//! Duplicates have two causes. A socket that leaves a chain and returns to its head during the walk leads the walk over
//! the same chain again. A chain that does not fit into the buffer of a run is continued a little before the end of
//! that run.

use std::collections::HashSet;

/// The sockets seen in the current chain, and in chains that later runs continue.
#[derive(Debug)]
pub(super) struct ChainDedup {
    bucket: u32,
    /// The sockets of a short chain: most have one socket or two.
    few: Vec<u64>,
    many: HashSet<u64>,
    /// Chains that another run continues; runs of other threads are read in between. At most one per thread.
    suspended: Vec<(u32, HashSet<u64>)>,
}

impl Default for ChainDedup {
    fn default() -> Self {
        Self {
            bucket: u32::MAX,
            few: Vec::new(),
            many: HashSet::new(),
            suspended: Vec::new(),
        }
    }
}

impl ChainDedup {
    /// Adds a socket of a bucket, by its address; returns whether it is new.
    pub(super) fn insert(&mut self, bucket: u32, socket: u64) -> bool {
        if bucket != self.bucket {
            self.bucket = bucket;
            self.few.clear();
            if !self.many.is_empty() || !self.suspended.is_empty() {
                let index = self.suspended.iter().position(|(other, _)| *other == bucket);
                self.many = index.map_or_else(HashSet::new, |index| self.suspended.swap_remove(index).1);
            }
        }
        if !self.many.is_empty() {
            return self.many.insert(socket);
        }
        if self.few.contains(&socket) {
            return false;
        }
        self.few.push(socket);
        if self.few.len() > FEW {
            self.many.extend(self.few.drain(..));
        }
        true
    }

    /// Marks the bucket of the last socket as continued by another run.
    pub(super) fn suspend(&mut self) {
        let mut seen = std::mem::take(&mut self.many);
        seen.extend(self.few.drain(..));
        self.suspended.push((self.bucket, seen));
        self.bucket = u32::MAX;
    }
}

/// Longer chains use a hash table.
const FEW: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_is_new_once_per_chain() {
        let mut dedup = ChainDedup::default();
        for count in [1, FEW as u64 - 1, FEW as u64, FEW as u64 + 1, 1000] {
            for (bucket, is_new) in [(7, true), (7, false), (8, true), (7, true), (u32::MAX - 1, true)] {
                for socket in 0..count {
                    assert_eq!(
                        dedup.insert(bucket, socket),
                        is_new,
                        "{socket} of {count} in {bucket}"
                    );
                }
            }
        }
    }

    #[test]
    fn suspended_chain_is_continued_after_others() {
        for count in [1, 1000] {
            let mut dedup = ChainDedup::default();
            for bucket in [7, 8] {
                for socket in 0..count {
                    assert!(dedup.insert(bucket, socket));
                }
                dedup.suspend();
            }
            assert!(dedup.insert(9, 0));
            for bucket in [7, 8] {
                assert!(!dedup.insert(bucket, count - 1) && dedup.insert(bucket, count));
                dedup.suspend();
            }
            assert!(!dedup.insert(7, count) && dedup.insert(7, count + 1));
            // A chain that was not suspended starts anew.
            assert!(dedup.insert(9, 0) && dedup.insert(7, 0) && !dedup.insert(8, count));
        }
    }
}
