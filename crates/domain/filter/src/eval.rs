//! Evaluates an expression for a socket, without allocation or look-ups.

use crate::expr::{Expr, Host, Inet, Net, Ports, Side, Test, TextField};
use crate::field::Field;
use crate::{PeerClass, glob};
use sockeye_model::{Endpoint, Entry, Family, Owner, Socket, UnixName, WorkloadKind};
use std::net::IpAddr;

impl Expr {
    pub(crate) fn matches(&self, entry: &Entry<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Test(test) => test.matches(entry),
            Self::And(all) => all.iter().all(|one| one.matches(entry)),
            Self::Or(any) => any.iter().any(|one| one.matches(entry)),
            Self::Not(inner) => !inner.matches(entry),
        }
    }
}

impl Test {
    #[inline]
    pub(crate) fn matches(&self, entry: &Entry<'_>) -> bool {
        let socket = entry.socket;
        match self {
            Self::State(states) => states.contains(socket.state),
            Self::Port(side, ports) => match side.of(socket) {
                Endpoint::Inet { port, .. } => ports.contains(port.0),
                _ => false,
            },
            Self::Host(host) => host.matches(socket),
            Self::Unix { side, pattern } => match side.of(socket) {
                Endpoint::Unix { name, .. } => unix_matches(pattern, name.as_ref()),
                Endpoint::None => socket.family == Family::Unix && unix_matches(pattern, None),
                _ => false,
            },
            Self::Netlink {
                side,
                protocol: expected,
                port: expected_port,
            } => match *side.of(socket) {
                Endpoint::Netlink { protocol, port, .. } => {
                    expected.is_none_or(|expected| expected == protocol)
                        && expected_port.is_none_or(|expected| expected == port)
                }
                _ => false,
            },
            Self::Packet {
                side,
                ethertype: expected,
                interface: expected_interface,
            } => match *side.of(socket) {
                Endpoint::Packet { ethertype, interface } => {
                    expected.is_none_or(|expected| expected == ethertype)
                        && expected_interface
                            .is_none_or(|expected| expected == interface.map_or(0, |interface| interface.0))
                }
                _ => false,
            },
            Self::Vsock { .. } => false,
            Self::Autobound(ports) => is_autobound(&socket.local, *ports),
            Self::Device(index) => socket.interface.map_or(0, |interface| interface.0) == *index,
            Self::Fwmark { mark, mask } => socket.mark.unwrap_or(0) & mask == *mark,
            Self::Cgroup { id, .. } => socket.cgroup == Some(*id),
            Self::Number(field, compare, expected) => match field {
                Field::Pid => any_or_none(entry.owners, compare.is_negated(), |owner| {
                    let value = owner.process.pid.0.into();
                    compare.positive().holds(value, *expected)
                }),
                Field::Pgid => any_or_none(entry.owners, compare.is_negated(), |owner| {
                    let pgid = owner.process.pgid;
                    pgid.is_some_and(|pgid| compare.positive().holds(pgid.0.into(), *expected))
                }),
                field => field
                    .of(socket)
                    .is_some_and(|value| compare.holds(value, *expected)),
            },
            Self::Text {
                field: TextField::Owner,
                negated,
                like,
                value,
            } => any_or_none(entry.owners, *negated, |owner| {
                text_matches(owner.process.comm.as_bytes(), value.as_bytes(), *like, COMM_LEN)
            }),
            Self::Text {
                field: TextField::Congestion,
                negated,
                like,
                value,
            } => socket.congestion.is_some_and(|algorithm| {
                text_matches(algorithm.as_bytes(), value.as_bytes(), *like, usize::MAX) != *negated
            }),
            Self::Text {
                field: TextField::Ulp,
                negated,
                like,
                value,
            } => socket.ulp.is_some_and(|ulp| {
                text_matches(ulp.as_bytes(), value.as_bytes(), *like, usize::MAX) != *negated
            }),
            Self::Text {
                field: TextField::Workload(kind),
                negated,
                like,
                value,
            } => is_workload(entry, *kind, *negated, |name| {
                text_matches(name.as_bytes(), value.as_bytes(), *like, usize::MAX)
            }),
            Self::Timer(kind) => socket.timer.map(|timer| timer.kind) == *kind,
            Self::Protocol(protocols) => protocols.contains(socket.protocol),
            Self::Family(family) => socket.family == *family,
            Self::Peers(classes) => socket
                .peer
                .ip()
                .and_then(PeerClass::of)
                .is_some_and(|class| class.bit() & classes != 0),
        }
    }
}

