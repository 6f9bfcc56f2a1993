//! A connection as a JSON object: `docs/schema/analyze.schema.json`.

use super::EndOwners;
use super::counts::{completeness_words, judgements_of};
use super::sentence::sentences;
use super::shares::percent;
use crate::output::endpoint;
use crate::output::event_json::push_event_fields;
use sockeye_output::address::push_ip;
use sockeye_output::json::{Object, json_string};
use sockeye_trace::{
    Connection, Direction, Event, Flag, Limit, Percentiles, Side, Turn, findings, icmp_name,
};

pub(super) fn push(object: &mut Object<'_>, connection: &Connection, owners: &EndOwners) {
    object.number("number", Some(connection.number));
    for (name, end, owner) in [
        ("client", connection.client, &owners.client),
        ("server", connection.server, &owners.server),
    ] {
        let mut fields = object.object(name);
        endpoint::push_json(&mut fields, end);
        push_owners(&mut fields, owner.as_deref());
        fields.end();
    }
    object.text("verdict", Some(&sentences(connection).join(" ")));
    push_findings(object, connection);
    object.number("begin_ns", Some(connection.begin_ns));
    object.number(
        "duration_ns",
        Some(connection.end_ns.saturating_sub(connection.begin_ns)),
    );
    object.number("first_frame", Some(connection.first_frame));
    object.word("ending", connection.ending.name());
    object.number("completeness", Some(connection.completeness.0));
    push_words(
        object.key("captured"),
        completeness_words(connection.completeness),
    );
    object.number("handshake_ns", connection.handshake_ns);
    object.number("syns", Some(connection.syns));
    object.number("syn_acks", Some(connection.syn_acks));
    object.boolean("is_syn_needless", Some(connection.is_syn_needless));
    object.number("syn_ttl", connection.syn_ttl);
    object.boolean("has_server_answered", Some(connection.has_server_answered));
    object.number("turns", Some(connection.turns));
    push_exchanges(object, connection);
    push_lookup(object, connection);
    push_icmp(object, connection);
    object.number("idle_before_reset_ns", connection.idle_before_reset_ns);
    object.number("times_backwards", Some(connection.times_backwards));
    let negotiated = &connection.negotiated;
    object.boolean("window_scaling", negotiated.window_scaling);
    object.boolean("sack", negotiated.sack);
    object.boolean("timestamps", negotiated.timestamps);
    object.boolean("ecn", negotiated.ecn);
    for (name, side) in [
        ("forward", &connection.forward),
        ("backward", &connection.backward),
    ] {
        let mut fields = object.object(name);
        push_side(&mut fields, side);
        fields.end();
    }
    let list = object.key("events");
    list.push(b'[');
    for (nth, event) in connection.events.iter().enumerate() {
        if nth > 0 {
            list.push(b',');
        }
        push_event(list, event);
    }
    list.push(b']');
    object.number("events_left_out", Some(connection.events_left_out));
}

fn push_exchanges(object: &mut Object<'_>, connection: &Connection) {
    let exchanges = &connection.exchanges;
    let mut fields = object.object("exchanges");
    let mut times = fields.object("times_ns");
    for turn in Turn::ALL {
        times.number(turn.name(), Some(exchanges.times.of(turn)));
    }
    times.end();
    push_percentiles(&mut fields, "server", &exchanges.server);
    push_percentiles(&mut fields, "client", &exchanges.client);
    push_percentiles(&mut fields, "client_pauses", &exchanges.client_pauses);
    push_percentiles(&mut fields, "server_pauses", &exchanges.server_pauses);
    fields.number("slow_answers", Some(exchanges.slow_answers));
    fields.number("slow_answers_ns", Some(exchanges.slow_answers_ns));
    fields.number("first_answer_ns", exchanges.first_answer_ns);
    fields.number("unanswered_ns", exchanges.unanswered_ns);
    fields.number("interrupted_ns", Some(exchanges.interrupted_ns));
    fields.number("interruption_max_ns", Some(exchanges.interruption_max_ns));
    fields.boolean("is_server_first", Some(exchanges.is_server_first));
    fields.boolean("is_tls", Some(exchanges.is_tls));
    fields.end();
}

