//! What processes send and receive, from their connections of TCP and the counts of UDP. Pure.

use sockeye_model::{Comm, Flow, NetnsInode, Pid, Process};
use sockeye_wire::udp_bytes::{Key, Totals};
use std::collections::BTreeMap;
use std::time::Duration;

/// Traffic of a process, per second; `None` if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Traffic {
    pub(crate) tcp_sent: Option<f64>,
    pub(crate) tcp_received: Option<f64>,
    pub(crate) udp_sent: Option<f64>,
    pub(crate) udp_received: Option<f64>,
    pub(crate) retrans_segs: Option<f64>,
    pub(crate) opened: Option<f64>,
    pub(crate) closed: Option<f64>,
    /// Connections of TCP.
    pub(crate) connections: u64,
}

impl Traffic {
    /// Returns the sum of what is known in bytes per second.
    pub(crate) fn sum(&self) -> Option<f64> {
        [self.tcp_sent, self.tcp_received, self.udp_sent, self.udp_received]
            .into_iter()
            .fold(None, plus)
    }
}

/// Adds two rates; `None` only if both are unknown.
fn plus(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

/// Traffic by process.
#[derive(Debug, Default)]
pub(crate) struct ProcessTraffic {
    of: BTreeMap<Whose, ProcessEntry>,
}

/// What traffic is summed up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Whose {
    netns: Option<NetnsInode>,
    pid: Option<Pid>,
}

#[derive(Debug)]
struct ProcessEntry {
    process: Option<Process>,
    traffic: Traffic,
}

impl ProcessTraffic {
    /// Adds the connections of a process in one direction.
    pub(crate) fn add_flow(&mut self, flow: &Flow) {
        let traffic = self.traffic(flow.key.netns, flow.key.process);
        traffic.connections += u64::from(flow.connections);
        let Some(rates) = &flow.rates else { return };
        traffic.tcp_sent = plus(traffic.tcp_sent, rates.sent_bytes_per_s);
        traffic.tcp_received = plus(traffic.tcp_received, rates.received_bytes_per_s);
        traffic.retrans_segs = plus(traffic.retrans_segs, rates.retrans_segs_per_s);
        traffic.opened = plus(traffic.opened, rates.opened_per_s);
        traffic.closed = plus(traffic.closed, rates.closed_per_s);
    }

    /// Adds what was sent and received over UDP between two counts. Of processes that have moved nothing, only those with connections
    /// are there.
    pub(crate) fn add_udp(
        &mut self,
        before: &BTreeMap<Key, Totals>,
        now: &BTreeMap<Key, Totals>,
        elapsed: Duration,
        netns_of: impl Fn(NetnsInode) -> Option<Option<NetnsInode>>,
    ) {
        for entry in self.of.values_mut().filter(|entry| entry.process.is_some()) {
            (entry.traffic.udp_sent, entry.traffic.udp_received) = (Some(0.0), Some(0.0));
        }
        let per_s = |bytes: u64| Some(bytes as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE));
        for (key, totals) in now {
            let (sent, received) = since(before.get(key), totals);
            let Some(netns) = netns_of(NetnsInode(key.netns)).filter(|_| sent + received > 0) else {
                continue;
            };
            let process = (key.pid > 0).then(|| Process {
                pid: Pid(key.pid),
                pgid: None,
                comm: Comm::from_c(&totals.comm),
            });
            let traffic = self.traffic(netns, process);
            traffic.udp_sent = plus(traffic.udp_sent, per_s(sent));
            traffic.udp_received = plus(traffic.udp_received, per_s(received));
        }
    }

    /// Returns the processes by namespace and pid.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Option<NetnsInode>, Option<Process>, &Traffic)> {
        let entries = self.of.iter();
        entries.map(|(whose, entry)| (whose.netns, entry.process, &entry.traffic))
    }

    fn traffic(&mut self, netns: Option<NetnsInode>, process: Option<Process>) -> &mut Traffic {
        let whose = Whose {
            netns,
            pid: process.map(|process| process.pid),
        };
        let new = || ProcessEntry {
            process,
            traffic: Traffic::default(),
        };
        &mut self.of.entry(whose).or_insert_with(new).traffic
    }
}

