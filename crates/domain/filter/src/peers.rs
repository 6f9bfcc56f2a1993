//! Classification of peers as public, private or loopback, for the condition `peers`.
//! `eval`, `compile` and `bounds` must agree on it: they share the prefixes of this file.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A class of peers, by address. Each address is in exactly one class, except the unspecified
/// ones (`0.0.0.0`, `::`), which are no peer.
///
/// A v4-mapped address counts as the IPv4 address in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerClass {
    /// All other addresses.
    Public,
    /// Not routed in the internet: RFC 1918 (`10/8`, `172.16/12`, `192.168/16`), carrier-grade NAT
    /// (`100.64/10`, RFC 6598), link-local (`169.254/16`, `fe80::/10`), unique local (`fc00::/7`, RFC 4193).
    Private,
    /// This host: `127/8`, `::1`.
    Loopback,
}

impl PeerClass {
    /// Returns the class of an address; `None` for an unspecified one.
    #[must_use]
    pub fn of(ip: IpAddr) -> Option<Self> {
        let ip = match ip {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
            IpAddr::V4(_) => ip,
        };
        if ip.is_unspecified() {
            return None;
        }
        Some(if contained(ip, LOOPBACK_V4, LOOPBACK_V6) {
            Self::Loopback
        } else if contained(ip, PRIVATE_V4, PRIVATE_V6) {
            Self::Private
        } else {
            Self::Public
        })
    }

    /// The name in filters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Loopback => "loopback",
        }
    }

    pub(crate) const ALL: [Self; 3] = [Self::Public, Self::Private, Self::Loopback];

    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

fn contained(ip: IpAddr, v4: &[(Ipv4Addr, u8)], v6: &[(Ipv6Addr, u8)]) -> bool {
    match ip {
        IpAddr::V4(ip) => v4
            .iter()
            .any(|&(net, len)| (ip.to_bits() ^ net.to_bits()) >> (32 - len) == 0),
        IpAddr::V6(ip) => v6
            .iter()
            .any(|&(net, len)| (ip.to_bits() ^ net.to_bits()) >> (128 - len) == 0),
    }
}

pub(crate) const LOOPBACK_V4: &[(Ipv4Addr, u8)] = &[(Ipv4Addr::new(127, 0, 0, 0), 8)];
pub(crate) const LOOPBACK_V6: &[(Ipv6Addr, u8)] = &[(Ipv6Addr::LOCALHOST, 128)];
pub(crate) const PRIVATE_V4: &[(Ipv4Addr, u8)] = &[
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
];
pub(crate) const PRIVATE_V6: &[(Ipv6Addr, u8)] = &[
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
];
/// The unspecified address: no peer.
pub(crate) const UNSPECIFIED_V4: &[(Ipv4Addr, u8)] = &[(Ipv4Addr::UNSPECIFIED, 32)];
/// The unspecified address: no peer.
pub(crate) const UNSPECIFIED_V6: &[(Ipv6Addr, u8)] = &[(Ipv6Addr::UNSPECIFIED, 128)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_one_class() {
        for (ip, expected) in [
            ("8.8.8.8", Some(PeerClass::Public)),
            ("10.255.255.255", Some(PeerClass::Private)),
            ("11.0.0.0", Some(PeerClass::Public)),
            ("172.31.0.1", Some(PeerClass::Private)),
            ("172.32.0.1", Some(PeerClass::Public)),
            ("192.168.1.1", Some(PeerClass::Private)),
            ("169.254.1.1", Some(PeerClass::Private)),
            ("100.127.0.1", Some(PeerClass::Private)),
            ("100.128.0.1", Some(PeerClass::Public)),
            ("127.9.9.9", Some(PeerClass::Loopback)),
            ("0.0.0.0", None),
            ("::", None),
            ("::1", Some(PeerClass::Loopback)),
            ("::ffff:127.0.0.1", Some(PeerClass::Loopback)),
            ("::ffff:10.0.0.1", Some(PeerClass::Private)),
            ("::ffff:0.0.0.0", None),
            ("fd00::1", Some(PeerClass::Private)),
            ("fe80::1", Some(PeerClass::Private)),
            ("fec0::1", Some(PeerClass::Public)),
            ("2001:db8::1", Some(PeerClass::Public)),
        ] {
            assert_eq!(PeerClass::of(ip.parse().unwrap()), expected, "{ip}");
        }
    }
}
