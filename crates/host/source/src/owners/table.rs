//! The table from socket inode to owners inside `Owners`. The scan of `/proc` and both BPF sources fill it; a
//! listing looks up each socket in it once. Pure; a look-up allocates nothing.

use crate::process_descriptors::SocketDescriptor;
use sockeye_model::{Fd, Inode, Owner, Process};

/// A hash table from sockets to owners with open addressing; its slots point into one array of owners, grouped by socket.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    /// One more than there are places for sockets, for the end of the last. A look-up reads a slot and the next, which are mostly in
    /// the same cache line.
    slots: Vec<Slot>,
    owners: Vec<Owner>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// 0 is an empty slot (sockfs never gives out inode 0: `get_next_ino`).
    inode: u32,
    /// Owners of slot i are `owners[slots[i].start..slots[i + 1].start]`.
    start: u32,
}

impl Table {
    /// Counts owners per slot, turns counts into offsets, then stores each owner at its offset.
    pub(super) fn new(processes: &[Process], descriptors: &[SocketDescriptor]) -> Self {
        let Some(some_process) = processes.first() else {
            return Self::default();
        };
        // At most four fifths full, even if no socket is shared.
        let slots = (descriptors.len() + descriptors.len() / 4 + 1).next_power_of_two();
        let mut table = Self {
            slots: vec![Slot::default(); slots + 1],
            owners: vec![
                Owner {
                    process: *some_process,
                    fd: Fd(0)
                };
                descriptors.len()
            ],
        };
        for one in descriptors {
            let slot = table.slot(one.inode);
            table.slots[slot].inode = one.inode;
            table.slots[slot].start += 1;
        }
        // Now end offsets, which the last step counts down to start offsets.
        let mut sum = 0;
        for slot in &mut table.slots {
            sum += slot.start;
            slot.start = sum;
        }
        for one in descriptors.iter().rev() {
            let slot = table.slot(one.inode);
            table.slots[slot].start -= 1;
            table.owners[table.slots[slot].start as usize] = Owner {
                process: processes[one.process as usize],
                fd: Fd(one.fd),
            };
        }
        let key = |owner: &Owner| (owner.process.pid, owner.fd);
        let mut repeated = false;
        for bounds in table.slots.windows(2) {
            let (start, end) = (bounds[0].start as usize, bounds[1].start as usize);
            if end - start > 1 {
                let owners = &mut table.owners[start..end];
                owners.sort_unstable_by_key(key);
                repeated |= owners.windows(2).any(|pair| key(&pair[0]) == key(&pair[1]));
            }
        }
        if repeated {
            table.drop_repeated();
        }
        table
    }

    /// Removes duplicate owners: threads with copies of one table, or whose leader has ended, are read one by one.
    fn drop_repeated(&mut self) {
        let key = |owner: &Owner| (owner.process.pid, owner.fd);
        let (mut kept, mut place) = (0, 0);
        for Slot { start: end, .. } in &mut self.slots[1..] {
            let first = kept;
            while place < *end as usize {
                if kept == first || key(&self.owners[place]) != key(&self.owners[kept - 1]) {
                    self.owners[kept] = self.owners[place];
                    kept += 1;
                }
                place += 1;
            }
            *end = kept as u32;
        }
        self.owners.truncate(kept);
    }

    #[inline]
    pub(super) fn of(&self, inode: Inode) -> &[Owner] {
        if self.slots.is_empty() || inode.0 == 0 {
            return &[];
        }
        let slot = self.slot(inode.0);
        // An empty slot has no owners: both bounds are the same.
        &self.owners[self.slots[slot].start as usize..self.slots[slot + 1].start as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Inode, &[Owner])> {
        let slots = self.slots.windows(2).filter(|pair| pair[0].inode != 0);
        slots.map(|pair| {
            let owners = &self.owners[pair[0].start as usize..pair[1].start as usize];
            (Inode(pair[0].inode), owners)
        })
    }

    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }

    /// Returns the slot of this inode, or the empty one where it belongs. Ends because some slot is always empty.
    #[inline]
    fn slot(&self, inode: u32) -> usize {
        // A power of two, and one more.
        let mask = self.slots.len() - 2;
        // Inodes are consecutive; Fibonacci hashing spreads them.
        let mut slot = (u64::from(inode).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & mask;
        while self.slots[slot].inode != inode && self.slots[slot].inode != 0 {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Comm, Pid};

    fn process(pid: u32) -> Process {
        Process {
            pid: Pid(pid),
            pgid: None,
            comm: Comm::new(b"x"),
        }
    }

    fn pids_and_fds(table: &Table, inode: u32) -> Vec<(u32, u32)> {
        let owners = table.of(Inode(inode)).iter();
        owners.map(|owner| (owner.process.pid.0, owner.fd.0)).collect()
    }

    #[test]
    fn empty_table_has_no_owners() {
        assert!(Table::default().of(Inode(1)).is_empty());
        let table = Table::new(&[process(1)], &[]);
        assert!(table.of(Inode(1)).is_empty());
        assert!(table.of(Inode(0)).is_empty());
    }

    #[test]
    fn shared_socket_has_all_owners_sorted() {
        let descriptors = [(9, 1, 7), (5, 0, 3), (9, 0, 8), (9, 0, 4)]
            .map(|(inode, process, fd)| SocketDescriptor { inode, process, fd });
        let table = Table::new(&[process(20), process(10)], &descriptors);
        assert_eq!(pids_and_fds(&table, 9), [(10, 7), (20, 4), (20, 8)]);
        assert_eq!(pids_and_fds(&table, 5), [(20, 3)]);
        assert_eq!(pids_and_fds(&table, 6), []);
        let mut all: Vec<_> = table
            .iter()
            .map(|(inode, owners)| (inode.0, owners.len()))
            .collect();
        all.sort_unstable();
        assert_eq!(all, [(5, 1), (9, 3)]);
    }

    #[test]
    fn duplicate_owners_are_removed() {
        let mut descriptors = Vec::new();
        for inode in 1..=100 {
            for process in [1, 0, 1, 0].into_iter().take(inode as usize % 5) {
                descriptors.push(SocketDescriptor {
                    inode,
                    process,
                    fd: inode,
                });
            }
        }
        let table = Table::new(&[process(20), process(10)], &descriptors);
        for inode in 1..=100 {
            let expected: &[_] = match inode % 5 {
                0 => &[],
                1 => &[(10, inode)],
                _ => &[(10, inode), (20, inode)],
            };
            assert_eq!(pids_and_fds(&table, inode), expected);
        }
        assert_eq!(table.len(), 20 * (1 + 3 * 2));
    }

    #[test]
    fn finds_each_of_many_inodes_and_no_other() {
        for count in [1, 2, 3, 4, 5, 100, 819, 820, 10_000_u32] {
            let descriptors: Vec<_> = (1..=count)
                .map(|n| SocketDescriptor {
                    inode: n * 3,
                    process: 0,
                    fd: n,
                })
                .collect();
            let table = Table::new(&[process(1)], &descriptors);
            for n in 1..=count {
                assert_eq!(pids_and_fds(&table, n * 3), [(1, n)]);
                assert_eq!(pids_and_fds(&table, n * 3 + 1), []);
            }
        }
    }
}
