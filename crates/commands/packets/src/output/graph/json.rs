//! Every point as JSON: `docs/schema/graph.schema.json`.

use super::estimate::estimates;
use super::view::{DirectionView, View};
use crate::output::endpoint;
use crate::output::event_json::push_event_fields;
use sockeye_output::json::Object;
use sockeye_trace::{Direction, Event, MarkKind};
use std::io::{self, Write};

pub(super) fn write(out: &mut impl Write, view: &View<'_>) -> io::Result<()> {
    let mut text = Vec::with_capacity(2 * CHUNK);
    let connection = view.connection;
    let mut document = Object::begin(&mut text);
    view.layout.envelope.push(&mut document, "graph");
    let mut object = document.object("connection");
    object.number("number", Some(connection.number));
    for (name, end) in [("client", connection.client), ("server", connection.server)] {
        let mut fields = object.object(name);
        endpoint::push_json(&mut fields, end);
        fields.end();
    }
    object.number("begin_ns", Some(connection.begin_ns));
    object.number("end_ns", Some(connection.end_ns));
    object.end();
    let present = |text: &'_ String| (!text.is_empty()).then(|| text.clone());
    for (name, value) in [
        ("source", present(&view.layout.source)),
        ("verdict", present(&view.layout.verdict)),
    ] {
        if let Some(value) = value {
            text.extend_from_slice(format!(",\"{name}\":").as_bytes());
            text.extend_from_slice(sockeye_output::json::json_string(&value).as_bytes());
        }
    }
    for (name, count) in [
        ("segments_left_out", view.segments_left_out),
        ("events_left_out", connection.events_left_out),
    ] {
        if count > 0 {
            text.extend_from_slice(format!(",\"{name}\":{count}").as_bytes());
        }
    }
    text.extend_from_slice(b",\"directions\":[");
    for (nth, direction) in view.directions.iter().enumerate() {
        if nth > 0 {
            text.push(b',');
        }
        write_direction(out, &mut text, direction)?;
    }
    text.extend_from_slice(b"]}\n");
    out.write_all(&text)
}

fn write_direction(
    out: &mut impl Write,
    text: &mut Vec<u8>,
    direction: &DirectionView<'_>,
) -> io::Result<()> {
    let side = &*direction.side;
    let name = match direction.orientation {
        Direction::Forward => "client_to_server",
        Direction::Backward => "server_to_client",
    };
    text.extend_from_slice(format!("{{\"direction\":\"{name}\"").as_bytes());
    write_list(out, text, "segments", &side.segments, |object, segment| {
        object.number("time_ns", Some(segment.time_ns));
        object.number("frame", Some(segment.frame));
        object.number("start", Some(segment.start));
        object.number("end", Some(segment.end));
        if segment.is_pushed {
            object.boolean("pushed", Some(true));
        }
        if !segment.flags.is_empty() {
            let names: Vec<_> = segment
                .flags
                .iter()
                .map(|flag| format!("\"{}\"", flag.name()))
                .collect();
            let list = format!("[{}]", names.join(","));
            object.key("flags").extend_from_slice(list.as_bytes());
        }
    })?;
    write_list(out, text, "acks", &side.acks, |object, ack| {
        object.number("time_ns", Some(ack.time_ns));
        object.number("sequence", Some(ack.sequence));
        if ack.is_duplicate {
            object.boolean("duplicate", Some(true));
        }
    })?;
    write_list(out, text, "windows", &side.windows, |object, window| {
        object.number("time_ns", Some(window.time_ns));
        object.number("sequence", Some(window.sequence));
    })?;
    write_list(out, text, "marks", &side.marks, |object, mark| {
        object.number("time_ns", Some(mark.time_ns));
        object.number("sequence", Some(mark.sequence));
        if mark.kind == MarkKind::Sack {
            object.number("end", Some(mark.end));
        }
        object.word("kind", mark_word(mark.kind));
    })?;
    write_list(out, text, "in_flight", &side.in_flight, |object, point| {
        object.number("time_ns", Some(point.0));
        object.number("bytes", Some(point.1));
    })?;
    write_list(
        out,
        text,
        "cwnd_estimates",
        &estimates(direction),
        |object, one| {
            object.number("time_ns", Some(one.from_ns));
            object.number("until_ns", Some(one.until_ns));
            object.number("bytes", Some(one.bytes));
        },
    )?;
    write_list(out, text, "rtt", &side.rtt, |object, point| {
        object.number("time_ns", Some(point.0));
        object.number("rtt_ns", Some(point.1));
    })?;
    write_list(out, text, "events", &direction.events, push_event)?;
    text.push(b'}');
    Ok(())
}

fn push_event(object: &mut Object<'_>, event: &Event) {
    object.number("time_ns", Some(event.time_ns));
    object.number("frame", Some(event.frame));
    push_event_fields(object, event);
    object.text(
        "evidence",
        Some(event.evidence).filter(|evidence| !evidence.is_empty()),
    );
}

/// Writes a list of objects under a name, in chunks.
fn write_list<T>(
    out: &mut impl Write,
    text: &mut Vec<u8>,
    name: &str,
    list: &[T],
    push: impl Fn(&mut Object<'_>, &T),
) -> io::Result<()> {
    text.extend_from_slice(format!(",\"{name}\":[").as_bytes());
    for (nth, one) in list.iter().enumerate() {
        text.extend_from_slice(if nth > 0 { b",\n" } else { b"\n" });
        let mut object = Object::begin(text);
        push(&mut object, one);
        object.end();
        if text.len() >= CHUNK {
            out.write_all(text)?;
            text.clear();
        }
    }
    text.push(b']');
    Ok(())
}

const fn mark_word(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Syn => "syn",
        MarkKind::Fin => "fin",
        MarkKind::Reset => "reset",
        MarkKind::Urgent => "urgent",
        MarkKind::Sack => "sack",
        MarkKind::ZeroWindow => "zero_window",
        MarkKind::CongestionExperienced => "congestion_experienced",
    }
}

/// Size of a write.
const CHUNK: usize = 64 * 1024;
