//! Graphs in every format: their content, whether they are well-formed, and whether text from outside is escaped.

use super::fixtures::{check_golden, without_escapes};
use super::transfers::{Transfer, connection, turned};
use crate::output::{GraphDirections, GraphFormat, GraphLayout, GraphPanel, write_graph};
use sockeye_output::GraphTheme;
use sockeye_trace::{
    AckPoint, Confidence, Connection, Event, EventKind, Flag, Flags, Mark, MarkKind, SegmentPoint, Series,
    SideSeries, WindowPoint,
};

const SCHEMA: &str = include_str!("../../../../../docs/schema/graph.schema.json");

const FORMATS: [GraphFormat; 8] = [
    GraphFormat::Svg,
    GraphFormat::Png,
    GraphFormat::Html,
    GraphFormat::Xpl,
    GraphFormat::Json,
    GraphFormat::Text,
    GraphFormat::Sixel,
    GraphFormat::Kitty,
];

fn draw(series: &Series, connection: &Connection, layout: &GraphLayout) -> Vec<u8> {
    let mut out = Vec::new();
    write_graph(&mut out, series, connection, layout).unwrap();
    out
}

fn text(series: &Series, layout: &GraphLayout) -> String {
    String::from_utf8(draw(series, &connection(series), layout)).unwrap()
}

fn layout(format: GraphFormat) -> GraphLayout {
    GraphLayout {
        format,
        width: if format == GraphFormat::Text { 80 } else { 700 },
        scale: 1,
        ..GraphLayout::default()
    }
}

/// Returns a series with one of each element.
fn small() -> Series {
    let segment = |time_ns, nth: u64, flags| SegmentPoint {
        time_ns,
        start: 1 + nth * 1000,
        end: 1001 + nth * 1000,
        flags,
        frame: 4 + time_ns / 1_000_000,
        is_pushed: nth == 2,
    };
    let ack = |time_ns, sequence, is_duplicate| AckPoint {
        time_ns,
        sequence,
        is_duplicate,
    };
    let mark = |time_ns, sequence, end, kind| Mark {
        time_ns,
        sequence,
        end,
        kind,
    };
    let event = |time_ns, kind| Event {
        time_ns,
        frame: 7,
        from_client: true,
        kind,
        segments: 1,
        confidence: Confidence::Proven,
        evidence: "never SACKed, sent again",
    };
    Series {
        forward: SideSeries {
            segments: vec![
                segment(1_000_000, 0, Flags::NONE),
                segment(2_000_000, 1, Flags::NONE),
                segment(3_000_000, 2, Flags::NONE),
                segment(9_000_000, 1, Flags::NONE.with(Flag::FastRetransmission)),
                segment(10_000_000, 0, Flags::NONE.with(Flag::SpuriousRetransmission)),
                segment(11_000_000, 3, Flags::NONE.with(Flag::OutOfOrder)),
            ],
            acks: vec![
                ack(4_000_000, 1001, false),
                ack(5_000_000, 1001, true),
                ack(12_000_000, 4001, false),
            ],
            windows: vec![
                WindowPoint {
                    time_ns: 4_000_000,
                    sequence: 5001,
                },
                WindowPoint {
                    time_ns: 12_000_000,
                    sequence: 4501,
                },
            ],
            marks: vec![
                mark(0, 0, 0, MarkKind::Syn),
                mark(5_000_000, 2001, 3001, MarkKind::Sack),
                mark(12_000_000, 4001, 4001, MarkKind::ZeroWindow),
                mark(13_000_000, 4001, 4001, MarkKind::Fin),
            ],
            in_flight: vec![
                (1_000_000, 1000),
                (2_000_000, 2000),
                (3_000_000, 3000),
                (4_000_000, 2000),
                (12_000_000, 0),
            ],
            rtt: vec![(4_000_000, 3_000_000), (12_000_000, 2_500_000)],
        },
        backward: SideSeries::default(),
        events: vec![
            event(2_000_000, EventKind::Lost),
            event(
                5_000_000,
                EventKind::Stall {
                    duration_ns: 4_000_000,
                },
            ),
            event(10_000_000, EventKind::Spurious),
            event(10_000_000, EventKind::LossBurst { segments: 3 }),
        ],
        segments_left_out: 0,
    }
}

