//! The JSON document that `iperf3 -J` prints.

use crate::outcome::{Interval, Outcome, StreamInterval, StreamOutcome, total, total_if_known};
use crate::{Direction, Error};
use serde_json::{Value, json};
use sockeye_load::Transport;
use sockeye_output::date::Date;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the document of a test, with iperf3's names and nesting. `system` is the `uname` line.
///
/// `version` names this program. A test that ended early has `error`, like iperf3's.
#[must_use]
pub fn document(outcome: &Outcome, system: &str) -> String {
    let mut json = json!({
        "start": start(outcome, system),
        "intervals": outcome.intervals.iter().map(|interval| interval_of(outcome, interval)).collect::<Vec<_>>(),
        "end": end(outcome),
    });
    if let Some(error) = &outcome.error {
        json["error"] = json!(error.to_string());
    }
    pretty(&json)
}

/// Returns the document of a test that did not begin.
#[must_use]
pub fn failed_document(error: &Error, system: &str) -> String {
    pretty(&json!({
        "start": {"connected": [], "version": VERSION, "system_info": system},
        "intervals": [],
        "end": {},
        "error": error.to_string(),
    }))
}

fn pretty(json: &Value) -> String {
    let mut text = serde_json::to_string_pretty(json).unwrap_or_default();
    text.push('\n');
    text
}

fn start(outcome: &Outcome, system: &str) -> Value {
    let parameters = &outcome.setup.parameters;
    let is_tcp = parameters.protocol == Transport::Tcp;
    let connected: Vec<Value> = outcome
        .streams
        .iter()
        .map(|stream| {
            json!({
                "socket": stream.socket,
                "local_host": stream.local.ip().to_string(),
                "local_port": stream.local.port(),
                "remote_host": stream.remote.ip().to_string(),
                "remote_port": stream.remote.port(),
            })
        })
        .collect();
    let seconds = outcome
        .setup
        .began
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let mut json = json!({
        "connected": connected,
        "version": VERSION,
        "system_info": system,
        "timestamp": {"time": date(outcome.setup.began), "timesecs": seconds},
        "cookie": outcome.setup.cookie,
        "target_bitrate": parameters.bits_per_s,
        "sock_bufsize": parameters.window,
        "sndbuf_actual": outcome.setup.buffers.0,
        "rcvbuf_actual": outcome.setup.buffers.1,
        "test_start": {
            "protocol": if is_tcp { "TCP" } else { "UDP" },
            "num_streams": parameters.streams,
            "blksize": parameters.length,
            "omit": parameters.omit_s,
            "duration": parameters.time_s,
            "bytes": parameters.bytes,
            "blocks": parameters.blocks,
            "reverse": u8::from(parameters.direction == Direction::ToClient),
            "tos": parameters.type_of_service,
            "target_bitrate": parameters.bits_per_s,
        },
    });
    if outcome.setup.is_client {
        json["connecting_to"] = json!({"host": outcome.setup.host.0, "port": outcome.setup.host.1});
    } else {
        let peer = crate::socket::canonical(outcome.setup.control.1);
        json["accepted_connection"] = json!({"host": peer.ip().to_string(), "port": peer.port()});
    }
    if is_tcp && let Some(mss) = outcome.setup.mss {
        json["tcp_mss_default"] = json!(mss);
    }
    json
}

fn interval_of(outcome: &Outcome, interval: &Interval) -> Value {
    let streams = interval.streams.iter().map(|stream| {
        let mut json = rate(interval.start_s, interval.seconds, stream.bytes);
        json["socket"] = json!(stream.socket);
        put_counts(&mut json, interval, &[stream], stream.sends);
        if let Some(tcp) = stream.tcp {
            json["snd_cwnd"] = json!(tcp.cwnd_bytes);
            json["snd_wnd"] = json!(tcp.window_bytes);
            json["rtt"] = json!(tcp.rtt_us);
            json["rttvar"] = json!(tcp.rtt_var_us);
            json["pmtu"] = json!(tcp.path_mtu);
        }
        json
    });
    let mut json = json!({"streams": streams.collect::<Value>()});
    for sends in outcome.directions() {
        let all = interval.streams.iter();
        let streams: Vec<&StreamInterval> = all.filter(|stream| stream.sends == sends).collect();
        let mut sum = rate(interval.start_s, interval.seconds, interval.bytes(sends));
        put_counts(&mut sum, interval, &streams, sends);
        json[name(outcome, "sum", sends)] = sum;
    }
    json
}

