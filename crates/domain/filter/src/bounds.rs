//! Bounds on the sockets that a filter accepts: one range of ports and one prefix for each endpoint,
//! families, namespaces. With them a source can skip most other sockets before it reads them.
//!
//! Each condition is a box of sockets or is inside one. `and` intersects boxes, `or` takes the smallest box
//! around both, `not` is pushed down to the conditions, as in [`crate::compile`].

use crate::expr::{Compare, Expr, Host, Inet, Net, Ports, Side, Test};
use crate::field::Field;
use crate::peers::{
    LOOPBACK_V4, LOOPBACK_V6, PRIVATE_V4, PRIVATE_V6, PeerClass, UNSPECIFIED_V4, UNSPECIFIED_V6,
};
use sockeye_model::{Endpoint, Family, NetnsInode, ProtocolSet, Socket};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// A box that contains all IP sockets that a filter accepts, so that a source may skip everything else. Only if it is
/// [`exact`](Self::exact), all IP sockets in it are accepted.
///
/// Bounds are about IP sockets (TCP, UDP, RAW, MPTCP); sockets of other families are in no bounds.
/// They do not contain the state: [`Filter::states`](crate::Filter::states) has it.
///
/// [`Filter::bounds`](crate::Filter::bounds), [`Bounds::and`] and [`Bounds::or`] return the smallest
/// such box, so that equal boxes are equal values: ranges are not empty, families that the prefixes exclude
/// are not set, IPv4-only prefixes are at least `::ffff:0:0/96`; or the value is [`Bounds::NOTHING`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Sockets of `AF_INET` may match.
    pub v4: bool,
    /// Sockets of `AF_INET6` may match, including those with v4-mapped addresses.
    pub v6: bool,
    /// Local port; 0 is a socket without one.
    pub local_port: RangeInclusive<u16>,
    /// Peer's port; 0 is a socket without one.
    pub peer_port: RangeInclusive<u16>,
    /// Local address.
    pub local: Prefix128,
    /// Peer's address; without one it is `::` or `0.0.0.0` (here `::ffff:0.0.0.0`).
    pub peer: Prefix128,
    /// The only namespaces, in ascending order, at most [`Bounds::NETNS_MAX`]; `None`: any, including an
    /// unknown one.
    pub netns: Option<Vec<NetnsInode>>,
    /// Whether every IP socket within the bounds and in one of [`Filter::states`](crate::Filter::states) is accepted, so that
    /// [`Filter::matches`](crate::Filter::matches) need not run.
    pub exact: bool,
}

/// A prefix of 128-bit addresses; IPv4 addresses are mapped: `::ffff:a.b.c.d`.
///
/// It contains an address if `address & mask == bits`. Both are numbers, as from
/// [`Ipv6Addr::to_bits`](std::net::Ipv6Addr::to_bits); their `to_be_bytes()` are the bytes in network order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix128 {
    /// The address; bits outside `mask` are 0.
    pub bits: u128,
    /// As many leading ones as the prefix is long.
    pub mask: u128,
}

impl Bounds {
    /// Every IP socket, exactly: the bounds of the empty filter.
    pub const EVERYTHING: Self = Self {
        v4: true,
        v6: true,
        local_port: 0..=u16::MAX,
        peer_port: 0..=u16::MAX,
        local: Prefix128::ANY,
        peer: Prefix128::ANY,
        netns: None,
        exact: true,
    };

    /// No socket, exactly. A program with these values lists nothing either.
    pub const NOTHING: Self = Self {
        v4: false,
        v6: false,
        local_port: RangeInclusive::new(1, 0),
        peer_port: RangeInclusive::new(1, 0),
        local: Prefix128::ANY,
        peer: Prefix128::ANY,
        netns: None,
        exact: true,
    };

    /// Maximum number of namespaces. With more the bounds allow any namespace and are not exact.
    pub const NETNS_MAX: usize = 64;

    /// Every IP socket, not exactly.
    const INEXACT: Self = Self {
        exact: false,
        ..Self::EVERYTHING
    };