impl Side {
    #[inline]
    fn of(self, socket: &Socket) -> &Endpoint {
        match self {
            Self::Source => &socket.local,
            Self::Destination => &socket.peer,
        }
    }
}

impl Host {
    #[inline]
    fn matches(&self, socket: &Socket) -> bool {
        let Endpoint::Inet { ip, port } = *self.side.of(socket) else {
            return false;
        };
        if self.ports.is_some_and(|ports| !ports.contains(port.0)) {
            return false;
        }
        let family_matches = match self.family {
            None => true,
            Some(Inet::V4) => socket.family == Family::Inet,
            Some(Inet::V6) => socket.family == Family::Inet6,
        };
        family_matches && self.net.is_none_or(|net| net.contains(ip))
    }
}

impl Net {
    /// Whether the prefix contains the address, by the kernel's rule: an IPv4 prefix also contains the v4-mapped addresses of
    /// IPv6 sockets, an IPv6 prefix no address of an IPv4 socket; that applies to empty prefixes too.
    #[inline]
    pub(crate) fn contains(self, ip: IpAddr) -> bool {
        match (self, ip) {
            (Self::V4 { address, len }, IpAddr::V4(ip)) => agree(address, ip.to_bits(), len),
            (Self::V4 { address, len }, IpAddr::V6(ip)) => ip
                .to_ipv4_mapped()
                .is_some_and(|ip| agree(address, ip.to_bits(), len)),
            (Self::V6 { address, len }, IpAddr::V6(ip)) => {
                len == 0 || (address ^ ip.to_bits()).leading_zeros() >= u32::from(len)
            }
            (Self::V6 { .. }, IpAddr::V4(_)) => false,
        }
    }
}

#[inline]
const fn agree(a: u32, b: u32, len: u8) -> bool {
    (a ^ b).leading_zeros() >= len as u32
}

/// Whether any owner matches; negated, whether there are owners and none matches.
fn any_or_none(owners: Option<&[Owner]>, negated: bool, matches: impl Fn(&Owner) -> bool) -> bool {
    owners.is_some_and(|owners| !owners.is_empty() && owners.iter().any(matches) != negated)
}

/// Whether any workload has a name that matches; negated, whether there are workloads and none matches.
fn is_workload(entry: &Entry<'_>, kind: WorkloadKind, negated: bool, matches: impl Fn(&str) -> bool) -> bool {
    let Some(workloads) = entry.workloads else {
        return false;
    };
    let (mut is_known, mut is_match) = (false, false);
    entry.visit_workloads(kind, &mut |id| {
        is_known = true;
        workloads.names(id, &mut |name| is_match |= matches(name));
    });
    is_known && is_match != negated
}

/// Compares literally with the first `len_max` bytes of `expected`; or matches it as a pattern, which without a wildcard may
/// match any part.
pub(crate) fn text_matches(text: &[u8], expected: &[u8], like: bool, len_max: usize) -> bool {
    if !like {
        text == &expected[..expected.len().min(len_max)]
    } else if glob::has_wildcard(expected) {
        glob::matches(expected, |at| text.get(at).copied(), false)
    } else {
        expected.is_empty() || text.windows(expected.len()).any(|part| part == expected)
    }
}

/// Matches the name as `ss` prints it: with `@` for the NUL of an abstract name.
fn unix_matches(pattern: &str, name: Option<&UnixName>) -> bool {
    let name = name.map_or(&[][..], |name| name.as_bytes());
    let shown = |at: usize| name.get(at).map(|&byte| if byte == 0 { b'@' } else { byte });
    glob::matches(pattern.as_bytes(), shown, true)
}

fn is_autobound(local: &Endpoint, ports: Ports) -> bool {
    match local {
        Endpoint::Inet { port, .. } => ports.contains(port.0),
        Endpoint::Unix { name: None, .. } => true,
        // A name chosen by the kernel (`unix_autobind()`) is a NUL and five hexadecimal digits.
        Endpoint::Unix { name: Some(name), .. } => match name.as_bytes() {
            [0, digits @ ..] => {
                digits.len() == 5 && digits.iter().all(|digit| b"0123456789abcdef".contains(digit))
            }
            _ => false,
        },
        Endpoint::Packet { ethertype, interface } => *ethertype == 0 && interface.is_none(),
        // The kernel chooses negative numbers if the pid is in use (`netlink_autobind()`).
        Endpoint::Netlink { port, .. } => *port > i32::MAX as u32,
        Endpoint::None => false,
    }
}

/// `TASK_COMM_LEN` without its NUL: the kernel truncates longer names.
pub(crate) const COMM_LEN: usize = 15;
