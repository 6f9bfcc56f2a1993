//! Who talks to whom, at one moment: nodes for owners, containers or ports of this host and for its peers, edges from clients to
//! servers.

use crate::moments::Moment;
use crate::view::selection::PROTOCOL;
use sockeye_filter::Filter;
use sockeye_model::{Direction, Flow, FlowKey, Port};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// What the nodes of this host are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapBy {
    Owner,
    Container,
    Port,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Node {
    /// Processes of this name; empty if unknown.
    Owner(String),
    /// A container.
    Container(String),
    /// Processes of this host that are in no container, or of which that is unknown.
    Host,
    /// A service of this host.
    Port(Port),
    /// A peer that is not on this host.
    Peer(Option<IpAddr>),
    /// A service of a peer.
    PeerPort(Option<IpAddr>, Port),
}

/// What goes from one node to another; `None`: unknown.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Edge {
    pub(crate) connections: u64,
    pub(crate) bytes_per_s: Option<f64>,
    pub(crate) retrans_segs_per_s: Option<f64>,
    /// The longest median of its flows.
    pub(crate) rtt_us: Option<u32>,
}

/// Edges from clients to servers, those with the most bytes first.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Map {
    pub(crate) edges: Vec<(Node, Node, Edge)>,
    /// Edges that are not in it.
    pub(crate) left_out: usize,
}

impl MapBy {
    /// Returns what a word means.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "owner" => Some(Self::Owner),
            "container" => Some(Self::Container),
            "port" => Some(Self::Port),
            _ => None,
        }
    }
}

/// Draws the flows of a moment that match a filter.
pub(crate) fn map(moment: &Moment, filter: &Filter, by: MapBy) -> Map {
    let matching = |flow: &Flow| filter.is_empty() || filter.matches_flow(flow, PROTOCOL) == Some(true);
    let flows: Vec<Flow> = moment.flows.iter().filter(matching).collect();
    let container = |flow: &Flow| {
        let mut owners = flow.owners.iter();
        let name = owners.find_map(|process| moment.containers.get(&process.pid))?;
        Some(name.to_string())
    };
    draw(&flows, by, &container)
}

