//! Body of the fuzz target `iperf3_messages`, and of the test that replays its corpus: what a client or server of iperf3 sends.
//! It is a module of `sockeye_iperf3`.

use crate::datagram::{Arrivals, Head};
use crate::message::{DATAGRAM_MIN, State};
use crate::message::{Direction, Parameters, Processor, Results, StreamResult};
use crate::outcome::{Interval, Outcome, Setup, StreamInterval, StreamOutcome, TcpSample};
use crate::output::{document, request_line, result_lines, summary};
use crate::protocol::MAX_STREAMS;
use crate::refusal::Refusal;
use serde_json::{Value, json};
use sockeye_load::Transport;
use std::net::SocketAddr;
use std::time::UNIX_EPOCH;

/// The first byte says what the rest is: a state or error code, datagrams, or JSON as parameters and as results.
pub fn iperf3_messages(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 4 {
        0 => codes(bytes),
        1 => datagrams(bytes, kind & 4 != 0),
        _ => {
            if let Ok(json) = serde_json::from_slice(bytes) {
                let parameters = parameters(&json);
                results(&json, &parameters, kind & 4 != 0);
            }
        }
    }
}

fn codes(bytes: &[u8]) {
    for &byte in bytes {
        assert_eq!(State::from_byte(byte).byte(), byte);
    }
    if let Some(code) = bytes.first_chunk() {
        assert!(!Refusal(i32::from_be_bytes(*code)).to_string().is_empty());
    }
}

/// Datagrams of 16 bytes; one arrives each millisecond.
fn datagrams(bytes: &[u8], wide: bool) {
    let mut arrivals = Arrivals::default();
    for (piece, now_ms) in bytes.chunks(16).zip(1_u64..) {
        let Some(head) = Head::read(piece, wide) else {
            continue;
        };
        if wide && head.sent_us < (1 << 32) * 1_000_000 && piece.len() >= DATAGRAM_MIN as usize {
            let mut again = [0; 16];
            head.write(&mut again, wide);
            assert_eq!(Head::read(&again, wide), Some(head));
        }
        arrivals.record(head, now_ms * 1000);
        assert!(arrivals.missing <= arrivals.highest && arrivals.out_of_order <= now_ms);
        assert!(arrivals.jitter_us.is_finite() && arrivals.jitter_us >= 0.0);
    }
}

/// Returns the parameters, or others if these are refused.
fn parameters(json: &Value) -> Parameters {
    let parameters = match Parameters::from_json(json) {
        Ok(parameters) => parameters,
        Err(refusal) => {
            assert!(!refusal.to_string().is_empty());
            return Parameters {
                streams: 1,
                direction: Direction::Both,
                protocol: if json.get("udp").is_some() {
                    Transport::Udp
                } else {
                    Transport::Tcp
                },
                ..Parameters::default()
            };
        }
    };
    assert_eq!(parameters.check(), Ok(()));
    let again = Parameters::from_json(&parameters.to_json()).expect("its limits were checked");
    // Clients never ask for the output, and have their own version.
    let same = Parameters {
        server_output: parameters.server_output,
        version: parameters.version.clone(),
        ..again
    };
    assert_eq!(same, parameters);
    check_line(&request_line(&parameters));
    let parameters = parameters.with_length(Some(1400));
    assert!((1..=1 << 20).contains(&parameters.length));
    parameters
}

/// Results of the other end, as the outcome of a test whose own counts are as extreme, in each form that it is shown in.
fn results(json: &Value, parameters: &Parameters, is_client: bool) {
    let Some(results) = Results::from_json(json) else {
        return;
    };
    assert!(results.streams.len() <= 2 * MAX_STREAMS as usize);
    let again = Results::from_json(&results.to_json()).expect("it has all keys");
    assert_eq!(again.congestion, results.congestion);
    assert_eq!(
        (again.output, again.has_retransmits),
        (results.output.clone(), results.has_retransmits)
    );
    for (one, other) in again.streams.iter().zip(&results.streams) {
        // JSON numbers with a fraction may change in the last digit.
        let whole = |it: &StreamResult| StreamResult {
            jitter_s: 0.0,
            seconds: None,
            ..*it
        };
        assert_eq!(whole(one), whole(other));
        assert!(other.seconds.is_none_or(f64::is_finite));
    }
    let mut outcome = outcome(&results, parameters, is_client);
    outcome.add_peer_results(&results);
    let text = document(&outcome, "system");
    let read: Result<Value, _> = serde_json::from_str(&text);
    assert!(read.is_ok(), "{text}");
    text.lines().for_each(check_line);
    result_lines(&outcome).iter().for_each(|line| check_line(line));
    summary(&outcome.intervals).lines().for_each(check_line);
    let transfer = outcome.transfer();
    assert_eq!(transfer.streams.len(), outcome.streams.len());
    for is_sent in [true, false] {
        let rate = transfer.bytes_per_s(is_sent);
        assert!(
            rate.is_none_or(|rate| rate.is_finite() && rate >= 0.0),
            "{rate:?}"
        );
    }
}

