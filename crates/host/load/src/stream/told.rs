//! What one end saw, as it is told to the other.

use super::engine::Seen;
use serde_json::{Map, Value, json};
use sockeye_measure::{Datagrams, DeviceNumbers, DeviceWork, End, Sender, Side, StreamTransfer, Work};

/// In pieces, each of which fits into a message: streams first, the rest last.
pub(super) fn messages(seen: &Seen) -> Vec<Value> {
    let lanes: Vec<Value> = seen.lanes.iter().map(lane).collect();
    let mut list: Vec<Value> = lanes
        .chunks(LANES_OF_A_MESSAGE)
        .map(|lanes| json!({"lanes": lanes}))
        .collect();
    list.push(json!({
        "end": end(&seen.end),
        "trouble": seen.trouble.as_ref().map(ToString::to_string),
    }));
    list
}

/// Streams out of a message. What is sent there is received here.
pub(super) fn lanes(message: &Value) -> impl Iterator<Item = StreamTransfer> {
    message["lanes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|told| StreamTransfer {
            number: told["number"]
                .as_u64()
                .and_then(|it| u16::try_from(it).ok())
                .unwrap_or(u16::MAX),
            is_sent: told["is_sent"].as_bool() == Some(false),
            sent: part(told, "sent").map(|told| Side::find(|name| told[name].as_u64())),
            received: part(told, "received").map(|told| Side::find(|name| told[name].as_u64())),
            sender: part(told, "sender").map(|told| Sender::find(|name| told[name].as_u64())),
            datagrams: part(told, "datagrams").map(|told| Datagrams::find(|name| told[name].as_u64())),
            ..StreamTransfer::default()
        })
}

/// The other end's work.
pub(super) fn end_of(told: &Value) -> End {
    let text = |value: &Value| {
        value
            .as_str()
            .map(|text| text.chars().take(TEXT_MAX).collect::<String>())
    };
    let devices = told["devices"].as_array().into_iter().flatten();
    End {
        work: Work::find(|name| told["work"][name].as_u64()),
        devices: devices
            .take(DEVICES_MAX)
            .map(|device| DeviceWork {
                name: text(&device["name"]).unwrap_or_default(),
                queue: text(&device["queue"]),
                numbers: DeviceNumbers::find(|name| device["numbers"][name].as_u64()),
            })
            .collect(),
        congestion: text(&told["congestion"]),
        program: text(&told["program"]),
    }
}

/// What we saw of the streams, and what the other end saw of them, together.
pub(super) fn merge(ours: &mut [StreamTransfer], theirs: Vec<StreamTransfer>) {
    for told in theirs {
        let same = |lane: &&mut StreamTransfer| lane.number == told.number && lane.is_sent == told.is_sent;
        let Some(lane) = ours.iter_mut().find(same) else {
            continue;
        };
        lane.sent = lane.sent.or(told.sent);
        lane.received = lane.received.or(told.received);
        lane.sender = lane.sender.or(told.sender);
        lane.datagrams = match (lane.datagrams, told.datagrams) {
            (Some(one), Some(other)) => Some(both(one, other)),
            (one, other) => one.or(other),
        };
    }
}

/// What the sender and the receiver counted. Who sent knows also what was lost at the end.
fn both(one: Datagrams, other: Datagrams) -> Datagrams {
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

fn lane(lane: &StreamTransfer) -> Value {
    let mut told = Map::new();
    told.insert("number".to_owned(), json!(lane.number));
    told.insert("is_sent".to_owned(), json!(lane.is_sent));
    let mut put =
        |name: &str, numbers: Map<String, Value>| told.insert(name.to_owned(), Value::Object(numbers));
    if let Some(side) = &lane.sent {
        put("sent", numbers(|visit| side.visit(visit)));
    }
    if let Some(side) = &lane.received {
        put("received", numbers(|visit| side.visit(visit)));
    }
    if let Some(sender) = &lane.sender {
        put("sender", numbers(|visit| sender.visit(visit)));
    }
    if let Some(datagrams) = &lane.datagrams {
        put("datagrams", numbers(|visit| datagrams.visit(visit)));
    }
    Value::Object(told)
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

fn numbers(tell: impl FnOnce(&mut dyn FnMut(&'static str, u64))) -> Map<String, Value> {
    let mut map = Map::new();
    tell(&mut |name, value| {
        map.insert(name.to_owned(), json!(value));
    });
    map
}

fn part<'a>(told: &'a Value, name: &str) -> Option<&'a Value> {
    Some(&told[name]).filter(|part| part.is_object())
}

/// Each takes a good KiB.
const LANES_OF_A_MESSAGE: usize = 16;
const DEVICES_MAX: usize = 64;
const TEXT_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
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
        let there = Seen {
            lanes: (0..40)
                .map(|number| StreamTransfer {
                    number,
                    is_sent: false,
                    received: Some(side),
                    datagrams: Some(received),
                    ..StreamTransfer::default()
                })
                .collect(),
            ..Seen::default()
        };
        let messages = messages(&there);
        assert_eq!(messages.len(), 4);
        let mut ours = vec![StreamTransfer {
            number: 39,
            is_sent: true,
            datagrams: Some(sent),
            ..StreamTransfer::default()
        }];
        merge(&mut ours, messages.iter().flat_map(lanes).collect());
        assert_eq!(ours[0].received, Some(side));
        assert_eq!(ours[0].datagrams.unwrap().lost, Some(3));
        assert_eq!(end_of(&messages[3]["end"]), there.end);
    }

    #[test]
    fn a_message_is_never_too_long() {
        let full = |_: &'static str| Some(u64::MAX);
        let lane = StreamTransfer {
            sent: Some(Side::find(full)),
            received: Some(Side::find(full)),
            sender: Some(Sender::find(full)),
            datagrams: Some(Datagrams::find(full)),
            ..StreamTransfer::default()
        };
        let seen = Seen {
            lanes: vec![lane; 128],
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
            ..Seen::default()
        };
        for message in messages(&seen) {
            assert!(message.to_string().len() < 64 * 1024);
        }
    }

    #[test]
    fn nonsense_is_nothing() {
        assert_eq!(lanes(&json!({"lanes": 7})).count(), 0);
        assert_eq!(lanes(&json!({"lanes": [7]})).count(), 1);
        assert_eq!(end_of(&json!([])), End::default());
    }
}
