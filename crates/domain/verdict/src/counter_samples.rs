//! Counters of many sockets, for the next look.

use crate::socket_counters::SocketCounters;
use sockeye_model::Inode;

/// Counters by the inode of their socket: half of the memory of a hash table.
#[derive(Debug, Default)]
pub(crate) struct CounterSamples(Vec<(Inode, SocketCounters)>);

impl CounterSamples {
    /// Returns space for as many sockets as `earlier` has, and some more.
    pub(crate) fn with_space_of(earlier: Option<&Self>) -> Self {
        let sockets = earlier.map_or(0, Self::len);
        Self(Vec::with_capacity(sockets + sockets / 16))
    }

    /// Returns the number of sockets.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a socket.
    pub(crate) fn add(&mut self, inode: Inode, counters: SocketCounters) {
        self.0.push((inode, counters));
    }

    /// Sorts what was added, and gives back the space that is left: before that, [`Self::of`] finds nothing for sure.
    #[must_use]
    pub(crate) fn sorted(mut self) -> Self {
        self.0.sort_unstable_by_key(|(inode, _)| *inode);
        self.0.shrink_to_fit();
        self
    }

    /// Returns the counters of a socket; `None` if it was not there.
    pub(crate) fn of(&self, inode: Inode) -> Option<SocketCounters> {
        let at = self.0.binary_search_by_key(&inode, |(inode, _)| *inode).ok()?;
        self.0.get(at).map(|(_, counters)| *counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_found_in_whatever_order_they_were_added() {
        let mut samples = CounterSamples::default();
        for number in [7_u32, 3, 900, 5] {
            let drops = number;
            samples.add(
                Inode(number),
                SocketCounters {
                    drops,
                    ..SocketCounters::default()
                },
            );
        }
        let samples = samples.sorted();
        assert_eq!(samples.len(), 4);
        for number in [3_u32, 5, 7, 900] {
            let found = samples.of(Inode(number)).map(|counters| counters.drops);
            assert_eq!(found, Some(number));
        }
        assert_eq!(samples.of(Inode(4)), None);
        assert!(
            CounterSamples::with_space_of(Some(&samples))
                .of(Inode(3))
                .is_none()
        );
    }
}