#[test]
fn small_graph_equals_golden() {
    let verdict = "lost one of four & waited <4 ms>".to_owned();
    let svg = GraphLayout {
        verdict: verdict.clone(),
        source: "a.pcap".to_owned(),
        ..layout(GraphFormat::Svg)
    };
    check_golden("graph-small.svg", &text(&small(), &svg));
    let plain = GraphLayout {
        verdict,
        ..layout(GraphFormat::Text)
    };
    check_golden("graph-small.txt", &text(&small(), &plain));
    check_golden("graph-small.xpl", &text(&small(), &layout(GraphFormat::Xpl)));
}

#[test]
fn odd_series_are_drawn_in_every_format() {
    let segment = |time_ns, start, end| SegmentPoint {
        time_ns,
        start,
        end,
        flags: Flags::NONE.with(Flag::Retransmission),
        frame: u64::MAX,
        is_pushed: true,
    };
    let one = |side: SideSeries| Series {
        forward: side,
        ..Series::default()
    };
    let segments = |segments| {
        one(SideSeries {
            segments,
            ..SideSeries::default()
        })
    };
    let event = |time_ns, kind| Event {
        time_ns,
        frame: 0,
        from_client: true,
        kind,
        segments: 1,
        confidence: Confidence::Likely,
        evidence: "</script><script>injected = 1</script>",
    };
    let all = [
        Series::default(),
        segments(vec![segment(0, 0, 0)]),
        segments(vec![segment(u64::MAX, u64::MAX, u64::MAX)]),
        // The end before the start, time backwards, everything at once
        segments(vec![
            segment(u64::MAX, 5, 1),
            segment(0, u64::MAX, 0),
            segment(7, 0, u64::MAX),
            segment(7, 0, u64::MAX),
        ]),
        one(SideSeries {
            acks: vec![
                AckPoint {
                    time_ns: 5,
                    sequence: u64::MAX,
                    is_duplicate: true,
                },
                AckPoint {
                    time_ns: 1,
                    sequence: 0,
                    is_duplicate: false,
                },
            ],
            windows: vec![
                WindowPoint {
                    time_ns: u64::MAX,
                    sequence: u64::MAX,
                },
                WindowPoint {
                    time_ns: 0,
                    sequence: 0,
                },
            ],
            marks: vec![
                Mark {
                    time_ns: 9,
                    sequence: u64::MAX,
                    end: 0,
                    kind: MarkKind::Sack
                };
                3
            ],
            in_flight: vec![(u64::MAX, u32::MAX), (0, 0)],
            rtt: vec![(3, u64::MAX), (3, 0)],
            segments: Vec::new(),
        }),
        Series {
            events: vec![
                event(
                    5,
                    EventKind::Stall {
                        duration_ns: u64::MAX,
                    },
                ),
                event(u64::MAX, EventKind::WindowClosed { duration_ns: 0 }),
                event(u64::MAX, EventKind::LossBurst { segments: u32::MAX }),
            ],
            ..small()
        },
    ];
    for series in &all {
        for format in FORMATS {
            for width in [0, 40, 900, u32::MAX] {
                let is_bitmap = matches!(format, GraphFormat::Png | GraphFormat::Sixel | GraphFormat::Kitty);
                if width > 40 && !matches!(format, GraphFormat::Svg | GraphFormat::Text | GraphFormat::Html) {
                    continue;
                }
                let layout = GraphLayout {
                    width,
                    height: [None, Some(0), Some(300)][width as usize % 3],
                    panels: if width == 0 || is_bitmap {
                        Vec::new()
                    } else {
                        GraphPanel::ALL.to_vec()
                    },
                    directions: GraphDirections::Both,
                    color: true,
                    ..layout(format)
                };
                let out = draw(series, &connection(&Series::default()), &layout);
                match format {
                    GraphFormat::Svg => well_formed(&String::from_utf8(out).unwrap()),
                    GraphFormat::Json => drop(validated(&out)),
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn text_from_outside_is_escaped() {
    let evil = "</script><script>injected=1</script><img src=x onerror=injected=1>&amp;\"'\x1b]0;owned\x07\u{202e}{{script}}\u{ffff}";
    for format in [
        GraphFormat::Svg,
        GraphFormat::Html,
        GraphFormat::Xpl,
        GraphFormat::Json,
        GraphFormat::Text,
    ] {
        let layout = GraphLayout {
            source: evil.to_owned(),
            verdict: evil.to_owned(),
            ..layout(format)
        };
        let out = text(&small(), &layout);
        let is_markup = matches!(format, GraphFormat::Svg | GraphFormat::Html);
        let ours = if format == GraphFormat::Html { 3 } else { 0 };
        assert!(
            !is_markup || out.matches("<script").count() == ours && !out.contains("<img"),
            "{format:?}"
        );
        assert!(
            !out.contains('\x1b') && !out.contains('\x07') && !out.contains('\u{202e}'),
            "{format:?}"
        );
        if format == GraphFormat::Svg {
            well_formed(&out);
        }
    }
}

/// The picture itself shows what is missing: its reader has not seen the messages of the command.
#[test]
fn picture_shows_what_was_left_out() {
    let series = Series {
        segments_left_out: 12_345,
        ..small()
    };
    let connection = Connection {
        events_left_out: 6_789,
        ..connection(&series)
    };
    for format in FORMATS {
        let plain = draw(&small(), &connection, &layout(format));
        let out = draw(&series, &connection, &layout(format));
        assert_ne!(plain, out, "{format:?}");
        let text = String::from_utf8_lossy(&out);
        match format {
            GraphFormat::Png | GraphFormat::Sixel | GraphFormat::Kitty => {}
            GraphFormat::Json => {
                let value = validated(&out);
                assert_eq!(value["segments_left_out"], 12_345);
                assert_eq!(value["events_left_out"], 6_789);
            }
            _ => {
                assert!(
                    text.contains("12,345 later segments are not drawn"),
                    "{format:?}: {text}"
                );
                assert!(text.contains("6,789 events"), "{format:?}");
            }
        }
    }
}

#[test]
fn json_follows_its_schema() {
    let (series, _) = Transfer {
        closed: Some((300, 500_000_000)),
        queue: 5,
        ..Transfer::default()
    }
    .run();
    for series in [small(), turned(series)] {
        let layout = GraphLayout {
            verdict: "x".to_owned(),
            directions: GraphDirections::Both,
            ..layout(GraphFormat::Json)
        };
        let value = validated(&draw(&series, &connection(&series), &layout));
        let count =
            |direction: usize, list: &str| value["directions"][direction][list].as_array().unwrap().len();
        assert_eq!(count(0, "segments"), series.forward.segments.len());
        assert_eq!(count(1, "acks"), series.backward.acks.len());
        assert_eq!(count(0, "events") + count(1, "events"), series.events.len());
    }
}

fn validated(json: &[u8]) -> serde_json::Value {
    let schema = super::schema_file::load(SCHEMA);
    let schema = jsonschema::JSONSchema::compile(&schema).unwrap();
    let value: serde_json::Value = serde_json::from_slice(json).unwrap();
    let errors: Vec<_> = match schema.validate(&value) {
        Ok(()) => Vec::new(),
        Err(errors) => errors
            .map(|error| format!("{error} at {}", error.instance_path))
            .collect(),
    };
    assert_eq!(errors, Vec::<String>::new());
    value
}

#[test]
fn text_fits_terminal() {
    let (series, connection) = Transfer {
        queue: 4,
        ..Transfer::default()
    }
    .run();
    for width in [40, 80, 132, 250] {
        for height in [16, 24, 50] {
            for color in [false, true] {
                let layout = GraphLayout {
                    width,
                    height: Some(height),
                    color,
                    verdict: "held down by losses ".repeat(9),
                    ..layout(GraphFormat::Text)
                };
                let out = String::from_utf8(draw(&series, &connection, &layout)).unwrap();
                assert_eq!(out.contains('\x1b'), color);
                let plain = without_escapes(&out);
                assert!(
                    plain.lines().count() <= height as usize,
                    "{width}x{height}:\n{plain}"
                );
                for line in plain.lines() {
                    assert!(line.chars().count() <= width as usize, "{width}x{height}: {line}");
                }
                assert!(plain.contains('R') && plain.contains("again "), "{plain}");
            }
        }
    }
}

#[test]
fn bitmaps_are_complete() {
    for (theme, corner) in [
        (GraphTheme::Light, [0xff, 0xff, 0xff]),
        (GraphTheme::Dark, [0x11, 0x15, 0x1a]),
    ] {
        let layout = GraphLayout {
            theme,
            height: Some(500),
            panels: vec![GraphPanel::Sequence],
            ..layout(GraphFormat::Png)
        };
        let png = draw(&small(), &connection(&small()), &layout);
        assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
        let [width, height] =
            [16, 20].map(|at| u32::from_be_bytes(*png[at..].first_chunk().unwrap()) as usize);
        assert_eq!((width, height), (700, 500));
        let len = u32::from_be_bytes(*png[33..].first_chunk().unwrap()) as usize;
        assert_eq!(png[37..41], *b"IDAT");
        let rows = miniz_oxide::inflate::decompress_to_vec_zlib(&png[41..41 + len]).unwrap();
        assert_eq!(rows.len(), height * (1 + width * 3));
        assert_eq!(rows[1..4], corner);
        assert!(png.ends_with(b"IEND\xaeB`\x82"));

        let kitty = draw(
            &small(),
            &connection(&small()),
            &GraphLayout {
                format: GraphFormat::Kitty,
                ..layout.clone()
            },
        );
        assert!(kitty.starts_with(b"\x1b_Ga=T,f=100,m=1;iVBORw0KGgo") && kitty.ends_with(b"\x1b\\\n"));
        let sixel = draw(
            &small(),
            &connection(&small()),
            &GraphLayout {
                format: GraphFormat::Sixel,
                ..layout.clone()
            },
        );
        assert!(sixel.starts_with(b"\x1bPq\"1;1;700;500#0;2;") && sixel.ends_with(b"\x1b\\\n"));
        let bands = sixel.iter().filter(|byte| **byte == b'-').count();
        assert_eq!(bands, 84);
    }
}

#[test]
fn xplot_format_equals_that_of_tcptrace() {
    let (series, connection) = Transfer {
        queue: 5,
        ..Transfer::default()
    }
    .run();
    let side = &series.forward;
    let out = String::from_utf8(draw(&series, &connection, &layout(GraphFormat::Xpl))).unwrap();
    assert!(out.starts_with("dtime signed\ntitle\n192.0.2.17:40312_==>_198.51.100.2:443 (time sequence graph)\nxlabel\nrelative time\nylabel\nsequence offset\n"));
    assert!(out.ends_with("\ngo\n"));
    let count = |word: &str| {
        out.lines()
            .filter(|line| line.split(' ').next() == Some(word))
            .count()
    };
    let again = side
        .segments
        .iter()
        .filter(|segment| !segment.flags.is_empty())
        .count();
    assert!(again > 10);
    assert_eq!(count("R"), again);
    assert_eq!(count("darrow"), side.segments.len());
    assert_eq!(
        count("S"),
        side.marks
            .iter()
            .filter(|mark| mark.kind == MarkKind::Sack)
            .count()
    );
    for panel in GraphPanel::ALL {
        let layout = GraphLayout {
            panels: vec![panel],
            ..layout(GraphFormat::Xpl)
        };
        let out = String::from_utf8(draw(&series, &connection, &layout)).unwrap();
        assert!(out.ends_with("\ngo\n") && out.lines().count() > 100, "{panel:?}");
    }
}

#[test]
fn pictures_of_many_segments_are_small() {
    let transfer = Transfer {
        segments: 60_000,
        gap_ns: 50_000,
        queue: 200,
        loss_ppm: 3_000,
        ..Transfer::default()
    };
    let (series, connection) = transfer.run();
    for (format, most) in [
        (GraphFormat::Svg, 500_000),
        (GraphFormat::Html, 1_200_000),
        (GraphFormat::Text, 20_000),
    ] {
        let out = draw(
            &series,
            &connection,
            &GraphLayout {
                width: if format == GraphFormat::Text { 100 } else { 1200 },
                ..layout(format)
            },
        );
        assert!(out.len() < most, "{format:?}: {}", out.len());
    }
}

#[test]
fn picture_of_noise_is_small() {
    let mut random = 1_u64;
    let mut below = |most: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 20) % most
    };
    let mut side = SideSeries::default();
    for nth in 0..150_000_u64 {
        let start = below(1 << 30);
        let flags = Flags::NONE.with(Flag::ALL[below(15) as usize]);
        side.segments.push(SegmentPoint {
            time_ns: nth,
            start,
            end: start + below(9_000),
            flags,
            frame: nth,
            is_pushed: true,
        });
        side.acks.push(AckPoint {
            time_ns: nth,
            sequence: below(1 << 30),
            is_duplicate: true,
        });
        side.windows.push(WindowPoint {
            time_ns: nth,
            sequence: below(1 << 30),
        });
        let kinds = [
            MarkKind::Syn,
            MarkKind::Reset,
            MarkKind::Sack,
            MarkKind::ZeroWindow,
        ];
        side.marks.push(Mark {
            time_ns: nth,
            sequence: start,
            end: start + below(90_000),
            kind: kinds[below(4) as usize],
        });
        side.in_flight.push((nth, below(1 << 20) as u32));
        side.rtt.push((nth, below(1 << 30)));
    }
    let series = Series {
        forward: side,
        ..Series::default()
    };
    let layout = GraphLayout {
        panels: GraphPanel::ALL.to_vec(),
        ..GraphLayout::default()
    };
    let svg = draw(&series, &connection(&series), &layout);
    assert!(svg.len() < 3_000_000, "{}", svg.len());
}

#[test]
fn the_direction_with_data_is_drawn() {
    let (series, connection) = Transfer {
        segments: 200,
        ..Transfer::default()
    }
    .run();
    let series = turned(series);
    let out = String::from_utf8(draw(&series, &connection, &layout(GraphFormat::Svg))).unwrap();
    assert!(out.contains("sequence number, server to client"));
    assert!(!out.contains("nothing was captured"));
    let both = GraphLayout {
        directions: GraphDirections::Both,
        ..layout(GraphFormat::Svg)
    };
    let out = String::from_utf8(draw(&series, &connection, &both)).unwrap();
    assert_eq!(out.matches("nothing was captured").count(), 1);
}

/// Checks that elements are nested correctly and that text is escaped.
#[track_caller]
fn well_formed(xml: &str) {
    let mut open = Vec::new();
    let mut rest = xml;
    while let Some((before, after)) = rest.split_once('<') {
        check_text(before);
        let (tag, after) = after.split_once('>').unwrap();
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "in {xml:.300}");
            continue;
        }
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let is_empty = attributes.ends_with('/');
        assert_eq!(attributes.matches('"').count() % 2, 0, "{tag}");
        attributes.split('"').skip(1).step_by(2).for_each(check_text);
        assert!(
            !attributes.contains("NaN") && !attributes.contains("inf"),
            "{tag}"
        );
        if !is_empty {
            open.push(name.trim_end_matches('/'));
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
}

#[track_caller]
fn check_text(text: &str) {
    for after in text.split('&').skip(1) {
        let (name, _) = after.split_once(';').unwrap();
        assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "{name}");
    }
    assert!(
        text.chars()
            .all(|one| one >= ' ' && one != '\u{ffff}' || one == '\n')
    );
}
