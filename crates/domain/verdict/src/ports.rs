//! Rules about ephemeral ports: how many are in use towards each service.

use crate::finding::Subject;
use crate::remedy::endpoint_filter;
use crate::share::{permille, severity_of_fill};
use crate::{Finding, Limit, Limits, Rule};
use foldhash::fast::FixedState;
use sockeye_model::{Endpoint, Entry, NetnsInode, Port, Process, Protocol, State, Vitals};
use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::net::IpAddr;

/// Sockets with an ephemeral port, by route.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    ranges: HashMap<Option<NetnsInode>, Range, FixedState>,
    connections: HashMap<RouteHash, Users, FixedState>,
    /// Those of several connections: each incoming connection to a port of the range has one of its own.
    routes: HashMap<RouteHash, Route, FixedState>,
    udp: HashMap<Option<NetnsInode>, Users, FixedState>,
    processes: Processes,
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

/// A hash of a route: two with the same one would be counted as one.
type RouteHash = u64;

/// Processes, each with a number; that of none is 0.
#[derive(Debug, Default)]
struct Processes {
    numbers: HashMap<Process, u32, FixedState>,
    all: Vec<Process>,
}

impl Processes {
    fn number(&mut self, process: Option<Process>) -> u32 {
        let Some(process) = process else { return 0 };
        // Most sockets are owned by the process that owns the one before.
        if let Some(last) = self.all.last().filter(|last| **last == process) {
            debug_assert_eq!(self.numbers.get(last), Some(&(self.all.len() as u32)));
            return self.all.len() as u32;
        }
        *self.numbers.entry(process).or_insert_with(|| {
            self.all.push(process);
            self.all.len() as u32
        })
    }

    fn of(&self, number: u32) -> Option<Process> {
        self.all.get((number as usize).checked_sub(1)?).copied()
    }
}

/// Sockets that use ports, and the process that owns most of them.
#[derive(Debug, Clone, Copy, Default)]
struct Users {
    sockets: u32,
    /// Of these, connections in TIME_WAIT
    time_wait: u32,
    /// The number of the process that has more than half of them, if any has (Boyer and Moore's majority vote).
    candidate: u32,
    /// Sockets of the candidate that no socket of another process outweighs: it has at least so many.
    votes: u32,
}

impl Users {
    fn add(&mut self, owner: u32) {
        self.sockets += 1;
        if self.votes == 0 {
            self.candidate = owner;
        }
        if self.candidate == owner {
            self.votes += 1;
        } else {
            self.votes -= 1;
        }
    }

    /// The number of the process that owns at least half of the sockets.
    fn owner(&self) -> u32 {
        if self.votes >= self.sockets.div_ceil(2) {
            self.candidate
        } else {
            0
        }
    }
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
    pub(crate) fn count(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        let owner = entry
            .owners
            .and_then(|owners| owners.first())
            .map(|owner| owner.process);
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
        let owner = self.processes.number(owner);
        if socket.protocol != Protocol::Tcp {
            self.udp.entry(socket.netns).or_default().add(owner);
        } else if peer_port.0 != 0 && socket.state != State::Close {
            // A socket of IPv6 that speaks IPv4 uses a port of IPv4.
            let route = Route {
                netns: socket.netns,
                local: local.to_canonical(),
                peer: peer.to_canonical(),
                peer_port,
            };
            let hash = self.connections.hasher().hash_one(route);
            if self.connections.len() < ROUTES_MAX || self.connections.contains_key(&hash) {
                let users = self.connections.entry(hash).or_default();
                users.add(owner);
                users.time_wait += u32::from(socket.state == State::TimeWait);
                if users.sockets == ROUTE_SOCKETS_MIN {
                    self.routes.insert(hash, route);
                }
            } else {
                self.left_out += 1;
            }
        }
    }

    pub(crate) fn findings(&self, limits: &Limits) -> Vec<Finding> {
        let mut found = Vec::new();
        for (hash, route) in &self.routes {
            let Some(users) = self.connections.get(hash) else {
                continue;
            };
            let subject = Subject::Service {
                local: Endpoint::inet(route.local, Port(0)),
                peer: Endpoint::inet(route.peer, route.peer_port),
            };
            let finding = Finding::about(Rule::EphemeralPorts, route.netns, subject);
            let finding = self.used_up(finding, users, limits.of(Limit::EphemeralShare));
            found.extend(finding.map(|finding| {
                let peer = endpoint_filter(&Endpoint::inet(route.peer, Port(0)));
                let finding = finding
                    .fact("time_wait", Some(users.time_wait).filter(|count| *count > 0))
                    .sockeye(format!(
                        "flows -p 'dst = {peer} and dport = :{}'",
                        route.peer_port
                    ))
                    .inside(WIDER_RANGE);
                // It frees the ports of connections in TIME_WAIT only.
                let finding = if users.time_wait.saturating_mul(TIME_WAIT_FACTOR) >= users.sockets {
                    finding.inside("sysctl -w net.ipv4.tcp_tw_reuse=1")
                } else {
                    finding
                };
                finding.advice(
                    "keep connections open and use them again, or connect to or from further addresses",
                )
            }));
        }
        for (netns, users) in &self.udp {
            let finding = Finding::about(Rule::UdpPorts, *netns, Subject::Namespace);
            let finding = self.used_up(finding, users, limits.of(Limit::UdpPortsShare));
            found.extend(finding.map(|finding| finding.sockeye("sockets -uap").inside(WIDER_RANGE)));
        }
        found
    }

    /// Returns the finding if nearly all ports of its namespace's range are in use.
    fn used_up(&self, finding: Finding, users: &Users, least_share: u64) -> Option<Finding> {
        let used = users.sockets;
        let range = self.ranges.get(&finding.netns)?;
        let ports = (u64::from(range.last) + 1)
            .saturating_sub(range.first.into())
            .saturating_sub(range.reserved.into());
        let share = permille(used.into(), ports);
        (used >= ROUTE_SOCKETS_MIN && share >= least_share).then(|| Finding {
            sockets: used.into(),
            owner: self.processes.of(users.owner()),
            ..finding
                .with(severity_of_fill(share))
                .fact("used", used)
                .fact("ports", ports)
                .fact("share_permille", share)
        })
    }
}

/// One connection is not many, however narrow the range is.
const ROUTE_SOCKETS_MIN: u32 = 2;
/// Routes that are counted at most. Incoming connections to a port of this range need one each.
const ROUTES_MAX: usize = 300_000;
/// If a tenth of the ports is in TIME_WAIT, using them again helps.
const TIME_WAIT_FACTOR: u32 = 10;
const WIDER_RANGE: &str = "sysctl -w net.ipv4.ip_local_port_range='1024 65535'";