fn push_findings(object: &mut Object<'_>, connection: &Connection) {
    let list = object.key("findings");
    list.push(b'[');
    for (nth, finding) in findings(connection).iter().enumerate() {
        if nth > 0 {
            list.push(b',');
        }
        let mut fields = Object::begin(list);
        fields.word("kind", finding.kind.name());
        fields.word("direction", direction_name(finding.direction));
        fields.number("cost_ns", Some(finding.cost_ns));
        fields.boolean("is_minor", Some(finding.is_minor));
        fields.end();
    }
    list.push(b']');
}

fn push_lookup(object: &mut Object<'_>, connection: &Connection) {
    let Some(lookup) = &connection.lookup else { return };
    let mut fields = object.object("lookup");
    fields.text("name", Some(&lookup.name));
    let out = fields.key("server");
    out.push(b'"');
    push_ip(out, lookup.server);
    out.push(b'"');
    fields.number("duration_ns", Some(lookup.took_ns));
    fields.number("queries", Some(lookup.queries));
    fields.number("unanswered", Some(lookup.unanswered));
    fields.number("failed_names", Some(lookup.failed_names));
    fields.text("slowest", lookup.slowest);
    fields.end();
}

fn push_icmp(object: &mut Object<'_>, connection: &Connection) {
    let list = object.key("icmp");
    list.push(b'[');
    for (nth, report) in connection.icmp.iter().enumerate() {
        if nth > 0 {
            list.push(b',');
        }
        let mut fields = Object::begin(list);
        fields.word("kind", icmp_name(report.kind));
        fields.word("direction", direction_name(report.direction));
        let out = fields.key("reporter");
        out.push(b'"');
        push_ip(out, report.reporter);
        out.push(b'"');
        fields.number("mtu_bytes", report.mtu);
        fields.number("time_ns", Some(report.time_ns));
        fields.number("count", Some(report.count));
        fields.end();
    }
    list.push(b']');
}

fn push_words(out: &mut Vec<u8>, words: impl Iterator<Item = &'static str>) {
    let words: Vec<_> = words.map(|word| format!("\"{word}\"")).collect();
    out.extend_from_slice(format!("[{}]", words.join(",")).as_bytes());
}

fn push_side(fields: &mut Object<'_>, side: &Side) {
    fields.number("packets", Some(side.packets));
    fields.number("bytes", Some(side.bytes));
    fields.number("bytes_sent", Some(side.bytes_sent));
    fields.number("data_segments", Some(side.data_segments));
    fields.number("throughput_bit_per_s", side.throughput_bit_per_s);
    fields.number("mss_bytes", side.mss);
    fields.number("window_scale", side.window_scale);
    fields.number("longest_segment_bytes", Some(side.longest_segment));
    fields.number("in_flight_max_bytes", Some(side.in_flight_max_bytes));
    fields.word("vantage", side.vantage.name());
    push_percentiles(fields, "rtt", &side.rtt);
    push_percentiles(fields, "one_way_variation", &side.variation.one_way);
    fields.number("one_way_step_ns", Some(side.variation.one_way_step_ns));
    for (name, percent) in [
        (
            "one_way_correlation_percent",
            side.variation.one_way_correlation_percent,
        ),
        (
            "flight_correlation_percent",
            side.variation.flight_correlation_percent,
        ),
    ] {
        if let Some(percent) = percent {
            fields.key(name).extend_from_slice(percent.to_string().as_bytes());
        }
    }
    fields.number("small_writes", Some(side.small_writes.count));
    fields.number("small_writes_waited_ns", Some(side.small_writes.waited_ns));
    fields.number("small_windows", Some(side.small_windows));
    if let Some(percent) = percent(&side.shares) {
        let mut shares = fields.object("shares_percent");
        for (limit, share) in Limit::ALL.into_iter().zip(percent) {
            shares.number(limit.name(), Some(share));
        }
        shares.end();
        let mut shares = fields.object("shares_ns");
        for limit in Limit::ALL {
            shares.number(limit.name(), Some(side.shares.of(limit)));
        }
        shares.end();
    }
    fields.number("busy_ns", Some(side.busy_ns));
    let mut bound = fields.object("bounds");
    bound.number("rounds", Some(side.bound.rounds));
    bound.number("window_rounds", Some(side.bound.window_rounds));
    bound.number("window_ns", Some(side.bound.window_ns));
    bound.number("buffer_ns", Some(side.bound.buffer_ns));
    bound.number("window_max_bytes", Some(side.bound.window_max_bytes));
    bound.boolean("is_window_uneven", Some(side.bound.is_window_uneven));
    bound.end();
    push_limited_by(fields, side);
    let mut mtu = fields.object("path_mtu");
    mtu.number("delivered_bytes", Some(side.path_mtu.delivered_bytes));
    mtu.number("stuck_bytes", Some(side.path_mtu.stuck_bytes));
    mtu.number("stuck_times", Some(side.path_mtu.stuck_times));
    mtu.boolean("is_delivered", Some(side.path_mtu.is_delivered));
    mtu.end();
    let mut flags = fields.object("flags");
    for (flag, count) in Flag::ALL.into_iter().zip(side.flags) {
        flags.number(flag.name(), Some(count));
    }
    flags.end();
    let mut judgements = fields.object("judgements");
    for (name, count) in judgements_of(side) {
        judgements.number(name, Some(count));
    }
    judgements.end();
}

