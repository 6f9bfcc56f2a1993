//! The sockets of a network namespace by their ends, and their owners.

use super::interface::{Interface, Link};
use foldhash::{HashMap, HashMapExt};
use sockeye_model::{Endpoint, Inode, Owner, Protocol, ProtocolSet, StateSet};
use sockeye_output::harmless;
use sockeye_source::owners::Owners;
use sockeye_source::{BpfEngine, Choice, Detail, Ends, Families, NetnsScope, Query, list};
use sockeye_sys::packet_ring::Packet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::ControlFlow;

/// The sockets of a network namespace by their ends, and their owners.
#[derive(Debug, Default)]
pub(super) struct SocketTable {
    /// Connected sockets, by protocol, local end and peer.
    connected: HashMap<(u8, End, End), Inode>,
    /// Listening and unconnected sockets, sorted. Several may have the same end (`SO_REUSEPORT`).
    bound: Vec<(u8, End, Inode)>,
    owners: Owners,
}

/// An address, IPv4 as v4-mapped IPv6, and a port.
pub(super) type End = (u128, u16);

/// Protocol and ends of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PacketKey {
    pub(super) protocol: u8,
    pub(super) source: End,
    pub(super) destination: End,
}

impl SocketTable {
    /// Reads the sockets and owners of the interface's namespace; `None` if that fails.
    pub(super) fn read(engine: &BpfEngine, interface: &Interface) -> Option<Self> {
        let (owners, _) = Owners::find(engine, Choice::Auto).ok()?;
        match interface.places.iter().next().flatten() {
            None => Self::list(engine, owners, NetnsScope::Own),
            Some(namespace) => interface
                .places
                .open(namespace, |scope| {
                    Self::list(engine, owners, NetnsScope::One(scope))
                })
                .ok()?,
        }
    }

    fn list(engine: &BpfEngine, owners: Owners, scope: NetnsScope<'_>) -> Option<Self> {
        let query = Query {
            protocols: ProtocolSet::of(&[Protocol::Tcp, Protocol::Udp]),
            families: Families::BOTH,
            states: StateSet::ALL,
            detail: Detail::INODE,
            program: &[],
            ends: Ends::ANYWHERE,
            choice: Choice::Auto,
            scope,
            quiet: None,
            announce: None,
        };
        let (mut connected, mut bound) = (HashMap::new(), Vec::new());
        let outcome = list(engine, &query, &mut |socket, _| {
            if let Some(inode) = socket.inode
                && let Some(local) = end(&socket.local)
            {
                let protocol = if socket.protocol == Protocol::Udp {
                    UDP
                } else {
                    TCP
                };
                match end(&socket.peer).filter(|(_, port)| *port != 0) {
                    Some(peer) => {
                        connected.insert((protocol, local, peer), inode);
                    }
                    None => bound.push((protocol, local, inode)),
                }
            }
            ControlFlow::Continue(())
        });
        bound.sort_unstable();
        outcome.ok().map(|_| Self {
            connected,
            bound,
            owners,
        })
    }

    /// Returns the owners of the socket with this end and that peer, or of the listener there; `None` if unknown.
    pub(super) fn owners(&self, protocol: u8, local: End, peer: End) -> Option<String> {
        self.first_known(protocol, local, peer, &|inodes| {
            names(inodes.flat_map(|inode| self.owners.of(inode)))
        })
    }

    /// Returns the first value that `known` has: for the connected socket, then for sockets bound to the address, then for
    /// those bound to any address.
    fn first_known<T>(
        &self,
        protocol: u8,
        local: End,
        peer: End,
        known: &dyn Fn(&mut dyn Iterator<Item = Inode>) -> Option<T>,
    ) -> Option<T> {
        let connected = self.connected.get(&(protocol, local, peer)).copied();
        connected
            .and_then(|inode| known(&mut std::iter::once(inode)))
            .or_else(|| {
                let ends = [local.0, u128::from(Ipv6Addr::UNSPECIFIED), V4_MAPPED];
                ends.into_iter().find_map(|ip| {
                    let bound_key = (protocol, (ip, local.1));
                    let key = |&(protocol, end, _): &(u8, End, Inode)| (protocol, end);
                    let begin = self.bound.partition_point(|one| key(one) < bound_key);
                    let matching = self.bound[begin..].iter().take_while(|one| key(one) == bound_key);
                    known(&mut matching.map(|(.., inode)| *inode))
                })
            })
    }
}