fn draw(flows: &[Flow], by: MapBy, container: &dyn Fn(&Flow) -> Option<String>) -> Map {
    let node = |flow: &Flow| here(flow, by, container);
    // The other ends that are on this host too.
    let passive = flows
        .iter()
        .filter(|flow| flow.key.direction == Direction::Passive);
    let mut servers: HashMap<_, Vec<(&Flow, bool)>> = HashMap::new();
    for flow in passive {
        servers.entry(ends(&flow.key)).or_default().push((flow, false));
    }
    let mut edges: BTreeMap<(Node, Node), Edge> = BTreeMap::new();
    for flow in flows
        .iter()
        .filter(|flow| flow.key.direction == Direction::Active)
    {
        // Namespaces may have the same addresses: of several servers that in its own, else the first. Loopback does not leave its own.
        let same = servers.get_mut(&ends(&flow.key)).and_then(|all| {
            let own = all
                .iter()
                .position(|(server, _)| server.key.netns == flow.key.netns);
            let is_loopback = flow.key.peer.is_some_and(|ip| ip.to_canonical().is_loopback());
            all.get_mut(own.or((!is_loopback).then_some(0))?)
        });
        let server = match same {
            Some((server, is_drawn)) => {
                *is_drawn = true;
                node(server)
            }
            None => there(&flow.key, by),
        };
        edges.entry((node(flow), server)).or_default().add(flow);
    }
    for (flow, is_drawn) in servers.values().flatten() {
        if !is_drawn {
            edges
                .entry((there(&flow.key, by), node(flow)))
                .or_default()
                .add(flow);
        }
    }
    let mut edges: Vec<_> = edges
        .into_iter()
        .map(|((from, to), edge)| (from, to, edge))
        .collect();
    edges.sort_by(|(.., one), (.., other)| {
        let weight = |edge: &Edge| (edge.bytes_per_s.unwrap_or(0.0), edge.connections);
        weight(other)
            .partial_cmp(&weight(one))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let left_out = edges.len().saturating_sub(EDGES_MAX);
    edges.truncate(EDGES_MAX);
    Map { edges, left_out }
}

impl Edge {
    fn add(&mut self, flow: &Flow) {
        self.connections += u64::from(flow.connections);
        if let Some(rates) = &flow.rates {
            for bytes in [rates.sent_bytes_per_s, rates.received_bytes_per_s]
                .into_iter()
                .flatten()
            {
                *self.bytes_per_s.get_or_insert(0.0) += bytes;
            }
            if let Some(segs) = rates.retrans_segs_per_s {
                *self.retrans_segs_per_s.get_or_insert(0.0) += segs;
            }
        }
        self.rtt_us = self
            .rtt_us
            .max(flow.totals.and_then(|totals| totals.rtt_us_median));
    }
}

/// Returns the client, the server and its port.
const fn ends(key: &FlowKey) -> (Option<IpAddr>, Option<IpAddr>, Option<Port>) {
    match key.direction {
        Direction::Active => (key.local, key.peer, key.port),
        Direction::Passive => (key.peer, key.local, key.port),
    }
}

/// Returns the node of the end that is on this host.
fn here(flow: &Flow, by: MapBy, container: &dyn Fn(&Flow) -> Option<String>) -> Node {
    match (by, flow.key.direction, flow.key.port) {
        (MapBy::Container, ..) => container(flow).map_or(Node::Host, Node::Container),
        (MapBy::Port, Direction::Passive, Some(port)) => Node::Port(port),
        (MapBy::Port, ..) => Node::Host,
        (MapBy::Owner, ..) => {
            let first = flow.owners.first();
            Node::Owner(first.map_or_else(String::new, |process| {
                String::from_utf8_lossy(process.comm.as_bytes()).into_owned()
            }))
        }
    }
}

/// Returns the node of the other end.
const fn there(key: &FlowKey, by: MapBy) -> Node {
    match (by, key.direction, key.port) {
        (MapBy::Port, Direction::Active, Some(port)) => Node::PeerPort(key.peer, port),
        _ => Node::Peer(key.peer),
    }
}

/// Edges that are drawn.
const EDGES_MAX: usize = 150;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Comm, NetnsInode, Pid, Process, Rates};

    fn flow(direction: Direction, local: u8, peer: u8, owner: &str, sent: f64) -> Flow {
        let mut flow = Flow::new(FlowKey {
            netns: None,
            direction,
            local: Some([10, 0, 0, local].into()),
            peer: Some([10, 0, 0, peer].into()),
            peer_prefix: None,
            port: Some(Port(5432)),
            process: None,
            uid: None,
            workload: None,
        });
        flow.connections = 2;
        flow.owners.push(Process {
            pid: Pid(7),
            pgid: None,
            comm: Comm::new(owner.as_bytes()),
        });
        flow.rates = Some(Rates {
            sent_bytes_per_s: Some(sent),
            ..Rates::default()
        });
        flow
    }

    fn edges(flows: &[Flow], by: MapBy) -> Vec<(Node, Node, u64)> {
        let map = draw(flows, by, &|_| None);
        map.edges
            .into_iter()
            .map(|(from, to, edge)| (from, to, edge.connections))
            .collect()
    }

    #[test]
    fn both_ends_on_this_host_are_one_edge() {
        let flows = [
            flow(Direction::Active, 1, 2, "web", 5.0),
            flow(Direction::Passive, 2, 1, "postgres", 0.0),
        ];
        let expected = [(
            Node::Owner("web".to_owned()),
            Node::Owner("postgres".to_owned()),
            2,
        )];
        assert_eq!(edges(&flows, MapBy::Owner), expected);
        assert_eq!(
            edges(&flows, MapBy::Port),
            [(Node::Host, Node::Port(Port(5432)), 2)]
        );
    }

    #[test]
    fn loopback_of_each_namespace_has_its_own_server() {
        let mut flows = Vec::new();
        for (netns, client, server) in [(1, "app", "redis"), (2, "web", "postgres")] {
            for (direction, owner) in [(Direction::Active, client), (Direction::Passive, server)] {
                let mut flow = flow(direction, 1, 1, owner, 0.0);
                flow.key.netns = Some(NetnsInode(netns));
                (flow.key.local, flow.key.peer) = (Some([127, 0, 0, 1].into()), Some([127, 0, 0, 1].into()));
                flows.push(flow);
            }
        }
        let mut found = edges(&flows, MapBy::Owner);
        found.sort();
        let owner = |name: &str| Node::Owner(name.to_owned());
        assert_eq!(
            found,
            [
                (owner("app"), owner("redis"), 2),
                (owner("web"), owner("postgres"), 2)
            ]
        );
    }

    #[test]
    fn edges_go_from_client_to_server_with_the_most_bytes_first() {
        let peer = |last| Some(IpAddr::from([10, 0, 0, last]));
        let flows = [
            flow(Direction::Passive, 1, 8, "web", 1.0),
            flow(Direction::Active, 1, 9, "web", 5.0),
        ];
        let web = || Node::Owner("web".to_owned());
        let expected = [(web(), Node::Peer(peer(9)), 2), (Node::Peer(peer(8)), web(), 2)];
        assert_eq!(edges(&flows, MapBy::Owner), expected);
        let by_port = edges(&flows, MapBy::Port);
        assert_eq!(by_port[0], (Node::Host, Node::PeerPort(peer(9), Port(5432)), 2));
    }

    #[test]
    fn number_of_edges_is_bounded() {
        let flows: Vec<Flow> = (0..=255)
            .map(|peer| flow(Direction::Active, 1, peer, "web", 0.0))
            .collect();
        let map = draw(&flows, MapBy::Owner, &|_| None);
        assert_eq!((map.edges.len(), map.left_out), (EDGES_MAX, 256 - EDGES_MAX));
    }
}