pub(super) fn push_percentiles(fields: &mut Object<'_>, name: &str, rtt: &Percentiles) {
    if rtt.count == 0 {
        return;
    }
    let mut object = fields.object(name);
    object.number("count", Some(rtt.count));
    object.number("min_ns", Some(rtt.min_ns));
    object.number("p50_ns", Some(rtt.p50_ns));
    object.number("p90_ns", Some(rtt.p90_ns));
    object.number("p99_ns", Some(rtt.p99_ns));
    object.number("max_ns", Some(rtt.max_ns));
    object.end();
}

/// Appends the processes of `nginx(2), nginx(3), ...`; nothing if none are known.
fn push_owners(fields: &mut Object<'_>, owners: Option<&str>) {
    let Some(owners) = owners else { return };
    let out = fields.key("owners");
    out.push(b'[');
    let mut rest = owners.strip_suffix(", ...").unwrap_or(owners);
    let mut nth = 0;
    // A name may contain what separates two owners; `(PID)` is before it.
    while let Some((comm, pid, after)) = first_owner(rest) {
        if nth > 0 {
            out.push(b',');
        }
        let mut process = Object::begin(out);
        process.text("comm", Some(comm));
        process.number("pid", Some(pid));
        process.end();
        rest = after;
        nth += 1;
    }
    out.push(b']');
}

/// Splits `nginx(2), nginx(3)` into name and pid of the first, and the rest.
fn first_owner(owners: &str) -> Option<(&str, u32, &str)> {
    let ends = owners.match_indices(')').map(|(end, _)| end);
    ends.filter(|end| owners[end + 1..].is_empty() || owners[end + 1..].starts_with(", "))
        .find_map(|end| {
            let (comm, pid) = owners[..end].rsplit_once('(')?;
            let rest = owners[end + 1..].strip_prefix(", ").unwrap_or_default();
            Some((comm, pid.parse().ok()?, rest))
        })
}

fn push_limited_by(fields: &mut Object<'_>, side: &Side) {
    let verdict = &side.verdict;
    let Some(limit) = verdict.limit else { return };
    let mut object = fields.object("limited_by");
    object.word("limit", limit.name());
    object.number("in_flight_segs", verdict.in_flight_segs);
    object.number("window_segs", verdict.window_segs);
    object.number("lost_segs", Some(verdict.lost_segs));
    object.number("lost_after_growth_segs", Some(verdict.lost_after_growth_segs));
    object.number("queue_segs_min", verdict.queue_segs.map(|(least, _)| least));
    object.number("queue_segs_max", verdict.queue_segs.map(|(_, most)| most));
    object.boolean("has_no_queue", Some(verdict.has_no_queue));
    object.number("timeouts", Some(verdict.timeouts));
    object.end();
}

fn push_event(out: &mut Vec<u8>, event: &Event) {
    let mut object = Object::begin(out);
    object.number("time_ns", Some(event.time_ns));
    object.number("frame", Some(event.frame).filter(|frame| *frame > 0));
    object.word(
        "direction",
        direction_name(if event.from_client {
            Direction::Forward
        } else {
            Direction::Backward
        }),
    );
    push_event_fields(&mut object, event);
    object
        .key("evidence")
        .extend_from_slice(json_string(event.evidence).as_bytes());
    object.end();
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "forward",
        Direction::Backward => "backward",
    }
}
