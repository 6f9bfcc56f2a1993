//! Name servers that do not answer. The kernel counts the datagrams of a UDP socket neither sent nor received, but those
//! of its namespace: if queries were sent and nothing at all came in, no query was answered.

use crate::finding::{Example, Facts, Subject};
use crate::{Finding, Rule};
use foldhash::fast::FixedState;
use sockeye_model::{Counter, Endpoint, Entry, NetnsInode, Process, Protocol, Vitals};
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

/// Sockets that are connected to a name server: a resolver closes them when it has its answer.
#[derive(Debug, Default)]
pub(crate) struct Resolvers {
    servers: HashMap<Server, Waiting, FixedState>,
}

/// A name server, as one namespace asks it.
pub(crate) type Server = (Option<NetnsInode>, IpAddr);

#[derive(Debug, Default)]
struct Waiting {
    sockets: u64,
    owners: BTreeSet<Process>,
    examples: Vec<Example>,
}

impl Resolvers {
    /// Adds a UDP socket.
    pub(crate) fn add(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        let (Endpoint::Inet { ip, port }, Protocol::Udp) = (socket.peer, socket.protocol) else {
            return;
        };
        let server = (socket.netns, ip.to_canonical());
        let is_known = self.servers.len() < SERVERS_MAX || self.servers.contains_key(&server);
        if port.0 != DNS || !is_known {
            return;
        }
        let waiting = self.servers.entry(server).or_default();
        waiting.sockets += 1;
        let owner = entry.owners.and_then(|owners| owners.first());
        waiting.owners.extend(owner.map(|owner| owner.process));
        if waiting.examples.len() < EXAMPLES_MAX {
            waiting.examples.push(Example::new(socket, Facts::NONE));
        }
    }

    /// The name servers that are asked, for the next sample.
    pub(crate) fn into_servers(self) -> BTreeSet<Server> {
        self.servers.into_keys().collect()
    }

    /// Returns a finding for each name server that was asked in both samples and does not answer.
    pub(crate) fn findings<'a>(
        &self,
        before: &BTreeSet<Server>,
        elapsed: Duration,
        counters_of: &dyn Fn(Option<NetnsInode>) -> Option<(&'a Vitals, &'a Vitals)>,
    ) -> Vec<Finding> {
        let mut found = Vec::new();
        for (&(netns, ip), waiting) in &self.servers {
            let Some((now, earlier)) = counters_of(netns).filter(|_| before.contains(&(netns, ip))) else {
                continue;
            };
            let since = |counters: [Counter; 2]| {
                let each = counters.map(|counter| {
                    let now = now.counters.value(counter)?;
                    now.checked_sub(earlier.counters.value(counter)?)
                });
                // Without IPv6 its counters do not exist.
                each[0].map(|count| count.saturating_add(each[1].unwrap_or(0)))
            };
            let sent = since([Counter::UdpOutDatagrams, Counter::Udp6OutDatagrams]);
            let received = since([Counter::UdpInDatagrams, Counter::Udp6InDatagrams]);
            if sent.is_some_and(|sent| sent > 0) && received == Some(0) && elapsed >= PATIENCE {
                let owner = waiting
                    .owners
                    .first()
                    .copied()
                    .filter(|_| waiting.owners.len() == 1);
                found.push(
                    Finding {
                        owner,
                        owners: waiting.owners.len() as u64,
                        sockets: waiting.sockets,
                        examples: waiting.examples.clone(),
                        ..Finding::about(Rule::DnsUnanswered, netns, Subject::Sockets)
                    }
                    .fact("datagrams_sent", sent)
                    .fact("datagrams_received", received)
                    .inside(format!("dig @{ip} +time=2 +tries=1 ."))
                    .inside(format!("ip route get {ip}"))
                    .advice("look whether the name server runs and whether a firewall drops its answers; another one is set in /etc/resolv.conf"),
                );
            }
        }
        found
    }
}

const DNS: u16 = 53;
/// A query that has waited for less may still be answered.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Name servers that are kept.
const SERVERS_MAX: usize = 1_000;
/// Sockets that are shown.
const EXAMPLES_MAX: usize = 5;
