//! Rules about ephemeral ports: how many are in use towards each service.

use crate::connection::permille;
use crate::finding::Subject;
use crate::judge::finding_about;
use crate::namespace::severity_of_fill;
use crate::remedy::endpoint_filter;
use crate::{Finding, Limit, Limits, Remedy, Rule};
use foldhash::fast::FixedState;
use sockeye_model::{Endpoint, NetnsInode, Port, Protocol, Socket, State, Vitals};
use std::collections::HashMap;
use std::net::IpAddr;

/// Sockets with an ephemeral port, by route.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    ranges: HashMap<Option<NetnsInode>, Range, FixedState>,
    connections: HashMap<Route, u32, FixedState>,
    udp: HashMap<Option<NetnsInode>, u32, FixedState>,
    /// Connections that did not fit.
    pub(crate) left_out: u64,
}

/// A port can be used once per route.
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
    /// Sets the port range of a namespace.
    pub(crate) fn add_namespace(&mut self, vitals: &Vitals) {
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

    /// Counts a socket with a local port.
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
            // A socket of IPv6 that speaks IPv4 uses a port of IPv4.
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
        let peer = endpoint_filter(&Endpoint::inet(self.peer, Port(0)));
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
    /// The finding that nearly all of these ports are in use.
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
        // One connection is not many, however narrow the range is.
        (used > 1 && share >= least_share).then(|| Finding {
            severity: severity_of_fill(share),
            sockets: used.into(),
            ..finding_about(rule, netns, subject, &facts, Vec::new())
        })
    }
}

/// Routes that are counted at most. Incoming connections to a port of this range need one each.
const ROUTES_MAX: usize = 300_000;
const WIDER_RANGE: &str = "sysctl -w net.ipv4.ip_local_port_range='1024 65535'";
