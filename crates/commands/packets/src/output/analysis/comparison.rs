//! Several captures of one transfer: where segments were lost, and where the delay is.

use super::quantity::time;
use super::{AnalysisLayout, CaptureTally};
use crate::output::endpoint;
use sockeye_model::counted;
use sockeye_output::Envelope;
use sockeye_output::format::Format;
use sockeye_output::json::Object;
use sockeye_output::sheet::Sheet;
use sockeye_output::text::harmless;
use sockeye_output::wrap::push_wrapped;
use sockeye_trace::{Endpoint, PairedDirection, Percentiles};

/// A capture that is direction with others.
#[derive(Debug, Clone)]
pub struct ComparedCapture {
    /// Name of the capture.
    pub name: String,
    /// Its counts.
    pub tally: CaptureTally,
    /// Names of the interfaces in the capture.
    pub interfaces: Vec<String>,
}

/// The comparison of a capture with the next one.
#[derive(Debug, Clone, Default)]
pub struct Comparison<'a> {
    /// Nanoseconds by which the second clock is ahead of the first.
    pub offset_ns: i64,
    /// Whether the offset is measured.
    pub is_offset_measured: bool,
    /// Segments that did not fit into memory.
    pub left_out: u64,
    /// Whether the captures have any segment in common.
    pub have_common: bool,
    /// Listed directions, by descending number of segments.
    pub directions: Vec<ComparedDirection<'a>>,
    /// Number of directions that are not listed.
    pub more: usize,
}

/// A direction in both captures, with figures of the capture nearer to its sender.
#[derive(Debug, Clone, Copy)]
pub struct ComparedDirection<'a> {
    /// The direction in both captures.
    pub pair: &'a PairedDirection,
    /// Data, in bytes; `None` if unknown.
    pub bytes: Option<u64>,
    /// Segments that were lost before, between or after the captures; `None` if unknown.
    pub lost_in_all: Option<u64>,
    /// Segments that were lost before the nearer capture; `None` if unknown.
    pub lost_before: Option<u64>,
    /// Round trips from the nearer capture to the receiver and back; `None` if unknown.
    pub rtt: Option<Percentiles>,
}

