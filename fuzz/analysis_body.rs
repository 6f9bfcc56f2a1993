//! Body of the fuzz target `analyses`, and of the test that replays its corpus.

use super::output::{AnalysisLayout, AnalysisWriter, CaptureTally, EndOwners, FlaggedSegment, Listed};
use sockeye_output::Format;
use sockeye_source::capture::Capture;
use sockeye_trace::{Connection, Endpoint, Options, Trace};
use sockeye_wire::packet::{Decoded, Fragments, Segment};
use std::io::Cursor;

/// Reads a capture file, compressed or not, analyses it, and prints it in every format.
pub(crate) fn analyses(bytes: &[u8]) {
    for format in [Format::Table, Format::Json, Format::Jsonl, Format::Csv] {
        for lists in [Listed::Connections, Listed::Segments] {
            let layout = AnalysisLayout {
                format,
                lists,
                width: bytes.len().is_multiple_of(2).then_some(bytes.len() % 100),
                is_detailed: bytes.len().is_multiple_of(3),
                ..AnalysisLayout::default()
            };
            let printed = print(bytes, layout);
            let text = std::str::from_utf8(&printed).expect("text");
            let is_harmless = |c: char| !c.is_control() || c == '\n' || (format == Format::Csv && c == '\r');
            assert!(text.chars().all(is_harmless), "{text:?}");
        }
    }
}

fn print(bytes: &[u8], layout: AnalysisLayout) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = AnalysisWriter::begin(&mut out, layout).expect("a vector takes it");
    let mut trace = Trace::new(Options::default());
    let mut fragments = Fragments::default();
    let mut tally = CaptureTally::default();
    let (mut owners, mut interfaces) = (EndOwners::default(), Vec::new());
    match Capture::new("capture".to_owned(), Cursor::new(bytes.to_vec())) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(mut capture) => loop {
            interfaces = capture
                .interfaces()
                .iter()
                .filter_map(|place| place.name.clone())
                .collect();
            let packet = match capture.next() {
                Ok(Some(packet)) => packet,
                Ok(None) => break,
                Err(error) => {
                    assert!(error.to_string().starts_with("c"), "names the capture: {error}");
                    break;
                }
            };
            tally.packets += 1;
            owners.client = packet.options().comment().map(Into::into);
            let segment = match packet.decode() {
                Ok(Decoded::Segment(segment)) => segment,
                Ok(Decoded::Fragment(fragment)) => match fragments.add(&fragment) {
                    Some(segment) => segment,
                    None => continue,
                },
                _ => continue,
            };
            let notes = trace.segment(packet.frame, packet.time_ns, &segment);
            tally.segments += 1;
            let (from, to) = ends(&segment);
            let flagged = FlaggedSegment {
                frame: packet.frame,
                time_ns: packet.time_ns,
                from,
                to,
                bytes: segment.payload_len,
                notes: &notes,
            };
            if layout.lists == Listed::Segments {
                writer.segment(&flagged).expect("a vector takes it");
            }
        },
    }
    let mut check_and_print = |connection: &Connection| {
        let Connection { begin_ns, end_ns, .. } = *connection;
        for side in [&connection.forward, &connection.backward] {
            let total = side.shares.total();
            assert!(total == 0 || total == end_ns - begin_ns, "{side:?}");
        }
        if layout.lists == Listed::Connections {
            writer.connection(connection, &owners).expect("a vector takes it");
        }
    };
    for over in trace.finish() {
        check_and_print(&over.connection);
        tally.connections += 1;
    }
    writer.finish(&tally, &interfaces).expect("a vector takes it");
    out
}

fn ends(segment: &Segment) -> (Endpoint, Endpoint) {
    let end = |ip, port| Endpoint { ip, port };
    (
        end(segment.source, segment.source_port),
        end(segment.destination, segment.destination_port),
    )
}
