//! Finds programs that open more and more connections to one service and neither use nor close the earlier ones.

use crate::finding::{Example, Facts, Subject};
use crate::socket_counters::SocketCounters;
use crate::{Finding, Limit, Limits, Rule, remedy};
use foldhash::fast::FixedState;
use sockeye_model::{Entry, NetnsInode, Process, State};
use std::collections::HashMap;
use std::hash::BuildHasher as _;

/// The established connections of each program to each service.
#[derive(Debug, Default)]
pub(crate) struct ConnectionGrowth {
    services: HashMap<ServiceHash, Numbers, FixedState>,
    /// Of those with many connections: most services have one or two.
    details: HashMap<ServiceHash, Details, FixedState>,
}

/// Numbers of connections by program and service, for the next sample.
pub(crate) type ConnectionCounts = HashMap<ServiceHash, u32, FixedState>;

/// A hash of a program and a service that it uses: each incoming connection has a service of its own, its peer, and 150 bytes for each are
/// many. Two services with the same hash would be counted as one.
type ServiceHash = u64;

/// How many connections there are.
#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    /// Those that were there in the earlier sample, and were neither written nor read since
    unused: u32,
    /// Those that were there, and were used
    used: u32,
    /// Those that were not
    new: u32,
}

/// What a finding needs in addition.
#[derive(Debug)]
struct Details {
    netns: Option<NetnsInode>,
    owner: Process,
    examples: Vec<Example>,
}

impl Numbers {
    const fn total(self) -> u32 {
        self.unused + self.used + self.new
    }
}

impl ConnectionGrowth {
    /// Adds a connection with its counters. `earlier`: those of the earlier sample, if it was there.
    pub(crate) fn add(
        &mut self,
        entry: &Entry<'_>,
        counters: &SocketCounters,
        earlier: Option<&SocketCounters>,
        limits: &Limits,
    ) {
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
        let numbers = self.services.entry(service).or_default();
        let is_unused = earlier.is_some_and(|earlier| is_unused(counters, earlier));
        match earlier {
            None => numbers.new += 1,
            Some(_) if is_unused => numbers.unused += 1,
            Some(_) => numbers.used += 1,
        }
        let (total, least) = (
            u64::from(numbers.total()),
            limits.of(Limit::ConnectionGrowthCount),
        );
        // An example takes more than all else here.
        if total < least.min(DETAILS_MIN) {
            return;
        }
        let details = self.details.entry(service).or_insert_with(|| Details {
            netns: socket.netns,
            owner: owner.process,
            examples: Vec::new(),
        });
        let is_example = is_unused || details.examples.is_empty() && total >= least;
        if is_example && details.examples.len() < EXAMPLES_MAX {
            let facts = Facts::NONE.with("idle_ms", socket.idle_ms());
            details.examples.push(Example::new(socket, facts));
        }
    }

    /// Returns a finding for each program whose connections to a service only grow in number.
    pub(crate) fn findings(&self, before: &ConnectionCounts, limits: &Limits) -> Vec<Finding> {
        let grown = self.details.iter().filter_map(|(service, details)| {
            let (before, numbers) = (before.get(service).copied()?, self.services.get(service)?);
            let stayed = numbers.unused + numbers.used;
            let total = u64::from(stayed) + u64::from(numbers.new);
            let applies = before <= stayed
                && numbers.used.saturating_mul(USED_FACTOR) <= numbers.unused
                && total >= limits.of(Limit::ConnectionGrowthCount)
                && u64::from(numbers.new) >= limits.of(Limit::ConnectionGrowthNew).max(1);
            applies.then(|| {
                let mut finding = Finding {
                    owner: Some(details.owner),
                    facts: Facts::NONE
                        .with("connections", total)
                        .with("opened", u64::from(numbers.new))
                        .with("closed", 0_u64)
                        .with("unused", u64::from(numbers.unused)),
                    sockets: total,
                    examples: details.examples.clone(),
                    ..Finding::about(Rule::ConnectionGrowth, details.netns, Subject::Sockets)
                };
                finding.remedies = remedy::remedies(&finding);
                finding
            })
        });
        grown.collect()
    }

    /// The numbers of connections, for the next sample.
    pub(crate) fn into_counts(self) -> ConnectionCounts {
        // One by one, since both are large.
        let mut counts =
            ConnectionCounts::with_capacity_and_hasher(self.services.len(), FixedState::default());
        counts.extend(
            self.services
                .into_iter()
                .map(|(service, numbers)| (service, numbers.total())),
        );
        counts
    }
}

fn is_unused(now: &SocketCounters, earlier: &SocketCounters) -> bool {
    (now.sent_bytes, now.received_bytes) == (earlier.sent_bytes, earlier.received_bytes)
}

/// Programs and services that are counted. Each incoming connection has a peer of its own.
const SERVICES_MAX: usize = 100_000;
/// So many times more connections must be unused than used: the newest ones had their request when they were seen first.
const USED_FACTOR: u32 = 10;
/// A service with fewer connections has no details, unless so few are a finding.
const DETAILS_MIN: u64 = 8;
/// Sockets that are shown.
const EXAMPLES_MAX: usize = 5;
