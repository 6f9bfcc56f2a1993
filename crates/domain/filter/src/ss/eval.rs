//! The evaluation by `ss` itself (`run_ssfilter()`) of each socket that the kernel listed.

use super::host::VSOCK;
use super::tree::{ANY_PORT, Expr, Host, Join, Prefix, Test, padded};
use crate::expr::Side;
use crate::glob;
use sockeye_model::{Endpoint, Family, Inode, Socket, UnixName};
use std::net::IpAddr;

pub(super) fn accepts(tree: &Expr, socket: &Socket) -> bool {
    tree.accepts(&SsSocket::of(socket))
}

/// A socket as `ss` stores it (`struct sockstat`).
struct SsSocket<'a> {
    family: Family,
    local: SsEndpoint<'a>,
    peer: SsEndpoint<'a>,
    interface: u32,
    mark: u32,
    cgroup: u64,
}

/// An endpoint, in the terms of IP.
struct SsEndpoint<'a> {
    /// Address; `None` is a pointer to `name`, which matches no address
    bytes: Option<[u8; 16]>,
    port: i32,
    name: Option<&'a UnixName>,
}

impl<'a> SsSocket<'a> {
    fn of(socket: &'a Socket) -> Self {
        let (mut local, mut peer) = (SsEndpoint::of(&socket.local), SsEndpoint::of(&socket.peer));
        match socket.family {
            // For peers `ss` uses the inode only.
            Family::Unix => {
                (peer.name, peer.bytes) = (None, Some([0; 16]));
                if let Some(Inode(inode)) = socket.inode {
                    local.port = inode.cast_signed();
                }
            }
            Family::Netlink => peer = SsEndpoint::number(0, -1),
            Family::Packet => peer = SsEndpoint::number(0, 0),
            _ => {}
        }
        let interface = match socket.local {
            Endpoint::Packet { interface, .. } => interface.or(socket.interface),
            _ => socket.interface,
        };
        Self {
            family: socket.family,
            local,
            peer,
            interface: interface.map_or(0, |interface| interface.0),
            mark: socket.mark.unwrap_or(0),
            cgroup: socket.cgroup.map_or(0, |cgroup| cgroup.0),
        }
    }

    const fn end(&self, side: Side) -> &SsEndpoint<'a> {
        match side {
            Side::Source => &self.local,
            Side::Destination => &self.peer,
        }
    }
}

impl<'a> SsEndpoint<'a> {
    fn of(endpoint: &'a Endpoint) -> Self {
        match endpoint {
            Endpoint::None => Self::number(0, 0),
            Endpoint::Inet { ip, port } => Self {
                bytes: Some(match ip {
                    IpAddr::V4(ip) => padded(ip.octets()),
                    IpAddr::V6(ip) => ip.octets(),
                }),
                port: port.0.into(),
                name: None,
            },
            Endpoint::Unix { name, inode } => Self {
                bytes: name.is_none().then_some([0; 16]),
                port: inode.map_or(0, |inode| inode.0.cast_signed()),
                name: name.as_ref(),
            },
            Endpoint::Packet { ethertype, interface } => {
                let port = interface.map_or(0, |interface| interface.0.cast_signed());
                Self::number((*ethertype).into(), port)
            }
            Endpoint::Netlink { protocol, port, .. } => Self::number((*protocol).into(), port.cast_signed()),
        }
    }

    fn number(number: u32, port: i32) -> Self {
        Self {
            bytes: Some(padded(number.to_ne_bytes())),
            port,
            name: None,
        }
    }
}

impl Expr {
    fn accepts(&self, seen: &SsSocket<'_>) -> bool {
        match self {
            Self::Test(test) => test.accepts(seen),
            Self::Not(inner) => !inner.accepts(seen),
            Self::List(first, others) => {
                others
                    .iter()
                    .fold(first.accepts(seen), |before, (join, other)| match join {
                        Join::And => before && other.accepts(seen),
                        Join::Or => before || other.accepts(seen),
                    })
            }
        }
    }
}

impl Test {
    fn accepts(&self, seen: &SsSocket<'_>) -> bool {
        match self {
            Self::Host(side, host) => host.accepts(seen, seen.end(*side)),
            Self::PortAtLeast(side, port) => i64::from(seen.end(*side).port) >= *port,
            Self::PortAtMost(side, port) => i64::from(seen.end(*side).port) <= *port,
            Self::Device(index) => seen.interface == *index,
            Self::Mark { mark, mask } => seen.mark & mask == *mark,
            Self::Cgroup { id, .. } => seen.cgroup == id.0,
            Self::Autobound(ports) => {
                let port = seen.local.port;
                match seen.family {
                    Family::Unix => seen.local.name.is_none_or(is_autobound),
                    Family::Packet => port == 0 && seen.local.bytes == Some([0; 16]),
                    Family::Netlink => port < 0,
                    VSOCK => port > 1023,
                    _ => u16::try_from(port).is_ok_and(|port| ports.contains(&port)),
                }
            }
        }
    }
}