/// Adds the fields of the streams of one direction, except their bytes.
fn put_counts(json: &mut Value, interval: &Interval, streams: &[&StreamInterval], sends: bool) {
    let packets = total_if_known(streams.iter().map(|stream| stream.packets));
    if let Some(packets) = packets.filter(|_| !streams.is_empty()) {
        json["packets"] = json!(packets);
        if !sends {
            let missing = streams
                .iter()
                .fold(0, |sum: i64, stream| sum.saturating_add(stream.missing));
            let jitter = streams.iter().map(|stream| stream.jitter_us).sum::<f64>() / streams.len() as f64;
            json["jitter_ms"] = json!(jitter / 1000.0);
            json["lost_packets"] = json!(missing);
            json["lost_percent"] = json!(percent(missing as f64, packets));
        }
    }
    if streams.iter().any(|stream| stream.tcp.is_some()) {
        let retransmits = streams.iter().filter_map(|stream| Some(stream.tcp?.retransmits));
        json["retransmits"] = json!(total(retransmits));
    }
    json["omitted"] = json!(interval.is_omitted);
    json["sender"] = json!(sends);
}

fn end(outcome: &Outcome) -> Value {
    let is_tcp = outcome.setup.parameters.protocol == Transport::Tcp;
    let streams = outcome.streams.iter().map(|stream| {
        if is_tcp {
            json!({"sender": tcp_sender(outcome, stream), "receiver": tcp_receiver(outcome, stream)})
        } else {
            json!({"udp": udp_stream(outcome, stream)})
        }
    });
    let mut json = json!({"streams": streams.collect::<Value>()});
    for sends in outcome.directions() {
        if is_tcp {
            sum_tcp(&mut json, outcome, sends);
        } else {
            sum_udp(&mut json, outcome, sends);
        }
    }
    let (host, remote) = (outcome.processor, outcome.peer_processor.unwrap_or_default());
    json["cpu_utilization_percent"] = json!({
        "host_total": host.total,
        "host_user": host.user,
        "host_system": host.system,
        "remote_total": remote.total,
        "remote_user": remote.user,
        "remote_system": remote.system,
    });
    if is_tcp {
        // With two directions, iperf3 names the second.
        let sends = outcome.directions().last().copied().unwrap_or(true);
        let (sender, receiver) = if sends {
            (&outcome.congestion, &outcome.peer_congestion)
        } else {
            (&outcome.peer_congestion, &outcome.congestion)
        };
        for (key, name) in [
            ("sender_tcp_congestion", sender),
            ("receiver_tcp_congestion", receiver),
        ] {
            if let Some(name) = name {
                json[key] = json!(name);
            }
        }
    }
    json
}

fn tcp_sender(outcome: &Outcome, stream: &StreamOutcome) -> Value {
    let seconds = outcome.sent_seconds(stream.sends);
    let mut json = stream_rate(stream, seconds, stream.sent());
    json["sender"] = json!(stream.sends);
    if outcome.has_retransmits(stream.sends) {
        json["retransmits"] = json!(stream.retransmits().unwrap_or(0));
        json["max_snd_cwnd"] = json!(stream.cwnd_max);
        json["max_snd_wnd"] = json!(stream.window_max);
        json["max_rtt"] = json!(stream.rtt_max_us);
        json["min_rtt"] = json!(stream.rtt_min_us);
        json["mean_rtt"] = json!(stream.rtt_mean_us);
    }
    json
}

fn tcp_receiver(outcome: &Outcome, stream: &StreamOutcome) -> Value {
    let seconds = outcome.received_seconds(stream.sends);
    let mut json = stream_rate(stream, seconds, stream.received());
    json["sender"] = json!(stream.sends);
    json
}

fn sum_tcp(json: &mut Value, outcome: &Outcome, sends: bool) {
    let mut sent = rate(0.0, outcome.sent_seconds(sends), outcome.sent(sends).unwrap_or(0));
    if outcome.has_retransmits(sends) {
        let retransmits = outcome.streams_of(sends).filter_map(StreamOutcome::retransmits);
        sent["retransmits"] = json!(total(retransmits));
    }
    let seconds = outcome.received_seconds(sends);
    let mut received = rate(0.0, seconds, outcome.received(sends).unwrap_or(0));
    sent["sender"] = json!(sends);
    received["sender"] = json!(sends);
    json[name(outcome, "sum_sent", sends)] = sent;
    json[name(outcome, "sum_received", sends)] = received;
}