    /// Whether no socket is within, so that no source need be used.
    #[must_use]
    pub fn is_impossible(&self) -> bool {
        !(self.v4 || self.v6)
            || self.local_port.is_empty()
            || self.peer_port.is_empty()
            || self.netns.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether the socket is within. A socket of another family or without endpoints never is.
    #[must_use]
    pub fn contains(&self, socket: &Socket) -> bool {
        let family = match socket.family {
            Family::Inet => self.v4,
            Family::Inet6 => self.v6,
            _ => false,
        };
        let end = |end: &Endpoint, ports: &RangeInclusive<u16>, prefix: Prefix128| match *end {
            Endpoint::Inet { ip, port } => ports.contains(&port.0) && prefix.contains(ip),
            _ => false,
        };
        family
            && end(&socket.local, &self.local_port, self.local)
            && end(&socket.peer, &self.peer_port, self.peer)
            && self.netns.as_ref().is_none_or(|expected| {
                socket
                    .netns
                    .is_some_and(|netns| expected.binary_search(&netns).is_ok())
            })
    }

    /// Returns the intersection of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (Some(local), Some(peer)) = (self.local.and(other.local), self.peer.and(other.peer)) else {
            return Self::NOTHING;
        };
        let ports = |a: &RangeInclusive<u16>, b: &RangeInclusive<u16>| {
            *a.start().max(b.start())..=*a.end().min(b.end())
        };
        Self {
            v4: self.v4 && other.v4,
            v6: self.v6 && other.v6,
            local_port: ports(&self.local_port, &other.local_port),
            peer_port: ports(&self.peer_port, &other.peer_port),
            local,
            peer,
            netns: match (self.netns, other.netns) {
                (Some(mut ours), Some(theirs)) => {
                    ours.retain(|netns| theirs.binary_search(netns).is_ok());
                    Some(ours)
                }
                (one, None) | (None, one) => one,
            },
            exact: self.exact && other.exact,
        }
        .smallest()
    }

    /// Returns the smallest bounds around both; exact if there is nothing in between.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self.is_impossible(), other.is_impossible()) {
            (true, _) => return other,
            (_, true) => return self,
            _ => {}
        }
        let ports = |a: &RangeInclusive<u16>, b: &RangeInclusive<u16>| {
            *a.start().min(b.start())..=*a.end().max(b.end())
        };
        let mut both = Self {
            v4: self.v4 || other.v4,
            v6: self.v6 || other.v6,
            local_port: ports(&self.local_port, &other.local_port),
            peer_port: ports(&self.peer_port, &other.peer_port),
            local: self.local.or(other.local),
            peer: self.peer.or(other.peer),
            netns: any_netns(self.netns.as_deref(), other.netns.as_deref()),
            exact: false,
        }
        .smallest();
        both.exact = [Inet::V4, Inet::V6]
            .into_iter()
            .all(|inet| both.of(inet).is_filled_by(&self.of(inet), &other.of(inet)));
        both
    }

    /// Returns the exact bounds of one family.
    const fn family(inet: Inet) -> Self {
        Self {
            v4: matches!(inet, Inet::V4),
            v6: matches!(inet, Inet::V6),
            ..Self::EVERYTHING
        }
    }

    /// Returns the part of one family.
    fn of(&self, inet: Inet) -> Self {
        self.clone().and(Self::family(inet))
    }

    const fn all_or_nothing(all: bool) -> Self {
        if all { Self::EVERYTHING } else { Self::NOTHING }
    }

    /// Reduces each part by what the others exclude.
    fn smallest(mut self) -> Self {
        match (
            self.local.and(Prefix128::MAPPED),
            self.peer.and(Prefix128::MAPPED),
        ) {
            (Some(local), Some(peer)) if self.v4 => {
                if !self.v6 {
                    (self.local, self.peer) = (local, peer);
                }
            }
            _ => self.v4 = false,
        }
        if self.is_impossible() {
            // Empty bounds are always exact.
            Self::NOTHING
        } else {
            self
        }
    }

    /// Whether each socket within is accepted by one of two filters with the bounds `a` and `b`. All
    /// three have one and the same family.
    fn is_filled_by(&self, a: &Self, b: &Self) -> bool {
        if self.is_impossible() || (a.exact && self.same_box(a)) || (b.exact && self.same_box(b)) {
            return true;
        }
        if !(a.exact && b.exact) || a.is_impossible() || b.is_impossible() {
            return false;
        }
        // Neither is all of it. They are adjacent if they differ in one property only and touch there.
        let differences = [
            (a.local_port != b.local_port).then(|| touch(&a.local_port, &b.local_port)),
            (a.peer_port != b.peer_port).then(|| touch(&a.peer_port, &b.peer_port)),
            (a.local != b.local).then(|| a.local.is_other_half(b.local)),
            (a.peer != b.peer).then(|| a.peer.is_other_half(b.peer)),
            // A set has no gaps, unless it exceeded its maximum.
            (a.netns != b.netns).then_some(self.netns.is_some()),
        ];
        let mut differences = differences.into_iter().flatten();
        differences.next() == Some(true) && differences.next().is_none()
    }

    fn same_box(&self, other: &Self) -> bool {
        let all_but_exact = |bounds: &Self| {
            (
                (bounds.v4, bounds.v6),
                (bounds.local, bounds.local_port.clone()),
                (bounds.peer, bounds.peer_port.clone()),
            )
        };
        all_but_exact(self) == all_but_exact(other) && self.netns == other.netns
    }
}

impl Prefix128 {
    /// Every address.
    pub const ANY: Self = Self { bits: 0, mask: 0 };

