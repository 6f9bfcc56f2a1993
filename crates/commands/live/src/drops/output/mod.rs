//! Columns of drops, of single packets and of counters.

mod counters;
mod packets;
mod rows;

pub(super) use counters::{DropCounters, NamedLine, counter_name, push_counter_lines, push_sums};
pub(super) use packets::{DropPackets, ShownPacket, TABLE_COLUMNS as PACKET_COLUMNS};
pub(super) use rows::{Drops, rule_text, table_columns};

use sockeye_wire::drops::Headers;
use std::net::SocketAddr;

/// Appends `10.0.0.1:40000 > 10.0.0.2:53`.
fn push_headers(out: &mut Vec<u8>, headers: &Headers) {
    push_end(out, headers.source, headers.source_port);
    out.extend_from_slice(b" > ");
    push_end(out, headers.destination, headers.destination_port);
}

fn push_end(out: &mut Vec<u8>, ip: std::net::IpAddr, port: Option<u16>) {
    let text = match port {
        Some(port) => SocketAddr::new(ip, port).to_string(),
        None => ip.to_string(),
    };
    out.extend_from_slice(text.as_bytes());
}
