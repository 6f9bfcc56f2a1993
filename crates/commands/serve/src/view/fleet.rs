//! The map of many hosts: services or hosts, and what goes between them.

use sockeye_fleet::question::{Edge, EdgeEnd, ServiceEdge};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What the nodes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FleetBy {
    Service,
    Host,
}

impl FleetBy {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "service" => Some(Self::Service),
            "host" => Some(Self::Host),
            _ => None,
        }
    }
}

/// Who talks to whom.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FleetMap {
    /// Those with most bytes first.
    pub(crate) edges: Vec<FleetEdge>,
    /// Whether there are more.
    pub(crate) is_cut: bool,
}

/// What goes between two nodes, to one port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FleetEdge {
    pub(crate) client: String,
    pub(crate) server: String,
    pub(crate) port: u16,
    /// Pairs of addresses, and those that both ends saw.
    pub(crate) pairs: u64,
    pub(crate) pairs_of_both: u64,
    pub(crate) connections: u64,
    pub(crate) opened: u64,
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
    pub(crate) retrans_segs: u64,
    /// Mean of the median round trip times; `None`: unknown.
    pub(crate) rtt_us: Option<u64>,
}

/// Returns the map of services.
pub(crate) fn fleet_map_of_services(rows: Vec<ServiceEdge>, max: usize) -> FleetMap {
    let is_cut = rows.len() > max;
    let edges = rows.into_iter().take(max).map(|row| FleetEdge {
        client: row.client,
        server: row.server,
        port: row.port,
        pairs: row.edges,
        pairs_of_both: row.edges_of_both,
        connections: row.connections,
        opened: row.opened,
        request_bytes: row.request_bytes,
        response_bytes: row.response_bytes,
        retrans_segs: row.retrans_segs,
        rtt_us: Some(row.rtt_us_mean).filter(|us| *us > 0),
    });
    FleetMap {
        edges: edges.collect(),
        is_cut,
    }
}

/// Returns the map of hosts. An end that sent nothing has its address.
pub(crate) fn fleet_map_of_edges(rows: &[Edge], max: usize) -> FleetMap {
    let mut edges: BTreeMap<(String, String, u16), (FleetEdge, RoundTrips)> = BTreeMap::new();
    // Several services between two addresses are several edges, of which one end has the same figures.
    let mut seen_pairs = BTreeSet::new();
    for row in rows {
        let is_new = seen_pairs.insert((row.zone.as_str(), row.client, row.server, row.port));
        let retrans_segs = |end: &EdgeEnd| {
            if is_new || !end.is_of_all {
                end.retrans_segs
            } else {
                0
            }
        };
        let client = node(&row.client_end.host, row.client, &row.zone);
        let server = node(&row.server_end.host, row.server, &row.zone);
        let (edge, times) = edges
            .entry((client.clone(), server.clone(), row.port))
            .or_default();
        (edge.client, edge.server, edge.port) = (client, server, row.port);
        edge.pairs += u64::from(is_new);
        edge.pairs_of_both += u64::from(is_new && row.client_end.is_seen && row.server_end.is_seen);
        edge.connections += row.connections;
        edge.opened += row.opened;
        edge.request_bytes += row.request_bytes;
        edge.response_bytes += row.response_bytes;
        edge.retrans_segs += retrans_segs(&row.client_end) + retrans_segs(&row.server_end);
        let rtt_us = match row.client_end.rtt_us_mean {
            0 => row.server_end.rtt_us_mean,
            of_client => of_client,
        };
        times.add(rtt_us, row.connections);
    }
    let mut edges: Vec<FleetEdge> = edges
        .into_values()
        .map(|(edge, times)| FleetEdge {
            rtt_us: times.mean_us(),
            ..edge
        })
        .collect();
    edges.sort_by_key(|edge| std::cmp::Reverse(edge.request_bytes.saturating_add(edge.response_bytes)));
    let is_cut = edges.len() > max;
    edges.truncate(max);
    FleetMap { edges, is_cut }
}

/// Returns what an end is called: its host; without one the host that alone knows the address; else its address.
fn node(host: &str, address: IpAddr, zone: &str) -> String {
    if !host.is_empty() {
        host.to_owned()
    } else if address.is_unspecified() {
        "other".to_owned()
    } else if !zone.is_empty() {
        zone.to_owned()
    } else {
        address.to_canonical().to_string()
    }
}

/// The mean of known times, each as often as it has connections.
#[derive(Debug, Default)]
struct RoundTrips {
    sum_us: u64,
    count: u64,
}

impl RoundTrips {
    fn add(&mut self, us: u64, connections: u64) {
        if us > 0 {
            let connections = connections.max(1);
            self.sum_us = self.sum_us.saturating_add(us.saturating_mul(connections));
            self.count += connections;
        }
    }

    fn mean_us(&self) -> Option<u64> {
        self.sum_us.checked_div(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(host: &str, rtt_us_mean: u64) -> EdgeEnd {
        EdgeEnd {
            is_seen: !host.is_empty(),
            host: host.to_owned(),
            rtt_us_mean,
            retrans_segs: 1,
            ..EdgeEnd::default()
        }
    }

    fn edge(client: (&str, [u8; 4]), server: (&str, [u8; 4]), rtt_us: u64, bytes: u64) -> Edge {
        Edge {
            zone: String::new(),
            client: client.1.into(),
            server: server.1.into(),
            port: 80,
            client_end: end(client.0, rtt_us),
            server_end: end(server.0, 0),
            request_bytes: bytes,
            response_bytes: 0,
            opened: 1,
            connections: 1,
            first_s: 0,
            last_s: 0,
            via: None,
            of_all: None,
        }
    }

    #[test]
    fn addresses_of_a_host_are_one_node_and_strangers_have_theirs() {
        let map = fleet_map_of_edges(
            &[
                edge(("web1", [10, 0, 0, 1]), ("db1", [10, 0, 0, 2]), 100, 5),
                edge(("web1", [10, 0, 0, 3]), ("db1", [10, 0, 0, 2]), 300, 6),
                edge(("", [192, 0, 2, 1]), ("db1", [10, 0, 0, 2]), 0, 90),
                edge(("", [0, 0, 0, 0]), ("db1", [10, 0, 0, 2]), 0, 1),
            ],
            2,
        );
        assert!(map.is_cut);
        let shown: Vec<_> = map
            .edges
            .iter()
            .map(|edge| (edge.client.as_str(), edge.pairs, edge.pairs_of_both, edge.rtt_us))
            .collect();
        assert_eq!(shown, [("192.0.2.1", 1, 0, None), ("web1", 2, 2, Some(200))]);
    }

    #[test]
    fn services_of_a_client_are_one_pair() {
        let part = |retrans_segs| {
            let mut part = edge(("web1", [10, 0, 0, 1]), ("db1", [10, 0, 0, 2]), 100, 5);
            part.client_end.retrans_segs = retrans_segs;
            part.server_end.is_of_all = true;
            part.server_end.retrans_segs = 40;
            part
        };
        let map = fleet_map_of_edges(&[part(1), part(2)], 2);
        let FleetEdge {
            pairs,
            pairs_of_both,
            request_bytes,
            retrans_segs,
            ..
        } = map.edges[0];
        assert_eq!(
            (pairs, pairs_of_both, request_bytes, retrans_segs),
            (1, 1, 10, 43)
        );
    }

    #[test]
    fn address_that_only_a_host_knows_is_that_host() {
        assert_eq!(node("", [127, 0, 0, 1].into(), "web1"), "web1");
        assert_eq!(node("", [0, 0, 0, 0].into(), "web1"), "other");
    }
}