impl Host {
    fn accepts(&self, seen: &SsSocket<'_>, end: &SsEndpoint<'_>) -> bool {
        match self {
            Self::Unix(pattern) => {
                let shown = |at| end.name.and_then(|name| shown(name, at));
                glob::matches(pattern.as_bytes(), shown, true)
            }
            Self::Address { port, first, others } => {
                (*port == ANY_PORT || *port == i64::from(end.port))
                    && (first.bits == 0
                        || std::iter::once(first)
                            .chain(others)
                            .any(|prefix| prefix.begins(seen.family, end)))
            }
        }
    }
}

impl Prefix {
    /// Compares the leading bits of the address, or of the IPv4 address mapped in it, whatever the families
    /// (`inet2_addr_match()`).
    fn begins(&self, family: Family, end: &SsEndpoint<'_>) -> bool {
        let Some(bytes) = end.bytes else {
            return false;
        };
        let agree = |bytes: [u8; 16]| {
            let differing = u128::from_be_bytes(self.bytes) ^ u128::from_be_bytes(bytes);
            differing.leading_zeros() >= self.bits.into()
        };
        agree(bytes)
            || match (self.family, family, bytes.strip_prefix(&V4_MAPPED)) {
                (Some(Family::Inet), Family::Inet6, Some(&[a, b, c, d])) => agree(padded([a, b, c, d])),
                _ => false,
            }
    }
}

/// Returns the byte of a name as `ss` has it: `@` for each NUL of an abstract name; other names end at
/// their first NUL.
fn shown(name: &UnixName, at: usize) -> Option<u8> {
    let name = name.as_bytes();
    let is_abstract = name.first() == Some(&0);
    match name.get(at)? {
        0 if is_abstract => Some(b'@'),
        _ if !is_abstract && name[..=at].contains(&0) => None,
        byte => Some(*byte),
    }
}

/// Whether the kernel chose the name: `@` and five hexadecimal digits.
fn is_autobound(name: &UnixName) -> bool {
    let is_digit = |at| shown(name, at).is_some_and(|byte| b"0123456789abcdef".contains(&byte));
    shown(name, 0) == Some(b'@') && (1..6).all(is_digit) && shown(name, 6).is_none()
}

