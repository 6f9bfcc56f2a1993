//! Flow keys in 16 bytes. A [`FlowKey`] has more than a hundred, most of them `None`: too many where each connection is a flow of
//! its own. What many flows share, and what is long, is kept once, and has a number.

use crate::index::Index;
use sockeye_model::{Direction, FlowKey, GroupBy, NetnsInode, Port, Process, Uid, Workload, WorkloadId};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A flow key, whose numbers mean something to the [`KeyTable`] that made it.
///
/// From the highest bit: number of the scope (32), family of the local address (2), the address (32), the same of the peer, whether
/// there is a port (1), the port (16). IPv4 addresses are there as they are, IPv6 addresses as numbers. So keys are ordered as
/// [`FlowKey`] is, once scopes and IPv6 addresses are numbered in their order ([`KeyTable::sort`]). A prefix length needs no place: it
/// depends on the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CompactKey(u128);

/// The properties of a flow key that many flows share. The keys of a fold have either addresses or ports, or one of the last three:
/// so keys are in the order of their scopes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Scope {
    // The order of the fields is that of `FlowKey`: flows are sorted by it.
    netns: Option<NetnsInode>,
    direction: Direction,
    process: Option<Process>,
    uid: Option<Uid>,
    workload: Option<Workload>,
}

/// The scopes and the IPv6 addresses of the flow keys of one fold.
#[derive(Debug)]
pub(crate) struct KeyTable {
    /// Prefix lengths of IPv4 and IPv6 peers, if flows are grouped by prefix.
    prefix_bits: Option<(u8, u8)>,
    scopes: Vec<Scope>,
    scope_index: Index,
    /// Number of the last scope of each direction: adjacent connections often have the same.
    last_scopes: [u32; 2],
    v6: Vec<Ipv6Addr>,
    v6_index: Index,
}

/// New numbers of scopes and IPv6 addresses, by their old ones.
#[derive(Debug)]
pub(crate) struct Renumbering {
    scopes: Vec<u32>,
    v6: Vec<u32>,
}

impl KeyTable {
    pub(crate) fn new(group_by: GroupBy) -> Self {
        Self {
            prefix_bits: match group_by {
                GroupBy::Prefix { v4, v6 } => Some((v4, v6)),
                _ => None,
            },
            scopes: Vec::new(),
            scope_index: Index::default(),
            last_scopes: [0; 2],
            v6: Vec::new(),
            v6_index: Index::default(),
        }
    }

    /// Returns the compact form of a key. Its prefix length must be that of `GroupBy`.
    #[inline]
    pub(crate) fn compact(&mut self, key: &FlowKey) -> CompactKey {
        debug_assert_eq!(key.peer_prefix, self.peer_prefix(key.peer));
        let scope = self.scope_number(&Scope {
            netns: key.netns,
            direction: key.direction,
            process: key.process,
            uid: key.uid,
            workload: key.workload,
        });
        let (local_family, local) = self.address_number(key.local);
        let (peer_family, peer) = self.address_number(key.peer);
        // An absent port comes before port 0.
        let port = key.port.map_or(0, |port| HAS_PORT | u64::from(port.0));
        CompactKey::new(scope, local_family, local, peer_family, peer, port)
    }

    /// Returns the key again.
    pub(crate) fn key(&self, compact: CompactKey) -> FlowKey {
        let mut key = NO_KEY;
        self.read(compact, &mut key);
        key
    }

    /// Reads a key, over another.
    #[inline]
    pub(crate) fn read(&self, compact: CompactKey, key: &mut FlowKey) {
        let address = |family, number| match family {
            V4 => Some(IpAddr::V4(Ipv4Addr::from_bits(number))),
            V6 => Some(IpAddr::V6(self.v6[number as usize])),
            _ => None,
        };
        let scope = &self.scopes[compact.scope() as usize];
        key.netns = scope.netns;
        key.direction = scope.direction;
        key.local = address(compact.local_family(), compact.local());
        let peer = address(compact.peer_family(), compact.peer());
        (key.peer, key.peer_prefix) = (peer, self.peer_prefix(peer));
        key.port = (compact.port() & HAS_PORT != 0).then_some(Port(compact.port() as u16));
        key.process = scope.process;
        key.uid = scope.uid;
        key.workload = scope.workload;
    }

