//! The map of many hosts as nodes and edges.

use super::moments::push_list;
use crate::view::FleetMap;
use sockeye_fleet::question::TimeRange;
use sockeye_output::{Envelope, JsonObject};
use std::collections::BTreeMap;

/// Appends a map of many hosts: `docs/schema/serve.schema.json`, `$defs/fleet_map`.
pub(crate) fn push_fleet_map(out: &mut Vec<u8>, now: &Envelope, range: &TimeRange, map: &FleetMap) {
    let ends = map.edges.iter().flat_map(|edge| [&edge.client, &edge.server]);
    let mut numbers: BTreeMap<&String, u64> = ends.map(|node| (node, 0)).collect();
    for (number, of) in (0..).zip(numbers.values_mut()) {
        *of = number;
    }
    let nodes: Vec<&String> = numbers.keys().copied().collect();
    let mut object = JsonObject::begin(out);
    now.push(&mut object, "fleet_map");
    object.number("from_us", Some(range.since_s * 1_000_000));
    object.number("to_us", Some(range.until_s * 1_000_000));
    push_list(object.key("nodes"), &nodes, |out, node| {
        let mut fields = JsonObject::begin(out);
        fields.text("label", Some(node));
        fields.end();
    });
    push_list(object.key("edges"), &map.edges, |out, edge| {
        let mut fields = JsonObject::begin(out);
        fields.number("client_node", numbers.get(&edge.client).copied());
        fields.number("server_node", numbers.get(&edge.server).copied());
        for (name, number) in [
            ("port", u64::from(edge.port)),
            ("pairs", edge.pairs),
            ("pairs_of_both", edge.pairs_of_both),
            ("connections_max", edge.connections),
            ("opened", edge.opened),
            ("request_bytes", edge.request_bytes),
            ("response_bytes", edge.response_bytes),
            ("retrans_segs", edge.retrans_segs),
        ] {
            fields.number(name, Some(number));
        }
        fields.number("rtt_us_mean", edge.rtt_us);
        fields.end();
    });
    object.boolean("is_cut", Some(map.is_cut));
    object.end();
}
