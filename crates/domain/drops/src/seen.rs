//! What the kernel counted between two readings, and for which socket.

use sockeye_wire::drops::{Counts, DropSocket};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How many packets were dropped between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Number of packets, those that are estimated included.
    pub count: u64,
    /// How many of them are estimated.
    pub estimated: u64,
    /// Their lengths.
    pub bytes: u64,
}

impl Seen {
    /// Replaces the number that is estimated, and the bytes in proportion.
    pub fn estimate(&mut self, estimated: u64) {
        let count = (self.count - self.estimated).saturating_add(estimated);
        let bytes = u128::from(self.bytes) * u128::from(count) / u128::from(self.count.max(1));
        *self = Self {
            count,
            estimated,
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        };
    }
}

/// Returns what was counted since another reading; `None` for nothing. A count that is smaller than before is of a key that was evicted
/// and made again.
#[must_use]
pub fn since(before: Option<&Counts>, now: &Counts) -> Option<Seen> {
    let before = before.filter(|before| before.first_ns == now.first_ns);
    let of = |value: fn(&Counts) -> u64| value(now).saturating_sub(before.map_or(0, value));
    let estimated = of(|counts| counts.estimated);
    let count = of(|counts| counts.count) + estimated;
    (count > 0).then(|| Seen {
        count,
        estimated,
        bytes: of(|counts| counts.bytes),
    })
}

/// Returns the local address and the peer's; `None` for an end without a port, and for sockets of other families than IPv4 and IPv6.
#[must_use]
pub fn socket_ends(socket: &DropSocket) -> (Option<SocketAddr>, Option<SocketAddr>) {
    let end = |bytes: [u8; 16], port| {
        let ip = match u32::from(socket.family) {
            AF_INET => {
                let [a, b, c, d, ..] = bytes;
                IpAddr::V4(Ipv4Addr::new(a, b, c, d))
            }
            AF_INET6 => IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical(),
            _ => return None,
        };
        Some(SocketAddr::new(ip, port)).filter(|_| port != 0)
    };
    (
        end(socket.local, socket.local_port),
        end(socket.peer, socket.peer_port()),
    )
}

const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_estimate_changes_the_bytes_in_proportion() {
        let mut seen = Seen {
            count: 200,
            estimated: 150,
            bytes: 20_000,
        };
        seen.estimate(50);
        assert_eq!(
            seen,
            Seen {
                count: 100,
                estimated: 50,
                bytes: 10_000
            }
        );
    }
}
