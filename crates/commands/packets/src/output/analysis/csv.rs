//! Connections as CSV, one line each.

use super::EndOwners;
use super::counts::judgements_of;
use super::sentence::sentences;
use super::shares::percent;
use sockeye_output::address::push_ip;
use sockeye_output::csv::Line;
use sockeye_trace::{Connection, Flag, Limit, findings};

pub(super) fn columns() -> String {
    let mut names: Vec<String> = [
        "number",
        "client_ip",
        "client_port",
        "server_ip",
        "server_port",
        "begin_ns",
        "duration_ns",
        "ending",
        "completeness",
        "handshake_ns",
    ]
    .map(str::to_owned)
    .to_vec();
    for side in ["forward", "backward"] {
        let mut add = |name: &str| names.push(format!("{side}_{name}"));
        for name in ["packets", "bytes", "bytes_sent", "throughput_bit_per_s"] {
            add(name);
        }
        for name in ["rtt_min_ns", "rtt_p50_ns", "rtt_p99_ns", "limit"] {
            add(name);
        }
        for limit in Limit::ALL {
            add(&format!("{}_percent", limit.name()));
        }
        for flag in Flag::ALL {
            add(flag.name());
        }
        for (name, _) in judgements_of(&sockeye_trace::Side::default()) {
            add(&format!("judgement_{name}"));
        }
    }
    names.extend(["findings", "verdict", "client_owners", "server_owners"].map(str::to_owned));
    names.join(",")
}

pub(super) fn push(line: &mut Line<'_>, connection: &Connection, owners: &EndOwners) {
    line.number(Some(connection.number));
    for end in [connection.client, connection.server] {
        push_ip(line.field(), end.ip);
        line.number(Some(end.port));
    }
    line.number(Some(connection.begin_ns));
    line.number(Some(connection.end_ns.saturating_sub(connection.begin_ns)));
    line.word(connection.ending.name());
    line.number(Some(connection.completeness.0));
    line.number(connection.handshake_ns);
    for side in [&connection.forward, &connection.backward] {
        line.number(Some(side.packets));
        line.number(Some(side.bytes));
        line.number(Some(side.bytes_sent));
        line.number(side.throughput_bit_per_s);
        let rtt = Some(side.rtt).filter(|rtt| rtt.count > 0);
        line.number(rtt.map(|rtt| rtt.min_ns));
        line.number(rtt.map(|rtt| rtt.p50_ns));
        line.number(rtt.map(|rtt| rtt.p99_ns));
        line.word(side.verdict.limit.map_or("", Limit::name));
        let shares = percent(&side.shares);
        for index in 0..Limit::ALL.len() {
            line.number(shares.map(|shares| shares[index]));
        }
        for count in side.flags {
            line.number(Some(count));
        }
        for (_, count) in judgements_of(side) {
            line.number(Some(count));
        }
    }
    let kinds: Vec<_> = findings(connection)
        .iter()
        .map(|finding| finding.kind.name())
        .collect();
    line.text(Some(&kinds.join(" ")));
    line.text(Some(&sentences(connection).join(" ")));
    line.text(owners.client.as_deref());
    line.text(owners.server.as_deref());
}
