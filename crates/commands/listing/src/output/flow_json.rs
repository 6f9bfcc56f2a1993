//! A flow as a JSON object: `docs/schema/flows.schema.json`, `$defs/flow`.

use crate::output::flow_writer::FlowLayout;
use sockeye_model::{Direction, Flow, Names, Rates, State, Totals};
use sockeye_output::address::push_ip;
use sockeye_output::format::Format;
use sockeye_output::json::Object;
use sockeye_output::socket_json::push_process_fields;
use std::net::IpAddr;

/// Appends a flow with everything that is known of it.
pub(crate) fn push(out: &mut Vec<u8>, flow: &Flow, names: &dyn Names, layout: &FlowLayout) {
    let key = &flow.key;
    let mut object = Object::begin(out);
    if layout.format == Format::Jsonl {
        object.number("sample", layout.sample);
    }
    object.word("direction", direction_name(key.direction));
    if let Some(inode) = key.netns {
        object.number("netns_inode", Some(inode.0));
        object.text("netns", names.netns(inode));
    }
    push_address(&mut object, "local_ip", "local_host", key.local, names);
    push_address(&mut object, "peer_ip", "peer_host", key.peer, names);
    object.number("peer_prefix_bits", key.peer_prefix);
    if let Some(port) = key.port {
        object.number("port", Some(port.0));
        object.text("service", names.service(layout.protocol, port));
    }
    if let Some(process) = &key.process {
        let mut fields = object.object("process");
        push_process_fields(&mut fields, process);
        fields.end();
    }
    if let Some(uid) = key.uid {
        object.number("uid", Some(uid.0));
        object.text("user", names.user(uid));
    }
    object.number("connections", Some(flow.connections));
    let mut states = object.object("states");
    for (state, count) in states_of(flow) {
        states.number(state.snake_name(), Some(count));
    }
    states.end();
    // No owners found is something else than not looked for.
    if layout.details.owners || !flow.owners.is_empty() {
        let out = object.key("owners");
        out.push(b'[');
        for (nth, process) in flow.owners.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            let mut fields = Object::begin(out);
            push_process_fields(&mut fields, process);
            fields.end();
        }
        out.push(b']');
    }
    if let Some(totals) = &flow.totals {
        push_totals(&mut object, totals);
    }
    if let Some(rates) = &flow.rates {
        let mut fields = object.object("rates");
        for (name, rate) in rate_fields(rates) {
            fields.float(name, rate);
        }
        fields.end();
    }
    object.end();
}

pub(crate) const fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Active => "active",
        Direction::Passive => "passive",
    }
}

/// How many connections are in each state that has any. Both kinds of `SYN_RECV` are one state to a reader.
pub(crate) fn states_of(flow: &Flow) -> impl Iterator<Item = (State, u64)> {
    let of_state = |state: State| match state {
        State::NewSynRecv => 0,
        State::SynRecv => u64::from(flow.in_state(state)) + u64::from(flow.in_state(State::NewSynRecv)),
        state => u64::from(flow.in_state(state)),
    };
    let unknown = (State::Unknown(0), u64::from(flow.states[0]));
    let named = State::ALL.into_iter().map(move |state| (state, of_state(state)));
    named.chain([unknown]).filter(|(_, count)| *count > 0)
}

/// Each rate with its name.
pub(crate) const fn rate_fields(rates: &Rates) -> [(&'static str, f64); 5] {
    let Rates {
        sent_bytes_per_s,
        received_bytes_per_s,
        retrans_segs_per_s,
        opened_per_s,
        closed_per_s,
    } = *rates;
    [
        ("sent_bytes_per_s", sent_bytes_per_s),
        ("received_bytes_per_s", received_bytes_per_s),
        ("retrans_segs_per_s", retrans_segs_per_s),
        ("opened_per_s", opened_per_s),
        ("closed_per_s", closed_per_s),
    ]
}

/// Each sum or median with its name.
pub(crate) fn total_fields(totals: &Totals) -> [(&'static str, Option<u64>); 7] {
    let Totals {
        measured,
        bytes_acked,
        bytes_received,
        rtt_us_median,
        retrans_segs,
        delivery_rate_bytes_per_s_sum,
        delivery_rate_bytes_per_s_median,
    } = *totals;
    [
        ("measured", Some(measured.into())),
        ("bytes_acked", bytes_acked),
        ("bytes_received", bytes_received),
        ("rtt_us_median", rtt_us_median.map(u64::from)),
        ("retrans_segs", retrans_segs),
        ("delivery_rate_bytes_per_s_sum", delivery_rate_bytes_per_s_sum),
        (
            "delivery_rate_bytes_per_s_median",
            delivery_rate_bytes_per_s_median,
        ),
    ]
}

fn push_totals(object: &mut Object<'_>, totals: &Totals) {
    let mut fields = object.object("totals");
    for (name, value) in total_fields(totals) {
        fields.number(name, value);
    }
    fields.end();
}

fn push_address(
    object: &mut Object<'_>,
    ip_key: &str,
    host_key: &str,
    ip: Option<IpAddr>,
    names: &dyn Names,
) {
    let Some(ip) = ip else { return };
    let out = object.key(ip_key);
    out.push(b'"');
    push_ip(out, ip);
    out.push(b'"');
    object.text(host_key, names.host(ip));
}