    /// Sorts scopes, by `name` of their workloads and then as [`FlowKey`] is ordered, and IPv6 addresses. No key can be made
    /// afterwards, and those that were made need new numbers.
    pub(crate) fn sort<'n>(&mut self, name: impl Fn(WorkloadId) -> Option<&'n str>) -> Renumbering {
        let name = |scope: &Scope| name(scope.workload?.id);
        Renumbering {
            scopes: sort(&mut self.scopes, |a, b| {
                name(a).cmp(&name(b)).then_with(|| a.cmp(b))
            }),
            v6: sort(&mut self.v6, Ipv6Addr::cmp),
        }
    }

    fn peer_prefix(&self, peer: Option<IpAddr>) -> Option<u8> {
        let (v4, v6) = self.prefix_bits?;
        Some(if peer.is_some_and(|ip| ip.is_ipv6()) {
            v6
        } else {
            v4
        })
    }

    #[inline]
    fn scope_number(&mut self, scope: &Scope) -> u32 {
        let last = &mut self.last_scopes[scope.direction as usize];
        if self.scopes.get(*last as usize) != Some(scope) {
            *last = number(&mut self.scope_index, &mut self.scopes, scope);
        }
        *last
    }

    /// Returns the family of an address, and 32 bits that identify it in this family.
    #[inline]
    fn address_number(&mut self, ip: Option<IpAddr>) -> (u64, u32) {
        match ip {
            None => (NO_ADDRESS, 0),
            Some(IpAddr::V4(ip)) => (V4, ip.to_bits()),
            Some(IpAddr::V6(ip)) => (V6, number(&mut self.v6_index, &mut self.v6, &ip)),
        }
    }
}

impl CompactKey {
    /// A key that is not yet known.
    pub(crate) const ZERO: Self = Self(0);

    #[inline]
    fn new(scope: u32, local_family: u64, local: u32, peer_family: u64, peer: u32, port: u64) -> Self {
        let high = u128::from(u64::from(scope) << 2 | local_family) << 83;
        Self(
            high | u128::from(local) << 51
                | u128::from(peer_family) << 49
                | u128::from(u64::from(peer) << 17 | port),
        )
    }

    /// Returns the number by which keys are ordered.
    #[inline]
    pub(crate) const fn number(self) -> u128 {
        self.0
    }

    #[inline]
    const fn scope(self) -> u32 {
        (self.0 >> 85) as u32
    }

    #[inline]
    const fn local_family(self) -> u64 {
        (self.0 >> 83) as u64 & 3
    }

    #[inline]
    const fn local(self) -> u32 {
        (self.0 >> 51) as u32
    }

    #[inline]
    const fn peer_family(self) -> u64 {
        (self.0 >> 49) as u64 & 3
    }

    #[inline]
    const fn peer(self) -> u32 {
        (self.0 >> 17) as u32
    }

    /// The port and [`HAS_PORT`].
    #[inline]
    const fn port(self) -> u64 {
        self.0 as u64 & (HAS_PORT | 0xffff)
    }
}

impl Renumbering {
    /// Returns the key with its new numbers.
    #[inline]
    pub(crate) fn of(&self, key: CompactKey) -> CompactKey {
        let address = |family, number: u32| match family {
            V6 => self.v6[number as usize],
            _ => number,
        };
        CompactKey::new(
            self.scopes[key.scope() as usize],
            key.local_family(),
            address(key.local_family(), key.local()),
            key.peer_family(),
            address(key.peer_family(), key.peer()),
            key.port(),
        )
    }
}

/// Returns the number of `value` in `values`, at the end of which it is added if it is new.
fn number<T: Copy + Eq + std::hash::Hash>(index: &mut Index, values: &mut Vec<T>, value: &T) -> u32 {
    // At most as many as connections, which the kernel counts in 32 bits.
    let next = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let number = index.find_or_insert(value, next, |number| values[number as usize]);
    if number == next {
        values.push(*value);
    }
    number
}

/// Sorts values, and returns the new place of each.
fn sort<T: Copy>(values: &mut [T], compare: impl Fn(&T, &T) -> std::cmp::Ordering) -> Vec<u32> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| compare(&values[a], &values[b]));
    let mut places = vec![0; values.len()];
    for (place, &index) in (0..).zip(&order) {
        places[index] = place;
    }
    let sorted: Vec<_> = order.into_iter().map(|index| values[index]).collect();
    values.copy_from_slice(&sorted);
    places
}

