//! Segments with flags, frame by frame.

use crate::output::endpoint;
use sockeye_output::address::push_ip;
use sockeye_output::csv::Line;
use sockeye_output::json::Object;
use sockeye_trace::{Endpoint, SegmentNotes};

/// A segment that tshark would flag.
#[derive(Debug, Clone, Copy)]
pub struct FlaggedSegment<'a> {
    /// Frame number in the file, from 1.
    pub frame: u64,
    /// Nanoseconds since the first packet of the file.
    pub time_ns: u64,
    /// Source.
    pub from: Endpoint,
    /// Destination.
    pub to: Endpoint,
    /// Payload, in bytes.
    pub bytes: u32,
    /// Flags and values.
    pub notes: &'a SegmentNotes,
}

impl FlaggedSegment<'_> {
    pub(super) fn push_text(&self, out: &mut Vec<u8>) {
        let seconds = self.time_ns / 1_000_000_000;
        let rest = self.time_ns % 1_000_000_000;
        let mut line = format!(
            "{:>7} {seconds:>5}.{rest:09}  {} -> {}  {} B ",
            self.frame,
            endpoint::text(self.from),
            endpoint::text(self.to),
            self.bytes
        );
        for flag in self.notes.flags.iter() {
            line.push(' ');
            line.push_str(flag.name());
        }
        let notes = self.notes;
        if let Some((number, frame)) = notes.duplicate_ack {
            line.push_str(&format!(" (number {number} of frame {frame})"));
        }
        if let (Some(ns), Some(frame)) = (notes.rto_ns, notes.rto_frame) {
            line.push_str(&format!(
                " ({:.6} s after frame {frame})",
                ns as f64 / 1_000_000_000.0
            ));
        }
        if let Some(bytes) = notes.bytes_in_flight {
            line.push_str(&format!(" {bytes} B in flight"));
        }
        line.push('\n');
        out.extend_from_slice(line.as_bytes());
    }

    pub(super) fn push_fields(&self, object: &mut Object<'_>) {
        object.number("frame", Some(self.frame));
        object.number("time_ns", Some(self.time_ns));
        object.number("connection", Some(self.notes.connection));
        for (name, end) in [("source", self.from), ("destination", self.to)] {
            let mut fields = object.object(name);
            endpoint::push_json(&mut fields, end);
            fields.end();
        }
        object.number("bytes", Some(self.bytes));
        let list = object.key("flags");
        list.push(b'[');
        for (nth, flag) in self.notes.flags.iter().enumerate() {
            if nth > 0 {
                list.push(b',');
            }
            list.extend_from_slice(format!("\"{}\"", flag.name()).as_bytes());
        }
        list.push(b']');
        for (name, value) in self.values() {
            object.number(name, value);
        }
    }

    pub(super) fn push_csv(&self, line: &mut Line<'_>) {
        line.number(Some(self.frame));
        line.number(Some(self.time_ns));
        line.number(Some(self.notes.connection));
        for end in [self.from, self.to] {
            push_ip(line.field(), end.ip);
            line.number(Some(end.port));
        }
        line.number(Some(self.bytes));
        let names: Vec<_> = self.notes.flags.iter().map(sockeye_trace::Flag::name).collect();
        line.word(&names.join(" "));
        for (_, value) in self.values() {
            line.number(value);
        }
    }

    fn values(&self) -> [(&'static str, Option<u64>); 8] {
        let notes = self.notes;
        [
            ("acks_frame", notes.acks_frame),
            ("ack_rtt_ns", notes.ack_rtt_ns),
            ("rto_ns", notes.rto_ns),
            ("rto_frame", notes.rto_frame),
            ("bytes_in_flight", notes.bytes_in_flight.map(u64::from)),
            ("push_bytes_sent", notes.push_bytes_sent.map(u64::from)),
            (
                "duplicate_ack_number",
                notes.duplicate_ack.map(|(number, _)| number.into()),
            ),
            ("duplicate_ack_frame", notes.duplicate_ack.map(|(_, frame)| frame)),
        ]
    }
}

pub(super) const CSV_COLUMNS: &str = "frame,time_ns,connection,source_ip,source_port,destination_ip,destination_port,bytes,flags,acks_frame,\
     ack_rtt_ns,rto_ns,rto_frame,bytes_in_flight,push_bytes_sent,duplicate_ack_number,duplicate_ack_frame";
