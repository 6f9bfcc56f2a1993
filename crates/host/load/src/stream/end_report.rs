//! The results of one end as messages to the other.

use super::engine::EndReport;
use crate::session::peer_text;
use serde_json::{Map, Value, json};
use sockeye_measure::{Datagrams, DeviceNumbers, DeviceWork, End, Sender, Side, StreamTransfer, Work};

/// Returns messages with the results: the streams in several if needed, the rest last.
pub(super) fn messages(report: &EndReport) -> Vec<Value> {
    let streams: Vec<Value> = report.streams.iter().map(stream).collect();
    let mut list: Vec<Value> = streams
        .chunks(STREAMS_PER_MESSAGE)
        .map(|streams| json!({"streams": streams}))
        .collect();
    list.push(json!({
        "end": end(&report.end),
        "error": report.error.as_ref().map(ToString::to_string),
    }));
    list
}

/// Returns the streams in a message. What is sent there is received here.
pub(crate) fn streams(message: &Value) -> impl Iterator<Item = StreamTransfer> {
    message["streams"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|json| StreamTransfer {
            number: json["number"]
                .as_u64()
                .and_then(|it| u16::try_from(it).ok())
                .unwrap_or(u16::MAX),
            is_sent: json["is_sent"].as_bool() == Some(false),
            sent: part(json, "sent").map(|json| Side::find(|name| json[name].as_u64())),
            received: part(json, "received").map(|json| Side::find(|name| json[name].as_u64())),
            sender: part(json, "sender").map(|json| Sender::find(|name| json[name].as_u64())),
            datagrams: part(json, "datagrams").map(|json| Datagrams::find(|name| json[name].as_u64())),
            ..StreamTransfer::default()
        })
}

/// Reads the work of the other end.
pub(crate) fn end_of(json: &Value) -> End {
    let text = |value: &Value| value.as_str().map(|text| peer_text(text, TEXT_MAX));
    let devices = json["devices"].as_array().into_iter().flatten();
    End {
        work: Work::find(|name| json["work"][name].as_u64()),
        devices: devices
            .take(DEVICES_MAX)
            .map(|device| DeviceWork {
                name: text(&device["name"]).unwrap_or_default(),
                queue: text(&device["queue"]),
                numbers: DeviceNumbers::find(|name| device["numbers"][name].as_u64()),
            })
            .collect(),
        congestion: text(&json["congestion"]),
        program: text(&json["program"]),
    }
}

/// Adds the other end's results of the streams to ours.
pub(crate) fn merge(ours: &mut [StreamTransfer], all_theirs: Vec<StreamTransfer>) {
    for theirs in all_theirs {
        let same =
            |stream: &&mut StreamTransfer| stream.number == theirs.number && stream.is_sent == theirs.is_sent;
        let Some(stream) = ours.iter_mut().find(same) else {
            continue;
        };
        stream.sent = stream.sent.or(theirs.sent);
        stream.received = stream.received.or(theirs.received);
        stream.sender = stream.sender.or(theirs.sender);
        stream.datagrams = match (stream.datagrams, theirs.datagrams) {
            (Some(one), Some(other)) => Some(merge_datagrams(one, other)),
            (one, other) => one.or(other),
        };
    }
}

/// Merges the counts of the sender and the receiver. The difference includes datagrams lost at the end.
fn merge_datagrams(one: Datagrams, other: Datagrams) -> Datagrams {
    let sent = one.sent.or(other.sent);
    let received = one.received.or(other.received);
    Datagrams {
        sent,
        received,
        lost: sent
            .zip(received)
            .map(|(sent, received)| sent.saturating_sub(received))
            .or(one.lost)
            .or(other.lost),
        reordered: one.reordered.or(other.reordered),
        jitter_us: one.jitter_us.or(other.jitter_us),
        refused_locally: one.refused_locally.or(other.refused_locally),
    }
}

