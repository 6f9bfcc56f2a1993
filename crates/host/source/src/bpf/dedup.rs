//! Which sockets of a chain were dedup already.
//!
//! A socket that leaves a chain and comes back to its head while the walk stands on it leads over the same chain once
//! more; and a chain that does not fit into a run's buffer is gone on with a little before where the run ended.

use std::collections::HashSet;

/// The sockets dedup of the chain that is being read, and of those that are to be gone on with.
#[derive(Debug)]
pub(super) struct ChainDedup {
    bucket: u32,
    /// Most chains have one socket or two.
    few: Vec<u64>,
    many: HashSet<u64>,
    /// Chains that another run goes on with; in the meantime other threads' runs are read. There are as many as threads.
    left: Vec<(u32, HashSet<u64>)>,
}

impl Default for ChainDedup {
    fn default() -> Self {
        Self {
            bucket: u32::MAX,
            few: Vec::new(),
            many: HashSet::new(),
            left: Vec::new(),
        }
    }
}

impl ChainDedup {
    /// Notes a socket of a bucket, by its address; whether it was not dedup yet.
    pub(super) fn insert(&mut self, bucket: u32, socket: u64) -> bool {
        if bucket != self.bucket {
            self.bucket = bucket;
            self.few.clear();
            if !self.many.is_empty() || !self.left.is_empty() {
                let left = self.left.iter().position(|(left, _)| *left == bucket);
                self.many = left.map_or_else(HashSet::new, |place| self.left.swap_remove(place).1);
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

    /// Another run will go on with the bucket of the last socket.
    pub(super) fn suspend(&mut self) {
        let mut dedup = std::mem::take(&mut self.many);
        dedup.extend(self.few.drain(..));
        self.left.push((self.bucket, dedup));
        self.bucket = u32::MAX;
    }
}

/// More are looked up by hash.
const FEW: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_new_once_in_its_chain() {
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
    fn a_chain_is_gone_on_with_after_others() {
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
            // Then it is over.
            assert!(dedup.insert(9, 0) && dedup.insert(7, 0) && !dedup.insert(8, count));
        }
    }
}
