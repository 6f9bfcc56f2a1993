use crate::Protocol;

/// A set of protocols: one bit for each that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProtocolSet(u16);

impl ProtocolSet {
    /// None of them.
    pub const EMPTY: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self((1 << Self::PROTOCOLS.len()) - 1);
    /// UNIX sockets of every type.
    pub const UNIX: Self = Self::of(&[Protocol::UnixStream, Protocol::UnixDgram, Protocol::UnixSeqpacket]);
    /// PACKET sockets of both types.
    pub const PACKET: Self = Self::of(&[Protocol::PacketRaw, Protocol::PacketDgram]);
    /// Everything with IP addresses.
    pub const INET: Self = Self::of(&[
        Protocol::Tcp,
        Protocol::Mptcp,
        Protocol::Udp,
        Protocol::UdpLite,
        Protocol::Raw,
    ]);

    /// Every protocol that has a name; its place is its bit.
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

    /// What may be typed, with what it stands for. Of two names for the same the first is the one it is
    /// printed by.
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

    /// These protocols.
    #[must_use]
    pub const fn of(protocols: &[Protocol]) -> Self {
        let (mut bits, mut place) = (0, 0);
        while place < protocols.len() {
            bits |= Self::bit(protocols[place]);
            place += 1;
        }
        Self(bits)
    }

    /// The set with this name in [`ProtocolSet::NAMES`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|&(_, set)| set)
    }

    /// Its name, if it has one.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Self::NAMES
            .iter()
            .find(|(_, set)| *set == self)
            .map(|&(name, _)| name)
    }

    /// Both sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of its protocols that `keep` says yes to.
    #[must_use]
    pub fn retain(self, keep: impl Fn(Protocol) -> bool) -> Self {
        let kept = self.iter().filter(|&protocol| keep(protocol));
        kept.fold(Self::EMPTY, |all, protocol| Self(all.0 | Self::bit(protocol)))
    }

    /// Its protocols.
    pub fn iter(self) -> impl Iterator<Item = Protocol> {
        Self::PROTOCOLS
            .into_iter()
            .filter(move |&protocol| self.contains(protocol))
    }

    /// Whether any of `other` is in it.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it is one protocol, so that a listing need not name it in each row.
    #[must_use]
    pub const fn is_single(self) -> bool {
        self.0.is_power_of_two()
    }

    /// Whether `protocol` is in it. One without a name is in none.
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
    fn each_protocol_has_a_bit_and_a_name_of_its_own() {
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
    fn sets() {
        let set = ProtocolSet::UNIX.or(ProtocolSet::of(&[Protocol::Tcp]));
        assert_eq!(set.retain(Protocol::is_unix), ProtocolSet::UNIX);
        assert!(set.intersects(ProtocolSet::INET) && !set.intersects(ProtocolSet::PACKET));
        assert_eq!((set.name(), ProtocolSet::from_name("sctp")), (None, None));
    }
}
