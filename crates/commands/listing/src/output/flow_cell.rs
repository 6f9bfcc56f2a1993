//! The cells of a table of flows.

use crate::output::flow_column::FlowColumn;
use crate::output::flow_json::{direction_name, states_of};
use sockeye_model::{Direction, Flow, FlowKey, Names, Process, Protocol};
use sockeye_output::address::{push_bracketed, push_service};
use sockeye_output::cell::push_state;
use sockeye_output::number::{push_bit_rate, push_decimal, push_human, push_time_us};
use sockeye_output::table::Tint;
use sockeye_output::text::push_clean;
use std::net::IpAddr;

/// Appends a cell, nothing if its value is absent.
pub(crate) fn push(
    out: &mut Vec<u8>,
    column: FlowColumn,
    flow: &Flow,
    names: &dyn Names,
    protocol: Protocol,
) -> Tint {
    use FlowColumn as C;
    let key = &flow.key;
    let (totals, rates) = (flow.totals.as_ref(), flow.rates.as_ref());
    match column {
        C::Netns => {
            if let Some(inode) = key.netns {
                match names.netns(inode) {
                    Some(name) => push_clean(out, name.as_bytes()),
                    None => push_decimal(out, inode.0.into()),
                }
            }
        }
        C::User => {
            if let Some(uid) = key.uid {
                match names.user(uid) {
                    Some(name) => push_clean(out, name.as_bytes()),
                    None => push_decimal(out, uid.0.into()),
                }
            }
        }
        C::Process => {
            if let Some(process) = &key.process {
                push_process(out, process);
            }
        }
        C::Local => {
            push_address(out, key.local, None, names);
            push_port(out, key, Direction::Passive, names, protocol);
        }
        C::Peer => {
            push_address(out, key.peer, key.peer_prefix, names);
            push_port(out, key, Direction::Active, names, protocol);
        }
        C::Arrow => {
            let (arrow, tint) = match key.direction {
                Direction::Active => (b"-->", Tint::Cyan),
                Direction::Passive => (b"<--", Tint::Magenta),
            };
            out.extend_from_slice(arrow);
            return tint;
        }
        C::Direction => {
            out.extend_from_slice(direction_name(key.direction).as_bytes());
            return match key.direction {
                Direction::Active => Tint::Cyan,
                Direction::Passive => Tint::Magenta,
            };
        }
        C::Connections => push_decimal(out, flow.connections.into()),
        C::States => push_states(out, flow),
        C::Measured => {
            if let Some(totals) = totals {
                push_decimal(out, totals.measured.into());
            }
        }
        C::Sent => human(out, totals.and_then(|totals| totals.bytes_acked)),
        C::Received => human(out, totals.and_then(|totals| totals.bytes_received)),
        C::Rtt => {
            if let Some(us) = totals.and_then(|totals| totals.rtt_us_median) {
                push_time_us(out, us.into());
            }
        }
        C::Retrans => human(out, totals.and_then(|totals| totals.retrans_segs)),
        C::DeliveryRate => bits(
            out,
            totals.and_then(|totals| totals.delivery_rate_bytes_per_s_sum),
        ),
        C::DeliveryRateMedian => bits(
            out,
            totals.and_then(|totals| totals.delivery_rate_bytes_per_s_median),
        ),
        C::SentRate => rate(out, rates.map(|rates| rates.sent_bytes_per_s)),
        C::ReceivedRate => rate(out, rates.map(|rates| rates.received_bytes_per_s)),
        C::RetransRate => rate(out, rates.map(|rates| rates.retrans_segs_per_s)),
        C::OpenedRate => rate(out, rates.map(|rates| rates.opened_per_s)),
        C::ClosedRate => rate(out, rates.map(|rates| rates.closed_per_s)),
        C::Owners => {
            for (nth, process) in flow.owners.iter().enumerate() {
                if nth > 0 {
                    out.push(b',');
                }
                push_process(out, process);
            }
        }
    }
    Tint::None
}

/// `ESTAB 20 TIME-WAIT 2`.
fn push_states(out: &mut Vec<u8>, flow: &Flow) {
    for (nth, (state, count)) in states_of(flow).enumerate() {
        if nth > 0 {
            out.push(b' ');
        }
        push_state(out, state);
        out.push(b' ');
        push_decimal(out, count);
    }
}

/// `nginx(812/800)`: pid and, where it is known, process group.
pub(crate) fn push_process(out: &mut Vec<u8>, process: &Process) {
    push_clean(out, process.comm.as_bytes());
    out.push(b'(');
    push_decimal(out, process.pid.0.into());
    if let Some(pgid) = process.pgid {
        out.push(b'/');
        push_decimal(out, pgid.0.into());
    }
    out.push(b')');
}

/// An address, its prefix within the brackets of IPv6; `many` where connections differ.
fn push_address(out: &mut Vec<u8>, ip: Option<IpAddr>, prefix: Option<u8>, names: &dyn Names) {
    let Some(ip) = ip else {
        return out.extend_from_slice(MANY);
    };
    let Some(prefix) = prefix else {
        return match names.host(ip) {
            Some(name) => push_clean(out, name.as_bytes()),
            None => push_bracketed(out, ip),
        };
    };
    push_bracketed(out, ip);
    let is_v6 = out.pop_if(|last| *last == b']').is_some();
    out.push(b'/');
    push_decimal(out, prefix.into());
    if is_v6 {
        out.push(b']');
    }
}

/// The port of the service, at the side that has it; `many` at the other.
fn push_port(out: &mut Vec<u8>, key: &FlowKey, side: Direction, names: &dyn Names, protocol: Protocol) {
    out.push(b':');
    match key.port.filter(|_| key.direction == side) {
        Some(port) => push_service(out, port, protocol, names),
        None => out.extend_from_slice(MANY),
    }
}

fn human(out: &mut Vec<u8>, value: Option<u64>) {
    if let Some(value) = value {
        push_human(out, value.into());
    }
}

fn bits(out: &mut Vec<u8>, bytes_per_s: Option<u64>) {
    if let Some(bytes_per_s) = bytes_per_s {
        push_bit_rate(out, bytes_per_s);
    }
}

/// A number a second; below ten with a tenth, so that a connection in five seconds is not none.
fn rate(out: &mut Vec<u8>, rate: Option<f64>) {
    match rate {
        Some(rate) if !rate.is_finite() => {}
        Some(rate) if rate > 0.0 && rate < 9.95 => out.extend_from_slice(format!("{rate:.1}").as_bytes()),
        Some(rate) => push_human(out, rate.max(0.0).round() as u128),
        None => {}
    }
}

const MANY: &[u8] = b"many";