fn udp_stream(outcome: &Outcome, stream: &StreamOutcome) -> Value {
    let seconds = outcome.sent_seconds(stream.sends);
    let mut json = stream_rate(stream, seconds, stream.sent());
    let sent = stream.packets_sent().filter(|&packets| packets > 0);
    put_datagrams(
        &mut json,
        stream.jitter_us().unwrap_or(0.0),
        stream.missing().unwrap_or(0),
        sent.or(stream.packets_received()).unwrap_or(0),
        stream.sends,
    );
    json["out_of_order"] = json!(stream.out_of_order);
    json
}

fn sum_udp(json: &mut Value, outcome: &Outcome, sends: bool) {
    let all = |of: &dyn Fn(&StreamOutcome) -> Option<u64>| total(outcome.streams_of(sends).filter_map(of));
    let missing = all(&StreamOutcome::missing);
    let (sent, received) = (
        all(&StreamOutcome::packets_sent),
        all(&StreamOutcome::packets_received),
    );
    let jitters: Vec<f64> = outcome
        .streams_of(sends)
        .filter_map(StreamOutcome::jitter_us)
        .collect();
    let jitter = jitters.iter().sum::<f64>() / jitters.len().max(1) as f64;
    let (sent_s, received_s) = (outcome.sent_seconds(sends), outcome.received_seconds(sends));
    let (sent_bytes, received_bytes) = (
        outcome.sent(sends).unwrap_or(0),
        outcome.received(sends).unwrap_or(0),
    );
    let mut sum = |key, seconds, bytes, jitter, missing, packets, sender| {
        let mut fields = rate(0.0, seconds, bytes);
        put_datagrams(&mut fields, jitter, missing, packets, sender);
        json[name(outcome, key, sends)] = fields;
    };
    sum(
        "sum",
        received_s,
        sent_bytes,
        jitter,
        missing,
        sent.max(received),
        sends,
    );
    sum("sum_sent", sent_s, sent_bytes, 0.0, 0, sent, true);
    sum(
        "sum_received",
        received_s,
        received_bytes,
        jitter,
        missing,
        received,
        false,
    );
}

fn put_datagrams(json: &mut Value, jitter_us: f64, missing: u64, packets: u64, sender: bool) {
    json["jitter_ms"] = json!(jitter_us / 1000.0);
    json["lost_packets"] = json!(missing);
    json["packets"] = json!(packets);
    json["lost_percent"] = json!(percent(missing as f64, packets));
    json["sender"] = json!(sender);
}

fn stream_rate(stream: &StreamOutcome, seconds: f64, bytes: Option<u64>) -> Value {
    let mut json = rate(0.0, seconds, bytes.unwrap_or(0));
    json["socket"] = json!(stream.socket);
    json
}

fn rate(start_s: f64, seconds: f64, bytes: u64) -> Value {
    let bits_per_s = if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    };
    json!({
        "start": start_s,
        "end": start_s + seconds,
        "seconds": seconds,
        "bytes": bytes,
        "bits_per_second": bits_per_s,
    })
}

/// Returns a key. With `--bidir`, keys of the server's direction have a suffix.
fn name(outcome: &Outcome, name: &str, sends: bool) -> String {
    let is_servers = sends != outcome.setup.is_client;
    if outcome.setup.parameters.direction == Direction::Both && is_servers {
        format!("{name}_bidir_reverse")
    } else {
        name.to_owned()
    }
}

fn percent(part: f64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { 100.0 * part / all as f64 }
}

/// Returns a date like `Sun, 22 Nov 2026 15:16:23 GMT`.
fn date(time: SystemTime) -> String {
    let Date {
        year,
        month,
        day,
        weekday,
        hour,
        minute,
        second,
    } = Date::from_unix_s(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
    let (weekday, month) = (WEEKDAYS[usize::from(weekday)], MONTHS[usize::from(month) - 1]);
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Names the program that made the document.
const VERSION: &str = concat!("sockeye ", env!("CARGO_PKG_VERSION"));
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_around_leap_days_are_right() {
        let at = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(at(951_782_399), "Mon, 28 Feb 2000 23:59:59 GMT");
        assert_eq!(at(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(at(1_795_360_583), "Sun, 22 Nov 2026 15:16:23 GMT");
    }
}