/// A key of which nothing is known.
const NO_KEY: FlowKey = FlowKey {
    netns: None,
    direction: Direction::Active,
    local: None,
    peer: None,
    peer_prefix: None,
    port: None,
    process: None,
    uid: None,
    workload: None,
};

/// Families, in the order in which addresses are sorted.
const NO_ADDRESS: u64 = 0;
const V4: u64 = 1;
const V6: u64 = 2;

const HAS_PORT: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Comm, Pid, WorkloadKind};

    /// Keys as those of hosts.
    fn host_keys() -> Vec<FlowKey> {
        let ips = [
            "10.0.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "::",
            "2001:db8::7",
            "::1",
        ];
        let ips = || ips.iter().map(|ip| Some(ip.parse().unwrap())).chain([None]);
        let mut keys = Vec::new();
        for direction in [Direction::Passive, Direction::Active] {
            for netns in [Some(NetnsInode(7)), None, Some(NetnsInode(3))] {
                for port in [Some(Port(u16::MAX)), None, Some(Port(0))] {
                    for (local, peer) in ips().flat_map(|local| ips().map(move |peer| (local, peer))) {
                        keys.push(FlowKey {
                            netns,
                            direction,
                            local,
                            peer,
                            peer_prefix: None,
                            port,
                            process: None,
                            uid: None,
                            workload: None,
                        });
                    }
                }
            }
        }
        keys
    }

    /// Keys without addresses.
    fn other_keys() -> Vec<FlowKey> {
        let mut keys = Vec::new();
        for key in host_keys() {
            if key.local.is_some() || key.peer.is_some() || key.port.is_some() {
                continue;
            }
            for id in [9, 0, 4] {
                let process = Some(Process {
                    pid: Pid(id),
                    pgid: None,
                    comm: Comm::new(b"httpd"),
                });
                let uid = Some(Uid(id));
                let workload = Some(Workload {
                    kind: WorkloadKind::Unit,
                    id: WorkloadId(id),
                });
                keys.extend([
                    FlowKey { process, ..key },
                    FlowKey { uid, ..key },
                    FlowKey { workload, ..key },
                ]);
            }
        }
        keys
    }

    #[test]
    fn keys_survive_and_keep_their_order() {
        for mut keys in [host_keys(), other_keys()] {
            let mut table = KeyTable::new(GroupBy::Host);
            let compact: Vec<_> = keys.iter().map(|key| table.compact(key)).collect();
            for (key, compact) in keys.iter().zip(&compact) {
                assert_eq!(table.key(*compact), *key);
                assert_eq!(table.compact(key), *compact);
            }
            let renumbering = table.sort(|_| None);
            let mut sorted: Vec<_> = compact.iter().map(|key| renumbering.of(*key)).collect();
            sorted.sort_unstable_by_key(|key| key.number());
            keys.sort_unstable();
            assert!(sorted.iter().map(|key| table.key(*key)).eq(keys));
        }
    }

    #[test]
    fn names_of_workloads_come_before_the_rest() {
        let mut table = KeyTable::new(GroupBy::Workload(WorkloadKind::Unit));
        let keys = other_keys();
        let here = keys
            .iter()
            .filter(|key| key.netns.is_none() && key.direction == Direction::Active);
        let mut ranked: Vec<_> = here
            .filter_map(|key| Some((table.compact(key), key.workload?.id.0)))
            .collect();
        let names = ["b", "", "", "", "a", "", "", "", "", "c"];
        let renumbering = table.sort(|id| Some(names[id.0 as usize]));
        ranked.sort_unstable_by_key(|(key, _)| renumbering.of(*key).number());
        assert_eq!(ranked.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [4, 0, 9]);
    }

    #[test]
    fn prefix_length_follows_the_family() {
        let mut table = KeyTable::new(GroupBy::Prefix { v4: 24, v6: 64 });
        for (peer, bits) in [(Some("192.0.2.0"), 24), (Some("2001:db8::"), 64), (None, 24)] {
            let key = FlowKey {
                peer: peer.map(|ip| ip.parse().unwrap()),
                peer_prefix: Some(bits),
                ..host_keys()[0]
            };
            let compact = table.compact(&key);
            assert_eq!(table.key(compact), key);
        }
    }
}