fn outcome(results: &Results, parameters: &Parameters, is_client: bool) -> Outcome {
    let address: SocketAddr = ([127, 0, 0, 1], 5201).into();
    let setup = Setup {
        parameters: parameters.clone(),
        is_client,
        host: ("host".to_owned(), 5201),
        control: (address, address),
        cookie: "a".repeat(36),
        began: UNIX_EPOCH,
        mss: is_client.then_some(1448),
        buffers: (0, 0),
    };
    let is_udp = parameters.protocol == Transport::Udp;
    let sends = |id: u64| match parameters.direction {
        Direction::ToServer => is_client,
        Direction::ToClient => !is_client,
        Direction::Both => id.is_multiple_of(2),
    };
    let sample = |stream: &StreamResult| TcpSample {
        retransmits: stream.retransmits.unsigned_abs(),
        cwnd_bytes: stream.bytes,
        window_bytes: stream.packets,
        rtt_us: stream.packets as u32,
        rtt_var_us: 0,
        path_mtu: 1500,
    };
    let streams = || results.streams.iter();
    Outcome {
        setup,
        intervals: vec![Interval {
            start_s: 0.0,
            seconds: 1.0,
            is_omitted: false,
            streams: streams()
                .map(|stream| StreamInterval {
                    socket: 5,
                    sends: sends(stream.id),
                    bytes: stream.bytes,
                    packets: is_udp.then_some(stream.packets),
                    missing: stream.errors,
                    jitter_us: stream.jitter_s * 1e6,
                    tcp: (!is_udp).then(|| sample(stream)),
                })
                .collect(),
        }],
        streams: streams()
            .map(|stream| StreamOutcome {
                id: stream.id,
                socket: 5,
                local: address,
                remote: address,
                sends: sends(stream.id),
                bytes: stream.bytes,
                packets: stream.packets,
                missing: stream.errors.unsigned_abs(),
                out_of_order: stream.packets,
                jitter_us: stream.jitter_s * 1e6,
                retransmits: Some(stream.retransmits.unsigned_abs()),
                cwnd_max: stream.bytes,
                window_max: stream.bytes,
                rtt_min_us: 1,
                rtt_max_us: stream.packets,
                rtt_mean_us: 1,
                sender: None,
                busy_permille: 0,
                peer: None,
            })
            .collect(),
        seconds: 1.0,
        processor: Processor::default(),
        peer_processor: None,
        congestion: None,
        peer_congestion: None,
        peer_has_retransmits: false,
        host_work: None,
        error: None,
    }
}

/// A line that is printed or logged cannot steer a terminal, whatever the other end sent.
fn check_line(line: &str) {
    assert!(!line.contains(char::is_control), "{line:?}");
}

#[cfg(test)]
#[path = "replay.rs"]
mod replay;

#[test]
fn corpus_is_parsed_without_panics() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "iperf3_messages", iperf3_messages);
}

#[test]
fn counts_of_a_hostile_peer_add_up_without_overflow() {
    let stream = json!({
        "id": 2, "bytes": u64::MAX, "retransmits": i64::MAX, "jitter": 1e300, "errors": i64::MIN, "packets": i64::MAX,
        "omitted_errors": i64::MAX, "omitted_packets": u64::MAX, "start_time": -1e308, "end_time": 1e308,
    });
    for protocol in ["tcp", "udp"] {
        let json = json!({
            protocol: true, "cpu_util_total": 1e308, "cpu_util_user": -1e308, "cpu_util_system": 0,
            "sender_has_retransmits": 1, "congestion_used": "\u{1b}[31m\u{9b}2J\u{202e}", "streams": [stream, stream, stream],
        });
        for kind in [2, 6] {
            iperf3_messages(&[&[kind], json.to_string().as_bytes()].concat());
        }
    }
}
