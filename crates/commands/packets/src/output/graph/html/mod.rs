//! A page to look around in: one file, nothing from elsewhere, every point in it.
//!
//! `page.js` draws; here its data is packed: columns of numbers, each told by its difference from the one before, as
//! variable-length numbers, deflated, in base64.

use super::GraphPanel;
use super::caption;
use super::estimate::estimates;
use super::legend;
use super::measure::round_trip;
use super::sequence::sign_of;
use super::strip::Kind;
use super::view::{View, Way, span};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sockeye_output::json::{Object, json_string};
use sockeye_output::picture::GraphTheme;
use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::Sign;
use sockeye_output::picture::svg::push_escaped;
use sockeye_trace::{Event, EventKind, Flag, Flags, MarkKind, SideSeries};
use std::collections::BTreeSet;
use std::io::{self, Write};

pub(super) fn write(out: &mut impl Write, view: &View<'_>) -> io::Result<()> {
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        out.write_all(before.as_bytes())?;
        match name {
            "title" => out.write_all(escaped(&caption::title(view)).as_bytes())?,
            "verdict" => out.write_all(escaped(&caption::verdict(view)).as_bytes())?,
            "facts" => out.write_all(escaped(&caption::facts(view)).as_bytes())?,
            "colors" => out.write_all(colors(view.layout.theme).as_bytes())?,
            "style" => out.write_all(include_bytes!("page.css"))?,
            "script" => out.write_all(include_bytes!("page.js"))?,
            "legend" => out.write_all(legend_items(view).as_bytes())?,
            "head" => out.write_all(&head(view))?,
            "points" => out.write_all(points(view).as_bytes())?,
            _ => {}
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    push_escaped(&mut out, text);
    out
}

/// A variable for each paint.
fn colors(theme: GraphTheme) -> String {
    let variables = |dark: bool| {
        let scheme = if dark { "dark" } else { "light" };
        let colors = Paint::ALL.map(|paint| format!("--{}:#{:06x}", paint.class(), paint.color(dark)));
        format!(":root{{color-scheme:{scheme};{}}}", colors.join(";"))
    };
    match theme {
        GraphTheme::Light => variables(false),
        GraphTheme::Dark => variables(true),
        GraphTheme::Auto => format!(
            "{}\n@media(prefers-color-scheme:dark){{{}}}",
            variables(false),
            variables(true)
        ),
    }
}

fn legend_items(view: &View<'_>) -> String {
    let items = legend::entries(view).into_iter().map(|entry| {
        let (class, text) = (entry.paint.class(), escaped(entry.text));
        let sample = match entry.letter() {
            Some(letter) => format!("<b style=\"color:var(--{class})\">{letter}</b> "),
            None => format!("<i style=\"background:var(--{class})\"></i>"),
        };
        format!("<span>{sample}{text}</span>")
    });
    items.collect()
}

/// Everything but the points, as JSON in which no `<` could end its element.
fn head(view: &View<'_>) -> Vec<u8> {
    let mut json = Vec::new();
    let mut head = Object::begin(&mut json);
    head.number("from", Some(view.time.0));
    head.number("to", Some(view.time.1));
    head.number("close", Some(close_span(view)));
    let words = |out: &mut Vec<u8>, words: &mut dyn Iterator<Item = &str>| {
        let quoted: Vec<_> = words.map(|word| format!("\"{word}\"")).collect();
        out.extend_from_slice(format!("[{}]", quoted.join(",")).as_bytes());
    };
    words(
        head.key("paints"),
        &mut Paint::ALL.iter().map(|paint| paint.class()),
    );
    words(
        head.key("panels"),
        &mut view.panels().iter().map(|panel| panel.name()),
    );
    let mut titles = head.object("titles");
    for panel in GraphPanel::ALL {
        titles.word(panel.name(), panel.title());
    }
    titles.end();
    words(
        head.key("flag_names"),
        &mut Flag::ALL.iter().map(|flag| flag.name()),
    );
    let bits = |flags: &[Flag]| Some(flags.iter().fold(0_u32, |bits, flag| bits | 1 << *flag as u32));
    let mut flags = head.object("flags");
    flags.number("spurious", bits(&SPURIOUS));
    flags.number("again", bits(&AGAIN));
    flags.number("reordered", bits(&REORDERED));
    flags.number("probe", bits(&PROBES));
    flags.number("pushed", Some(PUSHED));
    flags.end();
    head.number(
        "odd",
        bits(&[&SPURIOUS[..], &AGAIN, &REORDERED, &PROBES].concat()),
    );
    let marks = MARKS.map(|kind| {
        let (paint, sign) = sign_of(kind);
        let text = if let Sign::Letter(letter) = sign {
            letter
        } else {
            ""
        };
        format!("{{\"text\":\"{text}\",\"paint\":\"{}\"}}", paint.class())
    });
    let text = format!("[{}]", marks.join(","));
    head.key("marks").extend_from_slice(text.as_bytes());
    push_kinds(head.key("kinds"));
    let texts: Vec<_> = evidence(view).into_iter().map(json_string).collect();
    let texts = format!("[{}]", texts.join(","));
    head.key("evidence").extend_from_slice(texts.as_bytes());
    let ways = head.key("ways");
    ways.push(b'[');
    for (nth, way) in view.ways.iter().enumerate() {
        if nth > 0 {
            ways.push(b',');
        }
        push_way(ways, way);
    }
    ways.push(b']');
    head.end();
    let mut safe = Vec::with_capacity(json.len());
    for byte in json {
        match byte {
            b'<' => safe.extend_from_slice(b"\\u003c"),
            _ => safe.push(byte),
        }
    }
    safe
}

fn push_way(out: &mut Vec<u8>, way: &Way<'_>) {
    let estimates = estimates(way).len();
    let side = &*way.side;
    let mut object = Object::begin(out);
    object.word("name", way.name());
    object.number("round_trip", Some(round_trip(way)));
    let mut counts = object.object("counts");
    for (name, len) in [
        ("segments", side.segments.len()),
        ("acks", side.acks.len()),
        ("windows", side.windows.len()),
        ("marks", side.marks.len()),
        ("in_flight", side.in_flight.len()),
        ("rtt", side.rtt.len()),
        ("estimates", estimates),
        ("events", way.events.len()),
    ] {
        counts.number(name, Some(len as u64));
    }
    counts.end();
    object.end();
}

/// What it is called in the list; the number or time that goes with it stands for `{}`.
const fn name_of(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Lost => "lost",
        EventKind::Reordered => "reordered",
        EventKind::Spurious => "sent again for nothing",
        EventKind::Unclear => "sent again, cannot tell why",
        EventKind::DuplicatedByNetwork => "duplicated by the network",
        EventKind::DuplicatedByCapture => "captured twice",
        EventKind::MissingInCapture => "not captured",
        EventKind::Timeout => "retransmission timeout",
        EventKind::LossBurst { .. } => "{} lost at once",
        EventKind::Stall { .. } => "nothing moved for {}",
        EventKind::WindowClosed { .. } => "window closed for {}",
    }
}

