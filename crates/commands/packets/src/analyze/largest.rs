//! The largest connections of a capture.

use crate::output::EndOwners;
use sockeye_trace::Finished;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The `max` largest connections so far; without a limit, connections are returned at once.
#[derive(Debug)]
pub(super) struct LargestConnections {
    max: Option<usize>,
    /// Of two equal ones the earlier is larger.
    connections: BTreeMap<Size, (Box<Finished>, EndOwners)>,
}

/// Bytes sent, packets, and number.
type Size = (u64, u64, Reverse<u32>);

impl LargestConnections {
    pub(super) const fn new(max: Option<usize>) -> Self {
        Self {
            max,
            connections: BTreeMap::new(),
        }
    }

    /// Adds a connection; returns it at once if there is no limit.
    pub(super) fn add(
        &mut self,
        finished: Box<Finished>,
        owners: EndOwners,
    ) -> Option<(Box<Finished>, EndOwners)> {
        let Some(max) = self.max else {
            return Some((finished, owners));
        };
        let connection = &finished.connection;
        let (forward, backward) = (&connection.forward, &connection.backward);
        let bytes = forward.bytes_sent.saturating_add(backward.bytes_sent);
        let packets = forward.packets.saturating_add(backward.packets);
        let size = (bytes, packets, Reverse(connection.number));
        let is_large = self.connections.len() < max
            || self
                .connections
                .first_key_value()
                .is_some_and(|(smallest, _)| *smallest < size);
        if is_large {
            self.connections.insert(size, (finished, owners));
            if self.connections.len() > max {
                self.connections.pop_first();
            }
        }
        None
    }

    pub(super) fn largest_first(&mut self) -> impl Iterator<Item = (Box<Finished>, EndOwners)> + use<> {
        std::mem::take(&mut self.connections).into_values().rev()
    }
}
