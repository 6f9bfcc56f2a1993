//! Finds programs that open more and more connections to one service and neither use nor close the earlier ones.

use crate::finding::{Example, Facts, Subject};
use crate::socket_counters::SocketCounters;
use crate::{Finding, Limit, Limits, Rule, remedy};
use foldhash::fast::FixedState;
use sockeye_model::{Endpoint, Entry, NetnsInode, Process, Socket, State};
use std::collections::HashMap;

/// The established connections of each program to each service.
#[derive(Debug, Default)]
pub(crate) struct ConnectionGrowth {
    services: HashMap<Service, Connections, FixedState>,
}

/// Numbers of connections by program and service, for the next sample.
pub(crate) type ConnectionCounts = HashMap<Service, u64, FixedState>;

/// A program and a service that it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Service {
    netns: Option<NetnsInode>,
    owner: Process,
    peer: Endpoint,
}

#[derive(Debug, Default)]
struct Connections {
    /// Those that were there in the earlier sample, and were neither written nor read since
    unused: u64,
    /// Those that were there, and were used
    used: u64,
    /// Those that were not
    new: u64,
    examples: Vec<Example>,
}

impl ConnectionGrowth {
    /// Adds a connection. `earlier`: its counters in the earlier sample, if it was there.
    pub(crate) fn add(&mut self, entry: &Entry<'_>, earlier: Option<&SocketCounters>) {
        let socket = entry.socket;
        let owner = entry.owners.and_then(|owners| owners.first());
        let (Some(owner), State::Established, Some(_)) = (owner, socket.state, socket.inode) else {
            return;
        };
        let service = Service {
            netns: socket.netns,
            owner: owner.process,
            peer: socket.peer,
        };
        if self.services.len() >= SERVICES_MAX && !self.services.contains_key(&service) {
            return;
        }
        let connections = self.services.entry(service).or_default();
        match earlier {
            None => connections.new += 1,
            Some(earlier) if is_unused(socket, earlier) => {
                connections.unused += 1;
                if connections.examples.len() < EXAMPLES_MAX {
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
            let total = stayed + connections.new;
            let applies = before <= stayed
                && connections.used.saturating_mul(USED_FACTOR) <= connections.unused
                && total >= limits.of(Limit::ConnectionGrowthCount)
                && connections.new >= limits.of(Limit::ConnectionGrowthNew).max(1);
            applies.then(|| {
                let mut finding = Finding {
                    owner: Some(service.owner),
                    facts: Facts::NONE
                        .with("connections", total)
                        .with("opened", connections.new)
                        .with("closed", 0_u64)
                        .with("unused", connections.unused),
                    sockets: total,
                    examples: connections.examples.clone(),
                    ..Finding::about(Rule::ConnectionGrowth, service.netns, Subject::Sockets)
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
const USED_FACTOR: u64 = 10;
/// Sockets that are shown.
const EXAMPLES_MAX: usize = 5;