const V4_MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoResolve, ss};
    use sockeye_model::{CgroupId, InterfaceIndex, Port, Protocol, State};

    fn socket(protocol: Protocol, family: Family, local: Endpoint, peer: Endpoint) -> Socket {
        let mut socket = Socket::new(protocol, State::Established);
        (socket.family, socket.local, socket.peer) = (family, local, peer);
        socket
    }

    fn inet(local: (&str, u16), peer: (&str, u16)) -> Socket {
        let end = |(ip, port): (&str, u16)| Endpoint::inet(ip.parse().expect("an address"), Port(port));
        let family = if local.0.contains(':') {
            Family::Inet6
        } else {
            Family::Inet
        };
        socket(Protocol::Tcp, family, end(local), end(peer))
    }

    fn unix(name: Option<&[u8]>, inode: u32, peer: u32) -> Socket {
        let local = Endpoint::Unix {
            name: name.map(UnixName::new),
            inode: Some(Inode(inode)),
        };
        let peer = Endpoint::Unix {
            name: Some(UnixName::new(b"/of/the/peer")),
            inode: Some(Inode(peer)),
        };
        let mut socket = socket(Protocol::UnixStream, Family::Unix, local, peer);
        socket.inode = Some(Inode(inode));
        socket
    }

    fn check(socket: &Socket, accepted: &[&str], rejected: &[&str]) {
        let accepts = |text: &str| {
            ss::parse(&[text.to_owned()], None, &ss::Context::default(), &NoResolve)
                .unwrap_or_else(|error| panic!("{text}: {error}"))
                .accepts(socket)
        };
        for text in accepted {
            assert!(accepts(text), "{text}: {socket:?}");
        }
        for text in rejected {
            assert!(!accepts(text), "{text}: {socket:?}");
        }
    }

    #[test]
    fn addresses_match_by_leading_bits() {
        check(
            &inet(("10.1.2.3", 80), ("192.0.2.1", 40000)),
            &[
                "",
                "src 10/8",
                "src 10.1.2.3:80",
                "not src 10.1.2.3:81",
                "src [a01:203::/32]",
                "src [a01:203::]", // the rest of an IPv4 address is zero
                "dport = 40000",
                "dport >= 40000 dport <= 40000",
                "dport >= *",
                "autobound or sport > 79",
                "dev 0 fwmark 0 src netlink:*",
                "src *",
                "src ::/0",
            ],
            &[
                "src 10.1.2.4",
                "sport = 65616",
                "dport <= *",
                "dport != -1",
                "autobound",
                "sport > 80",
                "src [a01:203::1]",
                "dst 192/8 src 11/8",
                "src unix:?*",
            ],
        );
        check(
            &inet(("::", 33000), ("::", 0)),
            &[
                "src 0.0.0.0",
                "dst 0.0.0.0/0",
                "autobound",
                "src netlink:rtnl",
                "src unix:*",
            ],
            &["not src 0.0.0.0", "src 1/8"],
        );
        check(
            &inet(("::ffff:10.1.2.3", 80), ("::ffff:0.0.0.0", 0)),
            &[
                "src 10/8",
                "src [::ffff:10.0.0.0/104]",
                "src 0.0.0.0",
                "src 10/8 src 0/8",
            ],
            &["src 11/8", "src 1.1.1.1"],
        );
    }

    #[test]
    fn device_mark_and_cgroup_compare_for_equality() {
        let mut socket = inet(("10.1.2.3", 80), ("10.0.0.1", 1));
        socket.interface = Some(InterfaceIndex(3));
        socket.mark = Some(0x13);
        socket.cgroup = Some(CgroupId(7));
        check(
            &socket,
            &["dev 3", "fwmark 0x13", "fwmark 0x10/0xf0", "dev != 0"],
            &["dev 0", "fwmark 0x10", "fwmark 0x13/0xf0", "fwmark != 3/3"],
        );
    }

    #[test]
    fn unix_sockets_match_by_name_and_inode() {
        check(
            &unix(Some(b"/run/X\0junk"), 700, 701),
            &[
                "src unix:/RUN/x",
                "src unix:*/?",
                "dst unix:",
                "dst unix:*",
                "src inet:*:700",
                "dport = inet:701",
                "sport >= inet:700",
                "src 0.0.0.0/0",
                "src unix:[/]run/x",
                "dev 0",
            ],
            &[
                "src unix:",
                "src unix:/run/x?",
                "dst unix:/of/*",
                "autobound",
                "src 0/8",
                "sport 1",
            ],
        );
        check(
            &unix(None, u32::MAX, 0),
            &[
                "src unix:",
                "src unix:*",
                "autobound",
                "src 0.0.0.0",
                "sport = -1",
                "sport <= *",
                "dport 0",
            ],
            &["src unix:?*", "sport >= 0"],
        );
        check(
            &unix(Some(b"\x000a1f9"), 1, 2),
            &["autobound", "src unix:@0A1f9"],
            &["src unix:@"],
        );
        check(
            &unix(Some(b"\x000a1f9\0"), 1, 2),
            &["src unix:@0a1f9@"],
            &["autobound"],
        );
        check(&unix(Some(b"@0a1f9"), 1, 2), &["autobound"], &[]);
        check(&unix(Some(b"\x000A1F9"), 1, 2), &[], &["autobound"]);
        check(
            &unix(Some(b""), 1, 2),
            &["src unix:"],
            &["autobound", "src 0.0.0.0"],
        );
    }

    #[test]
    fn netlink_and_packet_sockets_match_by_numbers() {
        let netlink = |port: i32| {
            let local = Endpoint::Netlink {
                protocol: 16,
                port: port.cast_unsigned(),
                group: None,
            };
            socket(Protocol::Netlink, Family::Netlink, local, Endpoint::None)
        };
        check(
            &netlink(42),
            &[
                "src netlink:genl",
                "src netlink:genl:42",
                "sport = netlink:42",
                "sport 42",
                "dst netlink:rtnl",
                "dport != 0",
                "dport <= *",
                "src 16.0.0.0",
            ],
            &[
                "src netlink:rtnl",
                "src netlink:genl:kernel",
                "dport 0",
                "autobound",
                "src link:ip",
            ],
        );
        check(
            &netlink(-4100),
            &["autobound", "sport < 0", "sport -4100"],
            &["sport > 0"],
        );
        let packet = |ethertype, interface: Option<u32>| {
            let local = Endpoint::Packet {
                ethertype,
                interface: interface.map(InterfaceIndex),
            };
            socket(Protocol::PacketRaw, Family::Packet, local, Endpoint::None)
        };
        check(
            &packet(0x800, Some(2)),
            &[
                "src link:ip",
                "src link:ip:2",
                "src link:*:2",
                "sport 2",
                "dev 2",
                "dst link:0",
                "dport 0",
            ],
            &[
                "src link:arp",
                "src link:ip:3",
                "dev 0",
                "autobound",
                "dst link:ip",
            ],
        );
        check(&packet(0, None), &["autobound", "dev 0", "sport = link:0"], &[]);
        check(&packet(3, None), &["src link:all"], &["autobound"]);
    }
}