fn stream(stream: &StreamTransfer) -> Value {
    let mut fields = Map::new();
    fields.insert("number".to_owned(), json!(stream.number));
    fields.insert("is_sent".to_owned(), json!(stream.is_sent));
    let mut put =
        |name: &str, numbers: Map<String, Value>| fields.insert(name.to_owned(), Value::Object(numbers));
    if let Some(side) = &stream.sent {
        put("sent", numbers(|visit| side.visit(visit)));
    }
    if let Some(side) = &stream.received {
        put("received", numbers(|visit| side.visit(visit)));
    }
    if let Some(sender) = &stream.sender {
        put("sender", numbers(|visit| sender.visit(visit)));
    }
    if let Some(datagrams) = &stream.datagrams {
        put("datagrams", numbers(|visit| datagrams.visit(visit)));
    }
    Value::Object(fields)
}

fn end(end: &End) -> Value {
    let devices: Vec<Value> = end
        .devices
        .iter()
        .map(|device| {
            json!({
                "name": device.name,
                "queue": device.queue,
                "numbers": numbers(|visit| device.numbers.visit(visit)),
            })
        })
        .collect();
    json!({
        "work": numbers(|visit| end.work.visit(visit)),
        "devices": devices,
        "congestion": end.congestion,
        "program": end.program,
    })
}

fn numbers(visit_all: impl FnOnce(&mut dyn FnMut(&'static str, u64))) -> Map<String, Value> {
    let mut map = Map::new();
    visit_all(&mut |name, value| {
        map.insert(name.to_owned(), json!(value));
    });
    map
}

fn part<'a>(json: &'a Value, name: &str) -> Option<&'a Value> {
    Some(&json[name]).filter(|part| part.is_object())
}

/// A stream takes a little more than 1 KiB.
const STREAMS_PER_MESSAGE: usize = 16;
const DEVICES_MAX: usize = 64;
const TEXT_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back_and_merge() {
        let side = Side {
            bytes: Some(7),
            ..Side::default()
        };
        let sent = Datagrams {
            sent: Some(10),
            ..Datagrams::default()
        };
        let received = Datagrams {
            received: Some(7),
            lost: Some(2),
            ..Datagrams::default()
        };
        let there = EndReport {
            streams: (0..40)
                .map(|number| StreamTransfer {
                    number,
                    is_sent: false,
                    received: Some(side),
                    datagrams: Some(received),
                    ..StreamTransfer::default()
                })
                .collect(),
            ..EndReport::default()
        };
        let messages = messages(&there);
        assert_eq!(messages.len(), 4);
        let mut ours = vec![StreamTransfer {
            number: 39,
            is_sent: true,
            datagrams: Some(sent),
            ..StreamTransfer::default()
        }];
        merge(&mut ours, messages.iter().flat_map(streams).collect());
        assert_eq!(ours[0].received, Some(side));
        assert_eq!(ours[0].datagrams.unwrap().lost, Some(3));
        assert_eq!(end_of(&messages[3]["end"]), there.end);
    }

    #[test]
    fn full_messages_stay_below_the_limit() {
        let full = |_: &'static str| Some(u64::MAX);
        let stream = StreamTransfer {
            sent: Some(Side::find(full)),
            received: Some(Side::find(full)),
            sender: Some(Sender::find(full)),
            datagrams: Some(Datagrams::find(full)),
            ..StreamTransfer::default()
        };
        let report = EndReport {
            streams: vec![stream; 128],
            end: End {
                work: Work::find(full),
                devices: vec![
                    DeviceWork {
                        name: "x".repeat(15),
                        queue: Some("y".repeat(15)),
                        numbers: DeviceNumbers::find(full),
                    };
                    32
                ],
                ..End::default()
            },
            ..EndReport::default()
        };
        for message in messages(&report) {
            assert!(message.to_string().len() < 64 * 1024);
        }
    }

    #[test]
    fn invalid_messages_are_empty() {
        assert_eq!(streams(&json!({"streams": 7})).count(), 0);
        assert_eq!(streams(&json!({"streams": [7]})).count(), 1);
        assert_eq!(end_of(&json!([])), End::default());
    }
}
