//! The biggest connections of many.

use crate::output::EndOwners;
use sockeye_trace::Connection;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Keeps so many of the biggest, or hands on all of them as they come.
#[derive(Debug)]
pub(super) struct Biggest {
    max: Option<usize>,
    /// By how big they are; of two alike the earlier one is bigger
    kept: BTreeMap<(u64, u64, Reverse<u32>), (Connection, EndOwners)>,
}

impl Biggest {
    pub(super) const fn new(max: Option<usize>) -> Self {
        Self {
            max,
            kept: BTreeMap::new(),
        }
    }

    /// Another one; given back if it need not be kept, as all are wanted.
    pub(super) fn take(
        &mut self,
        connection: Connection,
        owners: EndOwners,
    ) -> Option<(Connection, EndOwners)> {
        let Some(max) = self.max else {
            return Some((connection, owners));
        };
        let (forward, backward) = (&connection.forward, &connection.backward);
        let bytes = forward.bytes_sent.saturating_add(backward.bytes_sent);
        let packets = forward.packets.saturating_add(backward.packets);
        let size = (bytes, packets, Reverse(connection.number));
        let is_big = self.kept.len() < max
            || self
                .kept
                .first_key_value()
                .is_some_and(|(smallest, _)| *smallest < size);
        if is_big {
            self.kept.insert(size, (connection, owners));
            if self.kept.len() > max {
                self.kept.pop_first();
            }
        }
        None
    }

    pub(super) fn largest_first(&mut self) -> impl Iterator<Item = (Connection, EndOwners)> + use<> {
        std::mem::take(&mut self.kept).into_values().rev()
    }
}
