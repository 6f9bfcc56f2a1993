//! Several captures of one transfer: what was lost between which, and where the delay is.

use super::text::{endpoint, number_of, time};
use super::{AnalysisLayout, CaptureTally};
use sockeye_output::csv::Line;
use sockeye_output::format::Format;
use sockeye_output::json::Object;
use sockeye_output::text::harmless;
use sockeye_output::wrap::push_wrapped;
use sockeye_trace::{Endpoint, PairedDirection, Percentiles};

/// A capture.
#[derive(Debug, Clone)]
pub struct Place {
    /// What it is called
    pub name: String,
    /// What it held
    pub tally: CaptureTally,
    /// What it calls the interfaces that it was made on
    pub interfaces: Vec<String>,
}

/// A capture and the one behind it.
#[derive(Debug, Clone, Default)]
pub struct Comparison<'a> {
    /// By how much the second clock is ahead of the first
    pub offset_ns: i64,
    /// Whether that is measured
    pub is_offset_measured: bool,
    /// Segments that there was no room for
    pub left_out: u64,
    /// Whether both have any segment in common
    pub have_common: bool,
    /// Each direction, most segments first
    pub ways: Vec<ComparedWay<'a>>,
    /// Directions that are not listed
    pub more: usize,
}

/// A direction, with what the capture nearer to its sender says of it.
#[derive(Debug, Clone, Copy)]
pub struct ComparedWay<'a> {
    /// What both say
    pub way: &'a PairedDirection,
    /// Data
    pub bytes: Option<u64>,
    /// Segments that were lost, before, between or behind the two
    pub lost_in_all: Option<u64>,
    /// Of these, the ones that never came to the nearer capture
    pub lost_before: Option<u64>,
    /// Round trips, from the nearer capture to the receiver and back
    pub rtt: Option<Percentiles>,
}