/// Appends the comparisons of several captures, each with the next one.
pub fn push_comparisons(
    out: &mut Vec<u8>,
    captures: &[ComparedCapture],
    comparisons: &[Comparison<'_>],
    layout: &AnalysisLayout,
) {
    match layout.format {
        Format::Table => {
            for (neighbours, comparison) in captures.windows(2).zip(comparisons) {
                push_text(out, neighbours, comparison, layout);
            }
        }
        Format::Json => push_json(out, captures, comparisons, &layout.envelope),
        Format::Jsonl => {
            for (neighbours, comparison) in captures.windows(2).zip(comparisons) {
                for direction in &comparison.directions {
                    let mut object = Object::begin(out);
                    layout.envelope.push(&mut object, "path_direction");
                    push_direction(&mut object, neighbours, direction);
                    object.end();
                    out.push(b'\n');
                }
            }
            layout.envelope.push_summary_line(out, "analyze", |summary| {
                push_captures(summary, captures);
            });
        }
        Format::Csv => push_csv(out, captures, comparisons, layout),
    }
}

fn push_text(
    out: &mut Vec<u8>,
    neighbours: &[ComparedCapture],
    comparison: &Comparison<'_>,
    layout: &AnalysisLayout,
) {
    let names: Vec<String> = neighbours
        .iter()
        .map(|capture| harmless(capture.name.as_bytes()))
        .collect();
    let [first, second] = &names[..] else { return };
    if !comparison.have_common {
        let text = format!(
            "{first} and {second} have no segment in common: not the same transfer, not at the same time, or addresses were \
             translated between them and no handshake is in both."
        );
        push_wrapped(out, text.as_bytes(), "", layout.width);
        out.push(b'\n');
        return;
    }
    let clocks = if comparison.is_offset_measured && comparison.offset_ns.unsigned_abs() < 1_000 {
        "whose clocks agree".to_owned()
    } else if comparison.is_offset_measured {
        let ahead = if comparison.offset_ns < 0 {
            "behind"
        } else {
            "ahead"
        };
        format!(
            "whose clock is {} {ahead}",
            time(comparison.offset_ns.unsigned_abs())
        )
    } else {
        "whose clock offset is unknown: segments went in one direction only".to_owned()
    };
    let heading = format!("Between {first} and {second}, {clocks}");
    push_wrapped(out, heading.as_bytes(), "", layout.width);
    for direction in &comparison.directions {
        let pair = direction.pair;
        if pair.both == 0 {
            continue;
        }
        let (source, destination) = ends(pair);
        let mut line = format!(
            "{} -> {}  {} in both",
            endpoint::text(source),
            endpoint::text(destination),
            counted(pair.both, "segment")
        );
        if let Some((source, destination)) = translated(pair) {
            line.push_str(&format!(
                ", called {} -> {} in {second}",
                endpoint::text(source),
                endpoint::text(destination)
            ));
        }
        push_wrapped(out, line.as_bytes(), "  ", layout.width);
        let (near, far) = if pair.is_first_nearer {
            (first, second)
        } else {
            (second, first)
        };
        push_wrapped(out, losses(direction, near, far).as_bytes(), "    ", layout.width);
        if pair.delay.count > 0 {
            let reverse = comparison
                .directions
                .iter()
                .find(|other| (other.pair.source, other.pair.destination) == (pair.destination, pair.source));
            let text = delays(direction, reverse, near, far);
            push_wrapped(out, text.as_bytes(), "    ", layout.width);
        }
        let mut others = Vec::new();
        if pair.reordered > 0 {
            others.push(format!(
                "{} overtaken between them",
                counted(pair.reordered, "segment")
            ));
        }
        if pair.unseen > 0 {
            others.push(format!(
                "{} only in {far}: {near} missed them, or they were duplicated on the path",
                counted(pair.unseen, "segment")
            ));
        }
        if !others.is_empty() {
            push_wrapped(
                out,
                format!("{}.", others.join(", ")).as_bytes(),
                "    ",
                layout.width,
            );
        }
    }
    if comparison.more > 0 {
        out.extend_from_slice(format!("  ... and {} more directions\n", comparison.more).as_bytes());
    }
    if comparison.left_out > 0 {
        let text = format!(
            "{} of {first} could not be compared: they exceed the memory limit",
            counted(comparison.left_out, "segment")
        );
        push_wrapped(out, text.as_bytes(), "  ", layout.width);
    }
    out.push(b'\n');
}

fn losses(direction: &ComparedDirection<'_>, near: &str, far: &str) -> String {
    let pair = direction.pair;
    let between = if pair.lost == 0 {
        format!("Nothing was lost between {near} and {far}")
    } else {
        let share = pair.lost as f64 * 100.0 / (pair.both + pair.lost) as f64;
        let frames: Vec<_> = pair
            .lost_frames
            .iter()
            .take(FRAMES_MAX)
            .map(u64::to_string)
            .collect();
        let more = if pair.lost > frames.len() as u64 {
            ", ..."
        } else {
            ""
        };
        format!(
            "{} lost between {near} and {far} ({share:.1}%): frames {}{more} of {near}",
            counted(pair.lost, "segment"),
            frames.join(", ")
        )
    };
    let before = direction.lost_before.unwrap_or(0);
    let behind = direction
        .lost_in_all
        .map_or(0, |all| all.saturating_sub(pair.lost.saturating_add(before)));
    let mut text = between;
    if before > 0 {
        text.push_str(&format!("; {before} before they came to {near}"));
    }
    if behind > 0 {
        text.push_str(&format!("; about {behind} behind {far}"));
    }
    text.push('.');
    text
}

fn delays(
    direction: &ComparedDirection<'_>,
    reverse: Option<&ComparedDirection<'_>>,
    near: &str,
    far: &str,
) -> String {
    let delay = &direction.pair.delay;
    let mut text = format!(
        "From {near} to {far} it took {} (median; shortest {}, 99% {})",
        time(delay.p50_ns),
        time(delay.min_ns),
        time(delay.p99_ns)
    );
    if let (Some(rtt), Some(back)) = (direction.rtt, reverse.map(|back| back.pair.delay))
        && back.count > 0
        && direction.bytes.is_some_and(|bytes| bytes > 0)
    {
        let between = delay.p50_ns.saturating_add(back.p50_ns);
        text.push_str(&format!(
            "; of a round trip of {} (median), {} are between them and {} behind {far}",
            time(rtt.p50_ns),
            time(between.min(rtt.p50_ns)),
            time(rtt.p50_ns.saturating_sub(between))
        ));
    }
    text.push('.');
    text
}

fn push_captures(object: &mut Object<'_>, captures: &[ComparedCapture]) {
    let out = object.key("captures");
    out.push(b'[');
    for (nth, capture) in captures.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        let mut fields = Object::begin(out);
        fields.text("name", Some(&capture.name));
        capture.tally.push_json_fields(&mut fields, &capture.interfaces);
        fields.end();
    }
    out.push(b']');
}