/// Returns what was sent and received since a count. A process that made room for others meanwhile counts from 0 again.
fn since(before: Option<&Totals>, now: &Totals) -> (u64, u64) {
    match before {
        Some(before) if before.sent <= now.sent && before.received <= now.received => {
            (now.sent - before.sent, now.received - before.received)
        }
        _ => (now.sent, now.received),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Direction, FlowKey, Rates};

    fn key(pid: u32) -> Key {
        Key { pid, netns: 1 }
    }

    fn totals(sent: u64, received: u64) -> Totals {
        Totals {
            sent,
            received,
            comm: *b"unbound\0\0\0\0\0\0\0\0\0",
        }
    }

    fn flow(pid: Option<u32>, connections: u32, sent: f64) -> Flow {
        let mut flow = Flow::new(FlowKey {
            netns: None,
            direction: Direction::Active,
            local: None,
            peer: None,
            peer_prefix: None,
            port: None,
            process: pid.map(|pid| Process {
                pid: Pid(pid),
                pgid: None,
                comm: Comm::new(b"nginx"),
            }),
            uid: None,
            workload: None,
        });
        flow.connections = connections;
        flow.rates = Some(Rates {
            sent_bytes_per_s: Some(sent),
            ..Rates::default()
        });
        flow
    }

    /// A row: pid, connections, bytes sent over TCP and UDP per second.
    type Row = (Option<u32>, u64, Option<f64>, Option<f64>);

    fn rows(traffic: &ProcessTraffic) -> Vec<Row> {
        let row = |(_, process, traffic): (_, Option<Process>, &Traffic)| {
            let pid = process.map(|process| process.pid.0);
            (pid, traffic.connections, traffic.tcp_sent, traffic.udp_sent)
        };
        traffic.iter().map(row).collect()
    }

    #[test]
    fn both_directions_and_both_protocols_of_a_process_add_up() {
        let mut traffic = ProcessTraffic::default();
        for flow in [
            flow(Some(7), 2, 100.0),
            flow(Some(7), 1, 50.0),
            flow(None, 1, 9.0),
        ] {
            traffic.add_flow(&flow);
        }
        assert_eq!(
            rows(&traffic),
            [(None, 1, Some(9.0), None), (Some(7), 3, Some(150.0), None)]
        );
        let before = BTreeMap::from([(key(8), totals(1000, 0)), (key(9), totals(5, 5))]);
        let now = BTreeMap::from([
            (key(7), totals(10, 0)),
            (key(8), totals(3000, 400)),
            (key(9), totals(5, 5)),
        ]);
        traffic.add_udp(&before, &now, Duration::from_secs(2), |_| Some(None));
        assert_eq!(
            rows(&traffic),
            [
                (None, 1, Some(9.0), None),
                (Some(7), 3, Some(150.0), Some(5.0)),
                (Some(8), 0, None, Some(1000.0)),
            ]
        );
        assert_eq!(
            traffic.iter().last().and_then(|(.., traffic)| traffic.sum()),
            Some(1200.0)
        );
    }

    #[test]
    fn sockets_of_other_namespaces_do_not_count() {
        let mut traffic = ProcessTraffic::default();
        let now = BTreeMap::from([(key(8), totals(3000, 400))]);
        traffic.add_udp(&BTreeMap::new(), &now, Duration::from_secs(1), |_| None);
        assert_eq!(rows(&traffic), []);
    }

    #[test]
    fn entry_that_was_made_again_counts_from_zero() {
        assert_eq!(since(Some(&totals(1000, 1)), &totals(10, 2)), (10, 2));
        assert_eq!(since(None, &totals(10, 2)), (10, 2));
        assert_eq!(since(Some(&totals(4, 1)), &totals(10, 2)), (6, 1));
    }
}
