//! Finds programs that open more and more connections to one service and neither use nor close the earlier ones.

use crate::finding::{Example, Facts, Subject};
use crate::socket_counters::SocketCounters;
use crate::{Finding, Limit, Limits, Rule, remedy};
use foldhash::fast::FixedState;
use sockeye_model::{Entry, NetnsInode, Process, Socket, State};
use std::collections::HashMap;
use std::hash::BuildHasher as _;

/// The established connections of each program to each service.
#[derive(Debug, Default)]
pub(crate) struct ConnectionGrowth {
    services: HashMap<ServiceHash, Connections, FixedState>,
}

/// Numbers of connections by program and service, for the next sample.
pub(crate) type ConnectionCounts = HashMap<ServiceHash, u32, FixedState>;

/// A hash of a program and a service that it uses: each incoming connection has a service of its own, its peer, and 150 bytes for each are
/// many. Two services with the same hash would be counted as one.
type ServiceHash = u64;

#[derive(Debug)]
struct Connections {
    netns: Option<NetnsInode>,
    owner: Process,
    /// Those that were there in the earlier sample, and were neither written nor read since
    unused: u32,
    /// Those that were there, and were used
    used: u32,
    /// Those that were not
    new: u32,
    examples: Vec<Example>,
}

impl Connections {
    const fn of(netns: Option<NetnsInode>, owner: Process) -> Self {
        Self {
            netns,
            owner,
            unused: 0,
            used: 0,
            new: 0,
            examples: Vec::new(),
        }
    }
}

impl ConnectionGrowth {
    /// Adds a connection. `earlier`: its counters in the earlier sample, if it was there.
    pub(crate) fn add(&mut self, entry: &Entry<'_>, earlier: Option<&SocketCounters>) {
        let socket = entry.socket;
        let owner = entry.owners.and_then(|owners| owners.first());
        let (Some(owner), State::Established, Some(_)) = (owner, socket.state, socket.inode) else {
            return;
        };
        let service = self
            .services
            .hasher()
            .hash_one((socket.netns, owner.process, socket.peer));
        if self.services.len() >= SERVICES_MAX && !self.services.contains_key(&service) {
            return;
        }
        let connections = self
            .services
            .entry(service)
            .or_insert_with(|| Connections::of(socket.netns, owner.process));
        match earlier {
            None => connections.new += 1,
            Some(earlier) if is_unused(socket, earlier) => {
                connections.unused += 1;
                // Most services have a single connection, and an example takes more than all else here.
                if connections.unused > 1 && connections.examples.len() < EXAMPLES_MAX {
                    let idle_ms = socket.idle_ms();
                    let facts = Facts::NONE.with("idle_ms", idle_ms);
                    connections.examples.push(Example::new(socket, facts));
                }
            }
            Some(_) => connections.used += 1,
        }
    }

    /// Returns a finding for each program whose connections to a service only grow in number.
    pub(crate) fn findings(&self, before: &ConnectionCounts, limits: &Limits) -> Vec<Finding> {
        let grown = self.services.iter().filter_map(|(service, connections)| {
            let before = before.get(service).copied()?;
            let stayed = connections.unused + connections.used;
            let total = u64::from(stayed) + u64::from(connections.new);
            let applies = before <= stayed
                && connections.used.saturating_mul(USED_FACTOR) <= connections.unused
                && total >= limits.of(Limit::ConnectionGrowthCount)
                && u64::from(connections.new) >= limits.of(Limit::ConnectionGrowthNew).max(1);
            applies.then(|| {
                let mut finding = Finding {
                    owner: Some(connections.owner),
                    facts: Facts::NONE
                        .with("connections", total)
                        .with("opened", u64::from(connections.new))
                        .with("closed", 0_u64)
                        .with("unused", u64::from(connections.unused)),
                    sockets: total,
                    examples: connections.examples.clone(),
                    ..Finding::about(Rule::ConnectionGrowth, connections.netns, Subject::Sockets)
                };
                finding.remedies = remedy::remedies(&finding);
                finding
            })
        });
        grown.collect()
    }

    /// The numbers of connections, for the next sample.
    pub(crate) fn into_counts(self) -> ConnectionCounts {
        let count = |connections: &Connections| connections.unused + connections.used + connections.new;
        let services = self.services.iter();
        services
            .map(|(service, connections)| (*service, count(connections)))
            .collect()
    }
}

fn is_unused(socket: &Socket, earlier: &SocketCounters) -> bool {
    let now = SocketCounters::of(socket);
    (now.sent_bytes, now.received_bytes) == (earlier.sent_bytes, earlier.received_bytes)
}

/// Programs and services that are counted. Each incoming connection has a peer of its own.
const SERVICES_MAX: usize = 100_000;
/// So many times more connections must be unused than used: the newest ones had their request when they were seen first.
const USED_FACTOR: u32 = 10;
/// Sockets that are shown.
const EXAMPLES_MAX: usize = 5;
