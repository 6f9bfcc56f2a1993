//! An interactive page: one self-contained file with every point.
//!
//! `page.js` draws; this module packs its data: columns of numbers, as differences from the number before, in
//! variable-length encoding, deflated, in base64.

use super::GraphPanel;
use super::caption;
use super::derived::round_trip;
use super::estimate::estimates;
use super::event_rows::EventRow;
use super::legend;
use super::shapes::sign_of;
use super::view::{DirectionView, View, span};
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

/// Returns a CSS variable for each paint.
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

/// Returns everything except the points, as JSON without `<`, which could end its element.
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
    let directions = head.key("directions");
    directions.push(b'[');
    for (nth, direction) in view.directions.iter().enumerate() {
        if nth > 0 {
            directions.push(b',');
        }
        push_direction(directions, direction);
    }
    directions.push(b']');
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

fn push_direction(out: &mut Vec<u8>, direction: &DirectionView<'_>) {
    let estimates = estimates(direction).len();
    let side = &*direction.side;
    let mut object = Object::begin(out);
    object.word("name", direction.name());
    object.number("round_trip", Some(round_trip(direction)));
    let mut counts = object.object("counts");
    for (name, len) in [
        ("segments", side.segments.len()),
        ("acks", side.acks.len()),
        ("windows", side.windows.len()),
        ("marks", side.marks.len()),
        ("in_flight", side.in_flight.len()),
        ("rtt", side.rtt.len()),
        ("estimates", estimates),
        ("events", direction.events.len()),
    ] {
        counts.number(name, Some(len as u64));
    }
    counts.end();
    object.end();
}

/// Returns the name of an event in the list; its count or duration replaces `{}`.
const fn name_of(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Lost => "lost",
        EventKind::Reordered => "reordered",
        EventKind::Spurious => "sent again for nothing",
        EventKind::Unclear => "sent again, cause unclear",
        EventKind::DuplicatedByNetwork => "duplicated by the network",
        EventKind::DuplicatedByCapture => "captured twice",
        EventKind::MissingInCapture => "not captured",
        EventKind::Timeout => "retransmission timeout",
        EventKind::LossBurst { .. } => "{} lost at once",
        EventKind::Stall { .. } => "nothing moved for {}",
        EventKind::WindowClosed { .. } => "window closed for {}",
    }
}

/// Appends the names and paint of each kind of event.
fn push_kinds(out: &mut Vec<u8>) {
    out.push(b'[');
    for (nth, kind) in KINDS.into_iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        let mut object = Object::begin(out);
        object.word("word", kind.name());
        object.word("name", name_of(kind));
        object.word("paint", EventRow::of(kind).paint().class());
        object.end();
    }
    out.push(b']');
}

/// Returns the evidence texts of all events, each once.
fn evidence(view: &View<'_>) -> Vec<&'static str> {
    let texts = view
        .directions
        .iter()
        .flat_map(|direction| direction.events.iter().map(|event| event.evidence));
    texts.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the time span of a close view, in nanoseconds: about forty segments.
fn close_span(view: &View<'_>) -> u64 {
    let whole = view.time.1 - view.time.0;
    let segments = view
        .directions
        .iter()
        .map(|direction| direction.side.segments.len() as u64)
        .max()
        .unwrap_or(0);
    (whole / segments.max(1))
        .saturating_mul(40)
        .clamp(1_000, whole.max(1_000))
}

/// Returns all points, packed.
fn points(view: &View<'_>) -> String {
    let mut columns = Vec::new();
    let evidence = evidence(view);
    for direction in &view.directions {
        push_points(&mut columns, &direction.side);
        let estimates = estimates(direction);
        push_rising(&mut columns, estimates.iter().map(|one| one.from_ns));
        for one in &estimates {
            push(
                &mut columns,
                exact(one.until_ns).saturating_sub(exact(one.from_ns)),
            );
        }
        push_moving(&mut columns, estimates.iter().map(|one| one.bytes));
        push_events(&mut columns, &direction.events, &evidence);
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
        // As the page adds: the difference of numbers that it can represent.
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
            _ => event.segments,
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

/// Appends a difference: even if it is 0 or positive, odd if it is negative.
fn push_signed(out: &mut Vec<u8>, before: u64, value: u64) {
    if value >= before {
        push(out, (value - before) * 2);
    } else {
        push(out, (before - value) * 2 - 1);
    }
}

/// Appends a number in groups of seven bits, the lowest first.
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

/// Limits a number to those that JavaScript represents exactly, also as a difference of two.
fn exact(value: u64) -> u64 {
    value.min(1 << 52)
}

const PAGE: &str = include_str!("page.html");
const SPURIOUS: [Flag; 1] = [Flag::SpuriousRetransmission];
const AGAIN: [Flag; 2] = [Flag::FastRetransmission, Flag::Retransmission];
const REORDERED: [Flag; 1] = [Flag::OutOfOrder];
const PROBES: [Flag; 2] = [Flag::ZeroWindowProbe, Flag::KeepAlive];
/// The bit after those of the flags.
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
/// One event of each kind.
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
/// Compression level; the columns are so repetitive that a higher one gains little.
const DEFLATE: u8 = 3;