/// What is told of each kind of event.
fn push_kinds(out: &mut Vec<u8>) {
    out.push(b'[');
    for (nth, kind) in KINDS.into_iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        let mut object = Object::begin(out);
        object.word("word", kind.name());
        object.word("name", name_of(kind));
        object.word("paint", Kind::of(kind).paint().class());
        object.end();
    }
    out.push(b']');
}

/// Each text that proves an event, once.
fn evidence(view: &View<'_>) -> Vec<&'static str> {
    let texts = view
        .ways
        .iter()
        .flat_map(|way| way.events.iter().map(|event| event.evidence));
    texts.collect::<BTreeSet<_>>().into_iter().collect()
}

/// How much time to show around a moment: some forty segments, or a few round trips.
fn close_span(view: &View<'_>) -> u64 {
    let whole = view.time.1 - view.time.0;
    let segments = view
        .ways
        .iter()
        .map(|way| way.side.segments.len() as u64)
        .max()
        .unwrap_or(0);
    (whole / segments.max(1))
        .saturating_mul(40)
        .clamp(1_000, whole.max(1_000))
}

/// All points, packed.
fn points(view: &View<'_>) -> String {
    let mut columns = Vec::new();
    let evidence = evidence(view);
    for way in &view.ways {
        push_points(&mut columns, &way.side);
        let estimates = estimates(way);
        push_rising(&mut columns, estimates.iter().map(|one| one.from_ns));
        for one in &estimates {
            push(
                &mut columns,
                exact(one.until_ns).saturating_sub(exact(one.from_ns)),
            );
        }
        push_moving(&mut columns, estimates.iter().map(|one| one.bytes));
        push_events(&mut columns, &way.events, &evidence);
    }
    BASE64_STANDARD.encode(miniz_oxide::deflate::compress_to_vec(&columns, DEFLATE))
}

fn push_points(out: &mut Vec<u8>, side: &SideSeries) {
    let SideSeries {
        segments,
        acks,
        windows,
        marks,
        in_flight,
        rtt,
    } = side;
    push_rising(out, segments.iter().map(|point| point.time_ns));
    let mut end = 0;
    for point in segments {
        push_signed(out, end, exact(point.start));
        // As the page adds: the difference of what it can tell apart.
        end = exact(point.start) + exact(point.end).saturating_sub(exact(point.start));
    }
    for point in segments {
        push(out, exact(point.end).saturating_sub(exact(point.start)));
    }
    for point in segments {
        push(
            out,
            bits(point.flags) | if point.is_pushed { u64::from(PUSHED) } else { 0 },
        );
    }
    push_moving(out, segments.iter().map(|point| point.frame));
    push_rising(out, acks.iter().map(|point| point.time_ns));
    push_moving(out, acks.iter().map(|point| point.sequence));
    for point in acks {
        push(out, u64::from(point.is_duplicate));
    }
    push_rising(out, windows.iter().map(|point| point.time_ns));
    push_moving(out, windows.iter().map(|point| point.sequence));
    push_rising(out, marks.iter().map(|mark| mark.time_ns));
    push_moving(out, marks.iter().map(|mark| mark.sequence));
    for mark in marks {
        push(out, exact(mark.end).saturating_sub(exact(mark.sequence)));
    }
    for mark in marks {
        push(
            out,
            MARKS.iter().position(|kind| *kind == mark.kind).unwrap_or(0) as u64,
        );
    }
    push_rising(out, in_flight.iter().map(|point| point.0));
    push_moving(out, in_flight.iter().map(|point| u64::from(point.1)));
    push_rising(out, rtt.iter().map(|point| point.0));
    push_moving(out, rtt.iter().map(|point| point.1));
}

fn push_events(out: &mut Vec<u8>, events: &[Event], evidence: &[&str]) {
    push_rising(out, events.iter().map(|event| event.time_ns));
    for event in events {
        let (from, until) = span(event);
        push(out, exact(until).saturating_sub(exact(from)));
    }
    push_moving(out, events.iter().map(|event| event.frame));
    for event in events {
        let word = event.kind.name();
        let nth = KINDS.iter().position(|kind| kind.name() == word);
        push(out, nth.unwrap_or(0) as u64);
    }
    for event in events {
        let segments = match event.kind {
            EventKind::LossBurst { segments } => segments,
            _ => 0,
        };
        push(out, segments.into());
    }
    for event in events {
        push(out, evidence.binary_search(&event.evidence).unwrap_or(0) as u64);
    }
}

fn push_rising(out: &mut Vec<u8>, values: impl Iterator<Item = u64>) {
    let mut before = 0;
    for value in values.map(exact) {
        push(out, value.saturating_sub(before));
        before = before.max(value);
    }
}

fn push_moving(out: &mut Vec<u8>, values: impl Iterator<Item = u64>) {
    let mut before = 0;
    for value in values.map(exact) {
        push_signed(out, before, value);
        before = value;
    }
}

/// A difference: even if it is none or more, odd if it is less.
fn push_signed(out: &mut Vec<u8>, before: u64, value: u64) {
    if value >= before {
        push(out, (value - before) * 2);
    } else {
        push(out, (before - value) * 2 - 1);
    }
}

/// Seven bits a byte, the lowest first.
fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bits(flags: Flags) -> u64 {
    flags.iter().fold(0, |bits, flag| bits | 1 << flag as u64)
}

/// What JavaScript can tell from its neighbours, also as a difference of two.
fn exact(value: u64) -> u64 {
    value.min(1 << 52)
}

const PAGE: &str = include_str!("page.html");
const SPURIOUS: [Flag; 1] = [Flag::SpuriousRetransmission];
const AGAIN: [Flag; 2] = [Flag::FastRetransmission, Flag::Retransmission];
const REORDERED: [Flag; 1] = [Flag::OutOfOrder];
const PROBES: [Flag; 2] = [Flag::ZeroWindowProbe, Flag::KeepAlive];
/// The bit behind those of the flags
const PUSHED: u32 = 1 << Flag::ALL.len();
const MARKS: [MarkKind; 7] = [
    MarkKind::Syn,
    MarkKind::Fin,
    MarkKind::Reset,
    MarkKind::Urgent,
    MarkKind::Sack,
    MarkKind::ZeroWindow,
    MarkKind::CongestionExperienced,
];
/// One of each kind
const KINDS: [EventKind; 11] = [
    EventKind::Lost,
    EventKind::Reordered,
    EventKind::Spurious,
    EventKind::Unclear,
    EventKind::DuplicatedByNetwork,
    EventKind::DuplicatedByCapture,
    EventKind::MissingInCapture,
    EventKind::Timeout,
    EventKind::LossBurst { segments: 0 },
    EventKind::Stall { duration_ns: 0 },
    EventKind::WindowClosed { duration_ns: 0 },
];
/// Columns repeat themselves so much that more effort gains little
const DEFLATE: u8 = 3;
