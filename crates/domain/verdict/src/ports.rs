//! Local ports that the kernel chooses: how many of them are in use towards each service.

use crate::connection::permille;
use crate::finding::Subject;
use crate::judge::about;
use crate::namespace::nearly_or_full;
use crate::remedy::bracketed;
use crate::{Finding, Limit, Limits, Remedy, Rule};
use foldhash::fast::FixedState;
use sockeye_model::{Endpoint, NetnsInode, Port, Protocol, Socket, State, Vitals};
use std::collections::HashMap;
use std::net::IpAddr;

/// Connections with such a port, by where they go.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    ranges: HashMap<Option<NetnsInode>, Range, FixedState>,
    connections: HashMap<Route, u32, FixedState>,
    udp: HashMap<Option<NetnsInode>, u32, FixedState>,
    /// Connections that there was no room for.
    pub(crate) left_out: u64,
}

/// A port can be used once for each of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Route {
    netns: Option<NetnsInode>,
    local: IpAddr,
    peer: IpAddr,
    peer_port: Port,
}

#[derive(Debug, Clone, Copy)]
struct Range {
    first: u16,
    last: u16,
    reserved: u32,
}

impl Ports {
    /// The range of a namespace.
    pub(crate) fn learn(&mut self, vitals: &Vitals) {
        if let Some((first, last)) = vitals.settings.ephemeral_ports {
            let reserved = vitals.settings.reserved_ports.unwrap_or(0);
            self.ranges.insert(
                vitals.netns,
                Range {
                    first,
                    last,
                    reserved,
                },
            );
        }
    }

    /// A socket that has a local port.
    pub(crate) fn count(&mut self, socket: &Socket) {
        let (
            Endpoint::Inet { ip: local, port },
            Endpoint::Inet {
                ip: peer,
                port: peer_port,
            },
        ) = (socket.local, socket.peer)
        else {
            return;
        };
        let Some(range) = self.ranges.get(&socket.netns) else {
            return;
        };
        if !(range.first..=range.last).contains(&port.0) {
            return;
        }
        if socket.protocol != Protocol::Tcp {
            *self.udp.entry(socket.netns).or_default() += 1;
        } else if peer_port.0 != 0 && socket.state != State::Close {
            // A socket of IPv6 that speaks IPv4 takes a port of IPv4.
            let route = Route {
                netns: socket.netns,
                local: local.to_canonical(),
                peer: peer.to_canonical(),
                peer_port,
            };
            if self.connections.len() < ROUTES_MAX || self.connections.contains_key(&route) {
                *self.connections.entry(route).or_default() += 1;
            } else {
                self.left_out += 1;
            }
        }
    }

    pub(crate) fn findings(&self, limits: &Limits) -> Vec<Finding> {
        let mut found = Vec::new();
        for (route, &used) in &self.connections {
            let Some(range) = self.ranges.get(&route.netns) else {
                continue;
            };
            let subject = Subject::Service {
                local: Endpoint::inet(route.local, Port(0)),
                peer: Endpoint::inet(route.peer, route.peer_port),
            };
            let least = limits.of(Limit::EphemeralShare);
            found.extend(
                range
                    .finding(Rule::EphemeralPorts, route.netns, subject, used, least)
                    .map(|finding| Finding {
                        remedies: route.remedies(),
                        ..finding
                    }),
            );
        }
        for (netns, &used) in &self.udp {
            let Some(range) = self.ranges.get(netns) else {
                continue;
            };
            let least = limits.of(Limit::UdpPortsShare);
            found.extend(
                range
                    .finding(Rule::UdpPorts, *netns, Subject::Namespace, used, least)
                    .map(|finding| Finding {
                        remedies: vec![
                            Remedy::Sockeye("sockets -uap".into()),
                            Remedy::Inside(WIDER_RANGE.into()),
                        ],
                        ..finding
                    }),
            );
        }
        found
    }
}

impl Route {
    fn remedies(&self) -> Vec<Remedy> {
        let peer = bracketed(&Endpoint::inet(self.peer, Port(0)));
        let filter = format!("dst = {peer} and dport = :{}", self.peer_port);
        vec![
            Remedy::Sockeye(format!("flows -p '{filter}'")),
            Remedy::Inside(WIDER_RANGE.into()),
            Remedy::Inside("sysctl -w net.ipv4.tcp_tw_reuse=1".into()),
            Remedy::Advice(
                "keep connections open and use them again, or connect to or from further addresses",
            ),
        ]
    }
}

impl Range {
    /// That so many of its ports are in use, if they are nearly all.
    fn finding(
        &self,
        rule: Rule,
        netns: Option<NetnsInode>,
        subject: Subject,
        used: u32,
        least_share: u64,
    ) -> Option<Finding> {
        let ports = (u64::from(self.last) + 1)
            .saturating_sub(self.first.into())
            .saturating_sub(self.reserved.into());
        let share = permille(used.into(), ports);
        let facts = [
            ("used", Some(used.into())),
            ("ports", Some(ports)),
            ("share_permille", Some(share)),
        ];
        // One connection is no crowd, however narrow the range.
        (used > 1 && share >= least_share).then(|| Finding {
            severity: nearly_or_full(share),
            sockets: used.into(),
            ..about(rule, netns, subject, &facts, Vec::new())
        })
    }
}

/// Routes that are counted at once. Connections that others made to a port of this range have one each.
const ROUTES_MAX: usize = 300_000;
const WIDER_RANGE: &str = "sysctl -w net.ipv4.ip_local_port_range='1024 65535'";
