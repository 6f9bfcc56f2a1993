//! Flows as CSV.

use super::flow_column::FlowColumn;
use super::flow_json::{direction_name, states_of};
use sockeye_model::{Flow, Names, Process, Protocol};
use sockeye_output::address::push_ip;
use sockeye_output::csv::Line;
use sockeye_output::number::push_decimal;
use std::net::IpAddr;

/// Appends the header of a listing of flows.
pub(crate) fn push_flow_header(out: &mut Vec<u8>, columns: &[FlowColumn]) {
    let names: Vec<&str> = columns
        .iter()
        .flat_map(|&column| flow_fields(column))
        .copied()
        .collect();
    out.extend_from_slice(names.join(",").as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Names of the fields of a column.
fn flow_fields(column: FlowColumn) -> &'static [&'static str] {
    use FlowColumn as C;
    match column {
        C::Netns => &["netns_inode", "netns"],
        C::User => &["uid", "user"],
        C::Process => &["comm", "pid", "pgid"],
        C::Local => &["local_ip", "local_host", "local_port", "local_service"],
        // The arrow is for eyes; the direction says the same.
        C::Arrow => &[],
        C::Direction => &["direction"],
        C::Peer => &[
            "peer_ip",
            "peer_host",
            "peer_prefix_bits",
            "peer_port",
            "peer_service",
        ],
        C::Connections => &["connections"],
        C::States => &["states"],
        C::Measured => &["measured"],
        C::Sent => &["bytes_acked"],
        C::Received => &["bytes_received"],
        C::Rtt => &["rtt_us_median"],
        C::Retrans => &["retrans_segs"],
        C::DeliveryRate => &["delivery_rate_bytes_per_s_sum"],
        C::DeliveryRateMedian => &["delivery_rate_bytes_per_s_median"],
        C::SentRate => &["sent_bytes_per_s"],
        C::ReceivedRate => &["received_bytes_per_s"],
        C::RetransRate => &["retrans_segs_per_s"],
        C::OpenedRate => &["opened_per_s"],
        C::ClosedRate => &["closed_per_s"],
        C::Owners => &["owners"],
    }
}

/// Appends a line.
pub(crate) fn push_flow(
    out: &mut Vec<u8>,
    columns: &[FlowColumn],
    flow: &Flow,
    names: &dyn Names,
    protocol: Protocol,
) {
    use FlowColumn as C;
    use sockeye_model::Direction::{Active, Passive};
    let key = &flow.key;
    let (totals, rates) = (flow.totals.as_ref(), flow.rates.as_ref());
    let mut line = Line::begin(out);
    for &column in columns {
        match column {
            C::Netns => {
                line.number(key.netns.map(|inode| inode.0));
                line.text(key.netns.and_then(|inode| names.netns(inode)));
            }
            C::User => {
                line.number(key.uid.map(|uid| uid.0));
                line.text(key.uid.and_then(|uid| names.user(uid)));
            }
            C::Process => {
                let process = key.process.as_ref();
                line.bytes(process.map(|process| process.comm.as_bytes()));
                line.number(process.map(|process| process.pid.0));
                line.number(process.and_then(|process| process.pgid).map(|pgid| pgid.0));
            }
            C::Local | C::Peer => {
                let (ip, has_port) = match column {
                    C::Local => (key.local, key.direction == Passive),
                    _ => (key.peer, key.direction == Active),
                };
                push_flow_address(&mut line, ip, names);
                if column == C::Peer {
                    line.number(key.peer_prefix);
                }
                let port = key.port.filter(|_| has_port);
                line.number(port.map(|port| port.0));
                line.text(port.and_then(|port| names.service(protocol, port)));
            }
            C::Arrow => {}
            C::Direction => line.word(direction_name(key.direction)),
            C::Connections => line.number(Some(flow.connections)),
            C::States => {
                let out = line.field();
                for (nth, (state, count)) in states_of(flow).enumerate() {
                    if nth > 0 {
                        out.push(b' ');
                    }
                    out.extend_from_slice(state.snake_name().as_bytes());
                    out.push(b'=');
                    push_decimal(out, count);
                }
            }
            C::Measured => line.number(totals.map(|totals| totals.measured)),
            C::Sent => line.number(totals.and_then(|totals| totals.bytes_acked)),
            C::Received => line.number(totals.and_then(|totals| totals.bytes_received)),
            C::Rtt => line.number(totals.and_then(|totals| totals.rtt_us_median)),
            C::Retrans => line.number(totals.and_then(|totals| totals.retrans_segs)),
            C::DeliveryRate => line.number(totals.and_then(|totals| totals.delivery_rate_bytes_per_s_sum)),
            C::DeliveryRateMedian => {
                line.number(totals.and_then(|totals| totals.delivery_rate_bytes_per_s_median));
            }
            C::SentRate => line.float(rates.map(|rates| rates.sent_bytes_per_s)),
            C::ReceivedRate => line.float(rates.map(|rates| rates.received_bytes_per_s)),
            C::RetransRate => line.float(rates.map(|rates| rates.retrans_segs_per_s)),
            C::OpenedRate => line.float(rates.map(|rates| rates.opened_per_s)),
            C::ClosedRate => line.float(rates.map(|rates| rates.closed_per_s)),
            C::Owners => line.outside(|out| push_processes(out, &flow.owners)),
        }
    }
    line.end();
}

fn push_flow_address(line: &mut Line<'_>, ip: Option<IpAddr>, names: &dyn Names) {
    let out = line.field();
    if let Some(ip) = ip {
        push_ip(out, ip);
    }
    line.text(ip.and_then(|ip| names.host(ip)));
}

fn push_processes(out: &mut Vec<u8>, processes: &[Process]) {
    for (nth, process) in processes.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        crate::output::flow_cell::push_process(out, process);
    }
}