    /// Every IPv4 address: `::ffff:0.0.0.0/96`.
    pub const MAPPED: Self = Self::new(0xffff_0000_0000, 96);

    /// Creates a prefix of the first `len` bits (at most 128) of an address.
    const fn new(address: u128, len: u32) -> Self {
        let mask = match u128::MAX.checked_shl(128 - len) {
            Some(mask) => mask,
            None => 0,
        };
        Self {
            bits: address & mask,
            mask,
        }
    }

    /// Whether it contains the address; an IPv4 address is mapped first.
    #[must_use]
    pub fn contains(self, ip: IpAddr) -> bool {
        let address = match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        address.to_bits() & self.mask == self.bits
    }

    /// Returns the intersection: the longer one, or `None`.
    fn and(self, other: Self) -> Option<Self> {
        let common = self.mask & other.mask;
        ((self.bits ^ other.bits) & common == 0).then_some(if self.mask > other.mask { self } else { other })
    }

    /// Returns the longest prefix that contains both.
    fn or(self, other: Self) -> Self {
        let same = (self.bits ^ other.bits).leading_zeros();
        let len = self.mask.leading_ones().min(other.mask.leading_ones());
        Self::new(self.bits, same.min(len))
    }

    /// Whether they differ in their last bit only, so that together they are a prefix shorter by one bit.
    const fn is_other_half(self, other: Self) -> bool {
        let last = self.mask & self.mask.wrapping_neg();
        self.mask == other.mask && self.bits ^ other.bits == last
    }
}

impl From<Net> for Prefix128 {
    fn from(net: Net) -> Self {
        match net {
            Net::V4 { address, len } => {
                Self::new(Self::MAPPED.bits | u128::from(address), 96 + u32::from(len))
            }
            Net::V6 { address, len } => Self::new(address, len.into()),
        }
    }
}

/// Returns the bounds of an expression. `confined_to` is that of [`crate::Filter`].
pub(crate) fn bounds(expr: &Expr, confined_to: Option<Family>) -> Bounds {
    let confined = confined_to.map_or(Bounds::EVERYTHING, |confined| family(confined, true));
    confined.and(of_expr(expr, true, true))
}

/// Returns the bounds of an expression or, if not `positive`, of its negation.
///
/// `is_top` means that it has to match for every accepted socket. Conditions there that are about states only are completely
/// in [`crate::Filter::states`]; others are not.
fn of_expr(expr: &Expr, positive: bool, is_top: bool) -> Bounds {
    if is_top && is_of_states(expr) {
        return Bounds::EVERYTHING;
    }
    match (expr, positive) {
        (Expr::All, _) => Bounds::all_or_nothing(positive),
        (Expr::Not(inner), _) => of_expr(inner, !positive, is_top),
        (Expr::And(inner), true) | (Expr::Or(inner), false) => inner
            .iter()
            .map(|inner| of_expr(inner, positive, is_top))
            .fold(Bounds::EVERYTHING, Bounds::and),
        (Expr::Or(inner), true) | (Expr::And(inner), false) => inner
            .iter()
            .map(|inner| of_expr(inner, positive, false))
            .fold(Bounds::NOTHING, Bounds::or),
        (Expr::Test(test), _) => of_test(test, positive),
    }
}

fn is_of_states(expr: &Expr) -> bool {
    match expr {
        Expr::All => false,
        Expr::Test(test) => matches!(test, Test::State(_)),
        Expr::Not(inner) => is_of_states(inner),
        Expr::And(inner) | Expr::Or(inner) => inner.iter().all(is_of_states),
    }
}

/// Returns the bounds of a condition or, if not `positive`, of its negation. An absent value matches no condition and
/// therefore every negated one, so most negations have no bounds.
fn of_test(test: &Test, positive: bool) -> Bounds {
    match test {
        Test::Port(side, ports) => port(*side, *ports, positive),
        Test::Host(host) => of_host(host, positive),
        Test::Family(expected) => family(*expected, positive),
        Test::Peers(classes) => peers(*classes, positive),
        // Never matches an IP socket.
        Test::Unix { .. } | Test::Netlink { .. } | Test::Packet { .. } | Test::Vsock { .. } => {
            Bounds::all_or_nothing(!positive)
        }
        // The port does not show whether the kernel chose it.
        Test::Autobound(ports) => Bounds {
            exact: false,
            ..port(Side::Source, *ports, positive)
        }
        .smallest(),
        Test::Protocol(protocols) => {
            let mut inet = ProtocolSet::PROTOCOLS
                .into_iter()
                .filter(|protocol| protocol.is_inet());
            if !protocols.intersects(ProtocolSet::INET) {
                Bounds::all_or_nothing(!positive)
            } else if inet.all(|protocol| protocols.contains(protocol)) {
                Bounds::all_or_nothing(positive)
            } else {
                Bounds::INEXACT
            }
        }
        Test::Number(Field::Netns, Compare::Equal, inode) => match u32::try_from(*inode) {
            Err(_) => Bounds::all_or_nothing(!positive),
            Ok(inode) if positive => Bounds {
                netns: Some(vec![NetnsInode(inode)]),
                ..Bounds::EVERYTHING
            },
            Ok(_) => Bounds::INEXACT,
        },
        Test::State(_)
        | Test::Device(_)
        | Test::Fwmark { .. }
        | Test::Cgroup { .. }
        | Test::Number(..)
        | Test::Text { .. }
        | Test::Timer(_) => Bounds::INEXACT,
    }
}