/// Appends what several captures tell together, each with the one behind it.
pub fn push_comparisons(
    out: &mut Vec<u8>,
    places: &[Place],
    comparisons: &[Comparison<'_>],
    layout: &AnalysisLayout,
) {
    match layout.format {
        Format::Table => {
            for (pair, comparison) in places.windows(2).zip(comparisons) {
                push_text(out, pair, comparison, layout);
            }
        }
        Format::Json => push_json(out, places, comparisons),
        Format::Jsonl => {
            for (pair, comparison) in places.windows(2).zip(comparisons) {
                for way in &comparison.ways {
                    push_way(out, pair, way);
                    out.push(b'\n');
                }
            }
        }
        Format::Csv => push_csv(out, places, comparisons, layout),
    }
}

fn push_text(out: &mut Vec<u8>, pair: &[Place], comparison: &Comparison<'_>, layout: &AnalysisLayout) {
    let names: Vec<String> = pair.iter().map(|place| harmless(place.name.as_bytes())).collect();
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
        "whose clock cannot be told apart from the delay: segments went one way only".to_owned()
    };
    let heading = format!("Between {first} and {second}, {clocks}");
    push_wrapped(out, heading.as_bytes(), "", layout.width);
    for compared in &comparison.ways {
        let way = compared.way;
        if way.both == 0 {
            continue;
        }
        let (source, destination) = ends(way);
        let mut line = format!(
            "{} -> {}  {} in both",
            endpoint(source),
            endpoint(destination),
            number_of(way.both, "segment")
        );
        if let Some((source, destination)) = translated(way) {
            line.push_str(&format!(
                ", called {} -> {} in {second}",
                endpoint(source),
                endpoint(destination)
            ));
        }
        push_wrapped(out, line.as_bytes(), "  ", layout.width);
        let (near, far) = if way.is_first_nearer {
            (first, second)
        } else {
            (second, first)
        };
        push_wrapped(out, losses(compared, near, far).as_bytes(), "    ", layout.width);
        if way.delay.count > 0 {
            let reverse = comparison
                .ways
                .iter()
                .find(|other| (other.way.source, other.way.destination) == (way.destination, way.source));
            let text = delays(compared, reverse, near, far);
            push_wrapped(out, text.as_bytes(), "    ", layout.width);
        }
        let mut others = Vec::new();
        if way.reordered > 0 {
            others.push(format!(
                "{} overtaken between them",
                number_of(way.reordered, "segment")
            ));
        }
        if way.unseen > 0 {
            others.push(format!(
                "{} only in {far}: {near} missed them, or they were made two of on the way",
                number_of(way.unseen, "segment")
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
            "{} of {first} could not be compared: there was no room",
            number_of(comparison.left_out, "segment")
        );
        push_wrapped(out, text.as_bytes(), "  ", layout.width);
    }
    out.push(b'\n');
}

fn losses(compared: &ComparedWay<'_>, near: &str, far: &str) -> String {
    let way = compared.way;
    let between = if way.lost == 0 {
        format!("Nothing was lost between {near} and {far}")
    } else {
        let share = way.lost as f64 * 100.0 / (way.both + way.lost) as f64;
        let frames: Vec<_> = way.lost_frames.iter().take(FRAMES).map(u64::to_string).collect();
        let more = if way.lost > frames.len() as u64 {
            ", ..."
        } else {
            ""
        };
        format!(
            "{} lost between {near} and {far} ({share:.1}%): frames {}{more} of {near}",
            number_of(way.lost, "segment"),
            frames.join(", ")
        )
    };
    let before = compared.lost_before.unwrap_or(0);
    let behind = compared
        .lost_in_all
        .map_or(0, |all| all.saturating_sub(way.lost.saturating_add(before)));
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

fn delays(compared: &ComparedWay<'_>, reverse: Option<&ComparedWay<'_>>, near: &str, far: &str) -> String {
    let delay = &compared.way.delay;
    let mut text = format!(
        "From {near} to {far} it took {} (median; shortest {}, 99% {})",
        time(delay.p50_ns),
        time(delay.min_ns),
        time(delay.p99_ns)
    );
    if let (Some(rtt), Some(back)) = (compared.rtt, reverse.map(|back| back.way.delay))
        && back.count > 0
        && compared.bytes.is_some_and(|bytes| bytes > 0)
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

fn push_json(out: &mut Vec<u8>, places: &[Place], comparisons: &[Comparison<'_>]) {
    out.extend_from_slice(b"{\"captures\":[");
    for (nth, place) in places.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        out.push(b'{');
        let mut fields = Object::inside(out);
        fields.text("name", Some(&place.name));
        out.push(b',');
        place.tally.push_json_fields(out, &place.interfaces);
        out.push(b'}');
    }
    out.extend_from_slice(b"],\"comparisons\":[");
    for (nth, (pair, comparison)) in places.windows(2).zip(comparisons).enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        let mut object = Object::begin(out);
        object
            .key("offset_ns")
            .extend_from_slice(comparison.offset_ns.to_string().as_bytes());
        object.boolean("is_offset_measured", Some(comparison.is_offset_measured));
        object.number("left_out", Some(comparison.left_out));
        let list = object.key("ways");
        list.push(b'[');
        for (nth, way) in comparison.ways.iter().enumerate() {
            if nth > 0 {
                list.push(b',');
            }
            push_way(list, pair, way);
        }
        list.push(b']');
        object.end();
    }
    out.extend_from_slice(format!("],\"schema_version\":{}}}\n", sockeye_output::SCHEMA_VERSION).as_bytes());
}

fn push_way(out: &mut Vec<u8>, pair: &[Place], compared: &ComparedWay<'_>) {
    let way = compared.way;
    let mut object = Object::begin(out);
    let (near, far) = near_and_far(pair, way);
    object.text("nearer", near);
    object.text("farther", far);
    let (source, destination) = ends(way);
    for (name, end) in [("source", source), ("destination", destination)] {
        let mut fields = object.object(name);
        super::json::push_endpoint(&mut fields, end);
        fields.end();
    }
    if let Some((source, destination)) = translated(way) {
        let mut fields = object.object("translated");
        for (name, end) in [("source", source), ("destination", destination)] {
            let mut end_fields = fields.object(name);
            super::json::push_endpoint(&mut end_fields, end);
            end_fields.end();
        }
        fields.end();
    }
    object.number("both_segs", Some(way.both));
    object.number("lost_segs", Some(way.lost));
    object.number("lost_in_all_segs", compared.lost_in_all);
    object.number("lost_before_segs", compared.lost_before);
    object.number("unseen_segs", Some(way.unseen));
    object.number("reordered_segs", Some(way.reordered));
    object.number("bytes", compared.bytes);
    let frames: Vec<_> = way.lost_frames.iter().map(u64::to_string).collect();
    object
        .key("lost_frames")
        .extend_from_slice(format!("[{}]", frames.join(",")).as_bytes());
    super::json::push_percentiles(&mut object, "delay", &way.delay);
    if let Some(rtt) = &compared.rtt {
        super::json::push_percentiles(&mut object, "rtt", rtt);
    }
    object.end();
}

fn push_csv(out: &mut Vec<u8>, places: &[Place], comparisons: &[Comparison<'_>], layout: &AnalysisLayout) {
    if !layout.no_header {
        out.extend_from_slice(
            b"nearer,farther,source_ip,source_port,destination_ip,destination_port,both_segs,lost_segs,lost_in_all_segs,lost_before_segs,\
              unseen_segs,reordered_segs,bytes,delay_min_ns,delay_p50_ns,delay_p99_ns\r\n",
        );
    }
    for (pair, comparison) in places.windows(2).zip(comparisons) {
        for compared in &comparison.ways {
            let way = compared.way;
            let mut line = Line::begin(out);
            let (near, far) = near_and_far(pair, way);
            line.text(near);
            line.text(far);
            let (source, destination) = ends(way);
            for end in [source, destination] {
                sockeye_output::address::push_ip(line.field(), end.ip);
                line.number(Some(end.port));
            }
            line.number(Some(way.both));
            line.number(Some(way.lost));
            line.number(compared.lost_in_all);
            line.number(compared.lost_before);
            line.number(Some(way.unseen));
            line.number(Some(way.reordered));
            line.number(compared.bytes);
            let delay = Some(way.delay).filter(|delay| delay.count > 0);
            line.number(delay.map(|delay| delay.min_ns));
            line.number(delay.map(|delay| delay.p50_ns));
            line.number(delay.map(|delay| delay.p99_ns));
            line.end();
        }
    }
}

fn near_and_far<'a>(pair: &'a [Place], way: &PairedDirection) -> (Option<&'a str>, Option<&'a str>) {
    let name = |place: usize| pair.get(place).map(|place| place.name.as_str());
    if way.is_first_nearer {
        (name(0), name(1))
    } else {
        (name(1), name(0))
    }
}

/// What the second capture calls its ends.
fn translated(way: &PairedDirection) -> Option<(Endpoint, Endpoint)> {
    let [source, destination] = way.translated?.map(|(ip, port)| Endpoint { ip, port });
    Some((source, destination))
}

fn ends(way: &PairedDirection) -> (Endpoint, Endpoint) {
    let end = |(ip, port)| Endpoint { ip, port };
    (end(way.source), end(way.destination))
}

/// Frames that a line names.
const FRAMES: usize = 5;
