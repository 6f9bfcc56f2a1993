//! Key of a TCP connection, the same for both directions. `Trace` finds the `Flow` of each segment by it;
//! the index of the sending end selects the half of the `Flow`. It must not allocate: it runs per segment.

use sockeye_wire::packet::Segment;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr};

/// Both ends of a connection, in an order that does not depend on the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tuple {
    pub(crate) ips: [IpAddr; 2],
    pub(crate) ports: [u16; 2],
}

impl Tuple {
    /// The tuple of a segment, and the index of the sending end.
    #[inline]
    pub(crate) fn of(segment: &Segment) -> (Self, usize) {
        let source = (segment.source, segment.source_port);
        let destination = (segment.destination, segment.destination_port);
        Self::of_ends(source, destination)
    }

    /// The tuple of what `source` sends to `destination`, and the index of the sending end.
    #[inline]
    pub(crate) fn of_ends(source: (IpAddr, u16), destination: (IpAddr, u16)) -> (Self, usize) {
        let is_higher = match (source.0, destination.0) {
            // The same order, by one comparison.
            (IpAddr::V4(from), IpAddr::V4(to)) => v4_key(from, source.1) > v4_key(to, destination.1),
            _ => source > destination,
        };
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

fn v4_key(ip: Ipv4Addr, port: u16) -> u64 {
    u64::from(ip.to_bits()) << 16 | u64::from(port)
}

/// Hashes IPv4 addresses as one word: the derived implementation writes each part of the enum by itself.
impl Hash for Tuple {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ports = u32::from(self.ports[0]) << 16 | u32::from(self.ports[1]);
        if let [IpAddr::V4(low), IpAddr::V4(high)] = self.ips {
            state.write_u64(u64::from(low.to_bits()) << 32 | u64::from(high.to_bits()));
        } else {
            for ip in self.ips {
                match ip {
                    IpAddr::V4(ip) => state.write_u32(ip.to_bits()),
                    IpAddr::V6(ip) => state.write_u128(ip.to_bits()),
                }
            }
        }
        state.write_u32(ports);
    }
}
