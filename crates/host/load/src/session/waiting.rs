//! Connections that have not been admitted yet, and which of them make room for new ones.

use super::limits::{AddressGroup, HANDSHAKE_TIMEOUT, WAITING_MAX, WAITING_PER_ADDRESS_MAX};
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// Waiting connections by the number of their arrival. At a limit the oldest of the address that has the most leaves,
/// one that has said nothing first.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    entries: BTreeMap<u64, Entry<T>>,
    per_group: HashMap<AddressGroup, usize>,
}

#[derive(Debug)]
struct Entry<T> {
    group: AddressGroup,
    since: Instant,
    is_silent: bool,
    value: T,
}

impl<T> Waiting<T> {
    pub(super) fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            per_group: HashMap::new(),
        }
    }

    /// Adds a connection, whose number is the highest. Returns the one that made room for it.
    pub(super) fn insert(&mut self, number: u64, group: AddressGroup, now: Instant, value: T) -> Option<T> {
        let evicted = if self.per_group.get(&group).copied().unwrap_or(0) >= WAITING_PER_ADDRESS_MAX {
            self.evict_from(group)
        } else if self.entries.len() >= WAITING_MAX {
            self.evict()
        } else {
            None
        };
        *self.per_group.entry(group).or_default() += 1;
        let entry = Entry {
            group,
            since: now,
            is_silent: true,
            value,
        };
        self.entries.insert(number, entry);
        evicted
    }

    /// Removes the oldest connection of the address that has the most.
    pub(super) fn evict(&mut self) -> Option<T> {
        let (&busiest, _) = self.per_group.iter().max_by_key(|(_, count)| **count)?;
        self.evict_from(busiest)
    }

    fn evict_from(&mut self, group: AddressGroup) -> Option<T> {
        let mut of_group = self.entries.iter().filter(|(_, entry)| entry.group == group);
        let oldest = of_group.clone().find(|(_, entry)| entry.is_silent);
        let (&number, _) = oldest.or_else(|| of_group.next())?;
        self.remove(number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.entries.get_mut(&number).map(|entry| &mut entry.value)
    }

    /// Records that the connection has begun to speak a known protocol.
    pub(super) fn has_spoken(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.is_silent = false;
        }
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let entry = self.entries.remove(&number)?;
        if let Some(count) = self.per_group.get_mut(&entry.group) {
            *count -= 1;
            if *count == 0 {
                self.per_group.remove(&entry.group);
            }
        }
        Some(entry.value)
    }

    /// Removes a connection that has waited for too long, if there is one.
    pub(super) fn expired(&mut self, now: Instant) -> Option<T> {
        let (&number, oldest) = self.entries.first_key_value()?;
        let is_late = now.saturating_duration_since(oldest.since) >= HANDSHAKE_TIMEOUT;
        is_late.then(|| self.remove(number)).flatten()
    }

    /// Returns the numbers for which `is_wanted` holds, the newest first.
    pub(super) fn newest_first(&self, is_wanted: impl Fn(&T) -> bool) -> Vec<u64> {
        let wanted = self
            .entries
            .iter()
            .rev()
            .filter(|(_, entry)| is_wanted(&entry.value));
        wanted.map(|(&number, _)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn group(last: u8) -> AddressGroup {
        AddressGroup::V4(Ipv4Addr::new(10, 0, 0, last))
    }

    #[test]
    fn oldest_of_the_busiest_address_makes_room() {
        let (mut waiting, now) = (Waiting::new(), Instant::now());
        assert_eq!(waiting.insert(0, group(1), now, 0), None);
        let mut number = 1;
        for last in [2, 3] {
            while waiting.per_group.get(&group(last)).copied().unwrap_or(0) < 255 {
                assert_eq!(waiting.insert(number, group(last), now, number), None);
                number += 1;
            }
        }
        assert_eq!(waiting.insert(number, group(3), now, number), None);
        // 512 are there; of 10.0.0.3 are the most.
        assert_eq!(waiting.insert(number + 1, group(4), now, 0), Some(256));
        assert_eq!(waiting.entries.len(), WAITING_MAX);
        assert!(waiting.get_mut(0).is_some());
    }

    #[test]
    fn address_at_its_limit_evicts_its_own_silent_first() {
        let (mut waiting, now) = (Waiting::new(), Instant::now());
        for number in 0..WAITING_PER_ADDRESS_MAX as u64 {
            assert_eq!(waiting.insert(number, group(1), now, number), None);
        }
        waiting.has_spoken(0);
        assert_eq!(waiting.insert(300, group(1), now, 300), Some(1));
        assert_eq!(waiting.insert(301, group(2), now, 301), None);
        for number in 2..400 {
            waiting.has_spoken(number);
        }
        assert_eq!(waiting.insert(302, group(1), now, 302), Some(0));
        assert_eq!(waiting.expired(now), None);
        assert_eq!(waiting.expired(now + HANDSHAKE_TIMEOUT), Some(2));
        assert_eq!(waiting.newest_first(|&value| value > 299), [302, 301, 300]);
    }
}