fn push_json(
    out: &mut Vec<u8>,
    captures: &[ComparedCapture],
    comparisons: &[Comparison<'_>],
    envelope: &Envelope,
) {
    let mut document = Object::begin(out);
    envelope.push(&mut document, "analyze");
    push_captures(&mut document, captures);
    let array = document.key("comparisons");
    array.push(b'[');
    for (nth, (neighbours, comparison)) in captures.windows(2).zip(comparisons).enumerate() {
        if nth > 0 {
            array.push(b',');
        }
        let mut object = Object::begin(array);
        object
            .key("offset_ns")
            .extend_from_slice(comparison.offset_ns.to_string().as_bytes());
        object.boolean("is_offset_measured", Some(comparison.is_offset_measured));
        object.number("left_out", Some(comparison.left_out));
        let list = object.key("directions");
        list.push(b'[');
        for (nth, direction) in comparison.directions.iter().enumerate() {
            if nth > 0 {
                list.push(b',');
            }
            let mut fields = Object::begin(list);
            push_direction(&mut fields, neighbours, direction);
            fields.end();
        }
        list.push(b']');
        object.end();
    }
    array.push(b']');
    document.end();
    out.push(b'\n');
}

fn push_direction(
    object: &mut Object<'_>,
    neighbours: &[ComparedCapture],
    direction: &ComparedDirection<'_>,
) {
    let pair = direction.pair;
    let (near, far) = near_and_far(neighbours, pair);
    object.text("nearer", near);
    object.text("farther", far);
    let (source, destination) = ends(pair);
    for (name, end) in [("source", source), ("destination", destination)] {
        let mut fields = object.object(name);
        endpoint::push_json(&mut fields, end);
        fields.end();
    }
    if let Some((source, destination)) = translated(pair) {
        let mut fields = object.object("translated");
        for (name, end) in [("source", source), ("destination", destination)] {
            let mut end_fields = fields.object(name);
            endpoint::push_json(&mut end_fields, end);
            end_fields.end();
        }
        fields.end();
    }
    object.number("both_segs", Some(pair.both));
    object.number("lost_segs", Some(pair.lost));
    object.number("lost_in_all_segs", direction.lost_in_all);
    object.number("lost_before_segs", direction.lost_before);
    object.number("unseen_segs", Some(pair.unseen));
    object.number("reordered_segs", Some(pair.reordered));
    object.number("bytes", direction.bytes);
    let frames: Vec<_> = pair.lost_frames.iter().map(u64::to_string).collect();
    object
        .key("lost_frames")
        .extend_from_slice(format!("[{}]", frames.join(",")).as_bytes());
    super::json::push_percentiles(object, "delay", &pair.delay);
    if let Some(rtt) = &direction.rtt {
        super::json::push_percentiles(object, "rtt", rtt);
    }
}

fn push_csv(
    out: &mut Vec<u8>,
    captures: &[ComparedCapture],
    comparisons: &[Comparison<'_>],
    layout: &AnalysisLayout,
) {
    let columns = "nearer,farther,source_ip,source_port,destination_ip,destination_port,both_segs,lost_segs,lost_in_all_segs,\
                   lost_before_segs,unseen_segs,reordered_segs,bytes,delay_min_ns,delay_p50_ns,delay_p99_ns";
    let mut sheet = Sheet::begin(out, &layout.envelope, layout.no_header, columns);
    for (neighbours, comparison) in captures.windows(2).zip(comparisons) {
        for direction in &comparison.directions {
            let pair = direction.pair;
            let mut line = sheet.line();
            let (near, far) = near_and_far(neighbours, pair);
            line.text(near);
            line.text(far);
            let (source, destination) = ends(pair);
            for end in [source, destination] {
                sockeye_output::address::push_ip(line.field(), end.ip);
                line.number(Some(end.port));
            }
            line.number(Some(pair.both));
            line.number(Some(pair.lost));
            line.number(direction.lost_in_all);
            line.number(direction.lost_before);
            line.number(Some(pair.unseen));
            line.number(Some(pair.reordered));
            line.number(direction.bytes);
            let delay = Some(pair.delay).filter(|delay| delay.count > 0);
            line.number(delay.map(|delay| delay.min_ns));
            line.number(delay.map(|delay| delay.p50_ns));
            line.number(delay.map(|delay| delay.p99_ns));
            line.end();
        }
    }
    sheet.end();
}

fn near_and_far<'a>(
    neighbours: &'a [ComparedCapture],
    pair: &PairedDirection,
) -> (Option<&'a str>, Option<&'a str>) {
    let name = |index: usize| neighbours.get(index).map(|capture| capture.name.as_str());
    if pair.is_first_nearer {
        (name(0), name(1))
    } else {
        (name(1), name(0))
    }
}

/// Returns its ends in the second capture; `None` if addresses were not translated.
fn translated(pair: &PairedDirection) -> Option<(Endpoint, Endpoint)> {
    let [source, destination] = pair.translated?.map(|(ip, port)| Endpoint { ip, port });
    Some((source, destination))
}

fn ends(pair: &PairedDirection) -> (Endpoint, Endpoint) {
    let end = |(ip, port)| Endpoint { ip, port };
    (end(pair.source), end(pair.destination))
}

/// Limit for frame numbers in a line.
const FRAMES_MAX: usize = 5;
