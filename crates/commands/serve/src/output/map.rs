//! The map as nodes and edges.

use super::moments::push_list;
use crate::moments::Moment;
use crate::view::{Map, Node, PROTOCOL};
use sockeye_model::{Names, Port};
use sockeye_output::JsonObject;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Appends a map: `docs/schema/serve.schema.json`, `$defs/map`.
pub(crate) fn push_map(out: &mut Vec<u8>, moment: &Moment, map: &Map, names: &dyn Names) {
    let ends = map.edges.iter().flat_map(|(from, to, _)| [from, to]);
    let mut numbers: BTreeMap<&Node, u64> = ends.map(|node| (node, 0)).collect();
    for (number, of) in (0..).zip(numbers.values_mut()) {
        *of = number;
    }
    let nodes: Vec<&Node> = numbers.keys().copied().collect();
    let mut object = JsonObject::begin(out);
    object.word("type", "map");
    object.number("time_us", Some(moment.time_us()));
    push_list(object.key("nodes"), &nodes, |out, node| {
        push_node(out, node, names);
    });
    push_list(object.key("edges"), &map.edges, |out, (from, to, edge)| {
        let mut fields = JsonObject::begin(out);
        fields.number("client_node", numbers.get(from).copied());
        fields.number("server_node", numbers.get(to).copied());
        fields.number("connections", Some(edge.connections));
        for (name, value) in [
            ("transferred_bytes_per_s", edge.bytes_per_s),
            ("retrans_segs_per_s", edge.retrans_segs_per_s),
        ] {
            if let Some(value) = value {
                fields.float(name, value);
            }
        }
        fields.number("rtt_us", edge.rtt_us);
        fields.end();
    });
    object.number("edges_left_out", Some(map.left_out as u64));
    object.end();
}

fn push_node(out: &mut Vec<u8>, node: &Node, names: &dyn Names) {
    let service = |port: &Port| match names.service(PROTOCOL, *port) {
        Some(name) => format!("{}/{name}", port.0),
        None => port.0.to_string(),
    };
    let host = |ip: &Option<IpAddr>| ip.map_or_else(|| "many".to_owned(), |ip| ip.to_string());
    let (kind, label) = match node {
        Node::Owner(name) if name.is_empty() => ("owner", "unknown process".to_owned()),
        Node::Owner(name) => ("owner", name.clone()),
        Node::Container(name) => ("container", name.clone()),
        Node::Host => ("host", "this host".to_owned()),
        Node::Port(port) => ("port", service(port)),
        Node::Peer(ip) => ("peer", host(ip)),
        Node::PeerPort(ip, port) => ("peer", format!("{} {}", host(ip), service(port))),
    };
    let mut fields = JsonObject::begin(out);
    fields.word("kind", kind);
    fields.text("label", Some(&label));
    fields.end();
}
