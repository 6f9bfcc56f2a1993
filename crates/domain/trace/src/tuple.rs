//! Key of a TCP connection, the same for both directions. `Trace` finds the `Flow` of each segment by it;
//! the index of the sending end selects the half of the `Flow`. It must not allocate: it runs per segment.

use sockeye_wire::packet::Segment;
use std::net::IpAddr;

/// Both ends of a connection, in an order that does not depend on the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tuple {
    pub(crate) ips: [IpAddr; 2],
    pub(crate) ports: [u16; 2],
}

impl Tuple {
    /// The tuple of a segment, and the index of the sending end.
    pub(crate) fn of(segment: &Segment) -> (Self, usize) {
        let source = (segment.source, segment.source_port);
        let destination = (segment.destination, segment.destination_port);
        Self::of_ends(source, destination)
    }

    /// The tuple of what `source` sends to `destination`, and the index of the sending end.
    pub(crate) fn of_ends(source: (IpAddr, u16), destination: (IpAddr, u16)) -> (Self, usize) {
        let is_higher = source > destination;
        let (low, high) = if is_higher {
            (destination, source)
        } else {
            (source, destination)
        };
        (
            Self {
                ips: [low.0, high.0],
                ports: [low.1, high.1],
            },
            usize::from(is_higher),
        )
    }
}