/// Returns the bounds of a host condition: all of its parts match; negated, at least one does not.
fn of_host(host: &Host, positive: bool) -> Bounds {
    let parts = [
        host.family.map(|inet| family(inet.into(), positive)),
        host.ports.map(|ports| port(host.side, ports, positive)),
        host.net.map(|net| of_net(host.side, net, positive)),
    ];
    let parts = parts.into_iter().flatten();
    if positive {
        parts.fold(Bounds::EVERYTHING, Bounds::and)
    } else {
        parts.fold(Bounds::NOTHING, Bounds::or)
    }
}

/// Returns the bounds of a prefix. An IPv4 prefix contains v4-mapped addresses too; an IPv6 prefix, even `::/0`, contains no
/// IPv4 socket.
fn of_net(side: Side, net: Net, positive: bool) -> Bounds {
    match (net, positive) {
        (Net::V6 { len: 0, .. }, false) => Bounds::family(Inet::V4),
        (_, false) => Bounds::INEXACT,
        (net, true) => {
            let mut bounds = match net {
                Net::V4 { .. } => Bounds::EVERYTHING,
                Net::V6 { .. } => Bounds::family(Inet::V6),
            };
            match side {
                Side::Source => bounds.local = net.into(),
                Side::Destination => bounds.peer = net.into(),
            }
            bounds
        }
    }
}

fn port(side: Side, Ports { low, high }: Ports, positive: bool) -> Bounds {
    let range = match (low, high, positive) {
        (_, _, true) => low..=high,
        (low, high, false) if low > high => 0..=u16::MAX,
        (0, u16::MAX, false) => return Bounds::NOTHING,
        (0, high, false) => high + 1..=u16::MAX,
        (low, u16::MAX, false) => 0..=low - 1,
        (_, _, false) => return Bounds::INEXACT,
    };
    let mut bounds = Bounds::EVERYTHING;
    match side {
        Side::Source => bounds.local_port = range,
        Side::Destination => bounds.peer_port = range,
    }
    bounds.smallest()
}

fn family(family: Family, positive: bool) -> Bounds {
    match (family, positive) {
        (Family::Inet, true) | (Family::Inet6, false) => Bounds::family(Inet::V4),
        (Family::Inet6, true) | (Family::Inet, false) => Bounds::family(Inet::V6),
        (_, _) => Bounds::all_or_nothing(!positive),
    }
    .smallest()
}

/// Returns the bounds of classes of peers (bits of [`PeerClass`]); negated, of the others and of the unspecified address.
fn peers(classes: u8, positive: bool) -> Bounds {
    let selects = |class: PeerClass| (classes & class.bit() != 0) == positive;
    if selects(PeerClass::Public) {
        return Bounds::INEXACT; // nearly everything
    }
    let mut nets = Vec::new();
    let mut add = |v4: &[_], v6: &[_]| {
        nets.extend(v4.iter().map(|&(net, len)| Net::v4(net, len)));
        nets.extend(v6.iter().map(|&(net, len)| Net::v6(net, len)));
    };
    if selects(PeerClass::Loopback) {
        add(LOOPBACK_V4, LOOPBACK_V6);
    }
    if selects(PeerClass::Private) {
        add(PRIVATE_V4, PRIVATE_V6);
    }
    if !positive {
        add(UNSPECIFIED_V4, UNSPECIFIED_V6);
    }
    nets.into_iter()
        .map(|net| of_net(Side::Destination, net, true))
        .fold(Bounds::NOTHING, Bounds::or)
}

/// Returns the union; `None` is any namespace.
fn any_netns(a: Option<&[NetnsInode]>, b: Option<&[NetnsInode]>) -> Option<Vec<NetnsInode>> {
    let mut all = [a?, b?].concat();
    all.sort_unstable();
    all.dedup();
    (all.len() <= Bounds::NETNS_MAX).then_some(all)
}

/// Whether there is no port between the ranges.
fn touch(a: &RangeInclusive<u16>, b: &RangeInclusive<u16>) -> bool {
    let (start, end) = (*a.start().max(b.start()), *a.end().min(b.end()));
    u32::from(start) <= u32::from(end) + 1
}