impl PacketKey {
    /// Returns the key of a TCP or UDP packet; `None` for other packets and for fragments but the first.
    #[inline]
    pub(super) fn of(link: Link, packet: &Packet<'_>) -> Option<Self> {
        let bytes = packet.bytes;
        let bytes = match link {
            Link::Raw | Link::Cooked => bytes,
            Link::Ethernet => {
                let mut offset = 14;
                for _ in 0..TAGS_MAX {
                    match bytes.get(offset - 2..offset)? {
                        [0x81, 0x00] | [0x88, 0xa8] => offset += 4,
                        _ => break,
                    }
                }
                bytes.get(offset..)?
            }
        };
        let short = |at: usize| -> Option<u16> { Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)) };
        match bytes.first()? >> 4 {
            4 => {
                let protocol = *bytes.get(9)?;
                if !matches!(protocol, TCP | UDP) || short(6)? & 0x1fff != 0 {
                    return None;
                }
                let ip = |at: usize| -> Option<u128> {
                    let v4 = u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?);
                    Some(V4_MAPPED | u128::from(v4))
                };
                let ports = usize::from(bytes[0] & 15) * 4;
                Some(Self {
                    protocol,
                    source: (ip(12)?, short(ports)?),
                    destination: (ip(16)?, short(ports + 2)?),
                })
            }
            6 => {
                let protocol = *bytes.get(6)?;
                if !matches!(protocol, TCP | UDP) {
                    return None;
                }
                let ip = |at: usize| -> Option<u128> {
                    Some(u128::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
                };
                Some(Self {
                    protocol,
                    source: (ip(8)?, short(40)?),
                    destination: (ip(24)?, short(42)?),
                })
            }
            _ => None,
        }
    }
}

fn end(endpoint: &Endpoint) -> Option<End> {
    let ip = match endpoint.ip()? {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    Some((ip.to_bits(), endpoint.port()?.0))
}

/// Returns `nginx(25014), nginx(25015)`; `None` if there is no owner.
fn names<'a>(owners: impl Iterator<Item = &'a Owner>) -> Option<String> {
    let mut text = String::new();
    let mut last = None;
    let mut count = 0;
    for owner in owners {
        let process = owner.process;
        // A process may have several descriptors of a socket.
        if last.replace(process.pid) == Some(process.pid) {
            continue;
        }
        if count == NAMES_MAX {
            text.push_str(", ...");
            break;
        }
        let comma = if count == 0 { "" } else { ", " };
        let _ = write!(
            text,
            "{comma}{}({})",
            harmless(process.comm.as_bytes()),
            process.pid
        );
        count += 1;
    }
    (count > 0).then_some(text)
}

const TCP: u8 = 6;
const UDP: u8 = 17;
/// `::ffff:0.0.0.0`
const V4_MAPPED: u128 = 0xffff_0000_0000;
/// Limit for VLAN tags of a packet.
const TAGS_MAX: usize = 2;
/// Limit for owners of a socket in a comment.
const NAMES_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connected_socket_precedes_listeners_in_order_of_address() {
        let ip = |text: &str| match text.parse().unwrap() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        let (local, peer) = ((ip("10.0.0.1"), 80), (ip("10.0.0.2"), 5000));
        let mut table = SocketTable::default();
        // The fifth has no owner.
        let check = |table: &SocketTable, protocol, local, peer, expected: &[u32]| {
            let found = table.first_known(protocol, local, peer, &|inodes| {
                let owned: Vec<_> = inodes.map(|inode| inode.0).filter(|inode| *inode != 5).collect();
                (!owned.is_empty()).then_some(owned)
            });
            assert_eq!(found.unwrap_or_default(), expected);
        };
        check(&table, TCP, local, peer, &[]);
        table.bound.push((TCP, (ip("::"), 80), Inode(1)));
        check(&table, TCP, local, peer, &[1]);
        table.bound.push((TCP, local, Inode(3)));
        table.bound.push((TCP, local, Inode(2)));
        table.bound.sort_unstable();
        check(&table, TCP, local, peer, &[2, 3]);
        table.connected.insert((TCP, local, peer), Inode(4));
        check(&table, TCP, local, peer, &[4]);
        table.connected.insert((TCP, local, peer), Inode(5));
        check(&table, TCP, local, peer, &[2, 3]);
        check(&table, UDP, local, peer, &[]);
        check(&table, TCP, peer, local, &[]);
    }
}
