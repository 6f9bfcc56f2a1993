//! Set of protocols: what a query requests from the sources, and the names for it in filters and flags.

use crate::Protocol;

/// A set of protocols, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProtocolSet(u16);

impl ProtocolSet {
    /// No protocol.
    pub const EMPTY: Self = Self(0);
    /// All protocols.
    pub const ALL: Self = Self((1 << Self::PROTOCOLS.len()) - 1);
    /// UNIX sockets of every type.
    pub const UNIX: Self = Self::of(&[Protocol::UnixStream, Protocol::UnixDgram, Protocol::UnixSeqpacket]);
    /// PACKET sockets of both types.
    pub const PACKET: Self = Self::of(&[Protocol::PacketRaw, Protocol::PacketDgram]);
    /// All protocols with IP addresses.
    pub const INET: Self = Self::of(&[
        Protocol::Tcp,
        Protocol::Mptcp,
        Protocol::Udp,
        Protocol::UdpLite,
        Protocol::Raw,
    ]);

    /// All protocols with a name; the index is the bit.
    pub const PROTOCOLS: [Protocol; 11] = [
        Protocol::Tcp,
        Protocol::Mptcp,
        Protocol::Udp,
        Protocol::UdpLite,
        Protocol::Raw,
        Protocol::UnixStream,
        Protocol::UnixDgram,
        Protocol::UnixSeqpacket,
        Protocol::PacketRaw,
        Protocol::PacketDgram,
        Protocol::Netlink,
    ];

    /// The names of sets in filters and options. Of several names for one set the first is printed.
    pub const NAMES: [(&'static str, Self); 21] = [
        ("all", Self::ALL),
        ("inet", Self::INET),
        ("tcp", Self::of(&[Protocol::Tcp])),
        ("mptcp", Self::of(&[Protocol::Mptcp])),
        ("udp", Self::of(&[Protocol::Udp])),
        ("udplite", Self::of(&[Protocol::UdpLite])),
        ("raw", Self::of(&[Protocol::Raw])),
        ("unix", Self::UNIX),
        ("unix_stream", Self::of(&[Protocol::UnixStream])),
        ("u_str", Self::of(&[Protocol::UnixStream])),
        ("unix_dgram", Self::of(&[Protocol::UnixDgram])),
        ("u_dgr", Self::of(&[Protocol::UnixDgram])),
        ("unix_seqpacket", Self::of(&[Protocol::UnixSeqpacket])),
        ("u_seq", Self::of(&[Protocol::UnixSeqpacket])),
        ("packet", Self::PACKET),
        ("packet_raw", Self::of(&[Protocol::PacketRaw])),
        ("p_raw", Self::of(&[Protocol::PacketRaw])),
        ("packet_dgram", Self::of(&[Protocol::PacketDgram])),
        ("p_dgr", Self::of(&[Protocol::PacketDgram])),
        ("netlink", Self::of(&[Protocol::Netlink])),
        ("nl", Self::of(&[Protocol::Netlink])),
    ];

    /// Creates a set of these protocols.
    #[must_use]
    pub const fn of(protocols: &[Protocol]) -> Self {
        let (mut bits, mut place) = (0, 0);
        while place < protocols.len() {
            bits |= Self::bit(protocols[place]);
            place += 1;
        }
        Self(bits)
    }

    /// Returns the set with this name in [`ProtocolSet::NAMES`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|&(_, set)| set)
    }

    /// Returns the name; `None` if the set has none.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Self::NAMES
            .iter()
            .find(|(_, set)| *set == self)
            .map(|&(name, _)| name)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the protocols for which `keep` returns true.
    #[must_use]
    pub fn retain(self, keep: impl Fn(Protocol) -> bool) -> Self {
        let kept = self.iter().filter(|&protocol| keep(protocol));
        kept.fold(Self::EMPTY, |all, protocol| Self(all.0 | Self::bit(protocol)))
    }

    /// Iterates over its protocols.
    pub fn iter(self) -> impl Iterator<Item = Protocol> {
        Self::PROTOCOLS
            .into_iter()
            .filter(move |&protocol| self.contains(protocol))
    }

    /// Whether it has a protocol in common with `other`.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it has one protocol only, so that a listing need not repeat it in each row.
    #[must_use]
    pub const fn is_single(self) -> bool {
        self.0.is_power_of_two()
    }

    /// Whether it contains `protocol`. No set contains an unknown protocol.
    #[must_use]
    pub const fn contains(self, protocol: Protocol) -> bool {
        self.0 & Self::bit(protocol) != 0
    }

    const fn bit(protocol: Protocol) -> u16 {
        1 << match protocol {
            Protocol::Tcp => 0,
            Protocol::Mptcp => 1,
            Protocol::Udp => 2,
            Protocol::UdpLite => 3,
            Protocol::Raw => 4,
            Protocol::UnixStream => 5,
            Protocol::UnixDgram => 6,
            Protocol::UnixSeqpacket => 7,
            Protocol::PacketRaw => 8,
            Protocol::PacketDgram => 9,
            Protocol::Netlink => 10,
            Protocol::Unknown(_) => return 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_have_distinct_bits_and_names() {
        for (place, protocol) in ProtocolSet::PROTOCOLS.into_iter().enumerate() {
            let one = ProtocolSet::of(&[protocol]);
            assert_eq!(one, ProtocolSet(1 << place));
            assert!(one.is_single());
            assert_eq!(
                one.name().and_then(ProtocolSet::from_name),
                Some(one),
                "{protocol}"
            );
            assert!(one.iter().eq([protocol]));
        }
        assert!(!ProtocolSet::ALL.contains(Protocol::Unknown(0)));
    }

    #[test]
    fn sets_are_found_by_name() {
        let set = ProtocolSet::UNIX.or(ProtocolSet::of(&[Protocol::Tcp]));
        assert_eq!(set.retain(Protocol::is_unix), ProtocolSet::UNIX);
        assert!(set.intersects(ProtocolSet::INET) && !set.intersects(ProtocolSet::PACKET));
        assert_eq!((set.name(), ProtocolSet::from_name("sctp")), (None, None));
    }
}
