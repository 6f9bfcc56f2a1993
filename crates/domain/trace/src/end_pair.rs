//! Directed key of a segment: sender first. `pairing` and `address_translation` look up the direction of
//! a connection by it. `tuple.rs` has the key that is the same for both directions.

use sockeye_wire::packet::Segment;
use std::net::IpAddr;

/// Both ends of a segment: address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EndPair {
    pub(crate) source: (IpAddr, u16),
    pub(crate) destination: (IpAddr, u16),
}

impl EndPair {
    pub(crate) fn of(segment: &Segment) -> Self {
        Self {
            source: (segment.source, segment.source_port),
            destination: (segment.destination, segment.destination_port),
        }
    }

    /// The opposite direction.
    pub(crate) fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
        }
    }
}
