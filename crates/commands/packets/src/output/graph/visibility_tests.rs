//! Tests that every event stays visible, however many segments there are.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

use super::axis::Axis;
use super::event_rows::EventRow;
use super::panels::PanelContent;
use super::plot::{LEFT, RIGHT, lay_out};
use super::shapes::is_repeated;
use super::view::{View, span};
use super::{GraphLayout, GraphPanel};
use crate::tests::transfers::Transfer;
use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::{Scene, Shape, Sign};
use sockeye_trace::{Confidence, Connection, Event, EventKind, Flag, Series};

#[track_caller]
fn check(series: &Series, connection: &Connection, width: u32) {
    let layout = GraphLayout {
        width,
        panels: GraphPanel::ALL.to_vec(),
        ..GraphLayout::default()
    };
    let view = View::new(series, connection, &layout);
    let scene = lay_out(&view);
    let time = Axis::new(view.time.0 as f64, view.time.1 as f64, LEFT, scene.width - RIGHT);
    for direction in &view.directions {
        for segment in direction
            .side
            .segments
            .iter()
            .filter(|segment| is_repeated(segment))
        {
            let x = time.at(segment.time_ns as f64);
            assert!(has_bar(&scene, x), "no bar at {x}");
            assert!(has_mark(&scene, x), "no mark at {x}");
        }
        for event in &direction.events {
            let (from, to) = span(event);
            let (from, to) = (time.at(from as f64), time.at(to as f64));
            let paint = EventRow::of(event.kind).paint();
            assert!(
                has_fill(&scene, paint, from, to),
                "nothing of {event:?} from {from} to {to}"
            );
            if matches!(event.kind, EventKind::Stall { .. }) {
                assert!(
                    has_fill(&scene, Paint::Stalled, from, to),
                    "no shade from {from} to {to}"
                );
            }
        }
    }
    in_bounds(&scene);
}

fn has_bar(scene: &Scene, x: f32) -> bool {
    scene.shapes.iter().any(|shape| match shape {
        Shape::Strokes {
            paint: Paint::Retransmitted | Paint::Spurious,
            strokes,
            ..
        } => {
            // Bars of retransmissions have at least three pixels.
            strokes
                .iter()
                .any(|[at, top, bottom]| (at - x).abs() <= 0.5 && bottom - top >= 2.4)
        }
        _ => false,
    })
}

fn has_mark(scene: &Scene, x: f32) -> bool {
    scene.shapes.iter().any(|shape| match shape {
        // A bar where no letter has space.
        Shape::Mark {
            sign: Sign::Letter("R") | Sign::Bar,
            paint: Paint::Retransmitted | Paint::Spurious,
            span,
            ..
        } => span[0] <= x + 0.01 && span[1] >= x - 0.01,
        _ => false,
    })
}

fn has_fill(scene: &Scene, expected: Paint, from: f32, to: f32) -> bool {
    scene.shapes.iter().any(|shape| match shape {
        Shape::Fill { paint, at, size } => {
            *paint == expected && at[0] <= from + 0.01 && at[0] + size[0] >= to - 0.01
        }
        _ => false,
    })
}

/// Checks that everything is within the picture and that no text overlaps another.
#[track_caller]
fn in_bounds(scene: &Scene) {
    let inside = |x: f32, y: f32| (0.0..=scene.width).contains(&x) && (0.0..=scene.height).contains(&y);
    for shape in &scene.shapes {
        match shape {
            Shape::Fill { at, size, .. } | Shape::Box { at, size, .. } => {
                assert!(
                    inside(at[0], at[1]) && inside(at[0] + size[0], at[1] + size[1]),
                    "{shape:?}"
                );
            }
            Shape::Strokes { strokes, .. } => {
                assert!(
                    strokes
                        .iter()
                        .all(|[x, top, bottom]| inside(*x, *top) && inside(*x, *bottom))
                );
            }
            Shape::Line { points, .. } => assert!(points.iter().all(|[x, y]| inside(*x, *y))),
            Shape::Mark { at, .. } => assert!(inside(at[0], at[1]), "{shape:?}"),
            Shape::Text { .. } => {}
        }
    }
    assert_eq!(scene.unreadable_text(), None);
}

#[test]
fn every_loss_and_stall_is_visible() {
    let plain = Transfer::default();
    for transfer in [
        plain.clone(),
        Transfer {
            segments: 400,
            queue: 3,
            ..plain.clone()
        },
        Transfer {
            segments: 20_000,
            loss_ppm: 30_000,
            queue: 300,
            ..plain.clone()
        },
        Transfer {
            segments: 60_000,
            loss_ppm: 300,
            queue: 300,
            gap_ns: 50_000,
            ..plain.clone()
        },
        Transfer {
            stall: Some((700, 1_200_000_000)),
            queue: 300,
            ..plain.clone()
        },
        Transfer {
            segments: 30_000,
            gap_ns: 200_000,
            queue: 300,
            stall: Some((9_000, 2_000_000)),
            ..plain.clone()
        },
        Transfer {
            closed: Some((700, 900_000_000)),
            queue: 300,
            ..plain
        },
    ] {
        let (series, connection) = transfer.run();
        assert!(!series.events.is_empty(), "{transfer:?}");
        for width in [360, 420, 777, 1200, 2000] {
            check(&series, &connection, width);
        }
    }
}

#[test]
fn single_loss_among_many_segments_is_visible() {
    let (mut series, connection) = Transfer {
        segments: 50_000,
        gap_ns: 100_000,
        queue: 1000,
        ..Transfer::default()
    }
    .run();
    let segment = &mut series.forward.segments[33_333];
    segment.flags = segment.flags.with(Flag::Retransmission);
    check(&series, &connection, 1200);
}

/// Random losses, stalls and closed windows, also many more than pixels.
#[test]
fn random_events_are_visible() {
    let mut random = Random(11);
    for (segments, events) in [(3, 2), (300, 40), (20_000, 3_000), (60_000, 7)] {
        let (mut series, connection) = Transfer {
            segments,
            gap_ns: 60_000,
            queue: 2_000,
            ..Transfer::default()
        }
        .run();
        let end = connection.end_ns.max(1);
        for _ in 0..events {
            let nth = random.below(series.forward.segments.len() as u64) as usize;
            let flag = [Flag::Retransmission, Flag::SpuriousRetransmission][nth % 2];
            let segment = &mut series.forward.segments[nth];
            segment.flags = segment.flags.with(flag);
            let duration_ns = random.below(end / 50 + 2);
            let kinds = [
                EventKind::Lost,
                EventKind::Timeout,
                EventKind::Stall { duration_ns },
                EventKind::WindowClosed { duration_ns },
                EventKind::LossBurst { segments: 3 },
            ];
            series.events.push(Event {
                time_ns: random.below(end),
                frame: 1,
                from_client: true,
                kind: kinds[random.below(5) as usize],
                segments: 1,
                confidence: Confidence::Likely,
                evidence: "",
            });
        }
        for width in [360, 420, 777, 1200, 2000] {
            check(&series, &connection, width);
        }
    }
}

/// Highest values in flight and longest round trips.
#[test]
fn peaks_are_visible() {
    let mut random = Random(5);
    let (mut series, connection) = Transfer {
        segments: 60_000,
        gap_ns: 100_000,
        queue: 2_000,
        ..Transfer::default()
    }
    .run();
    let side = &mut series.forward;
    let most = side.in_flight.iter().map(|point| point.1).max().unwrap();
    let mut peaks = Vec::new();
    for nth in 0..20 {
        let at = random.below(side.in_flight.len() as u64) as usize;
        side.in_flight[at].1 = most * 2 + nth * 1_000;
        peaks.push(side.in_flight[at]);
    }
    let usual = side.rtt.iter().map(|point| point.1).max().unwrap();
    let mut long = Vec::new();
    for _ in 0..20 {
        let at = random.below(side.rtt.len() as u64) as usize;
        side.rtt[at].1 = usual + usual / 2;
        long.push(side.rtt[at]);
    }
    let layout = GraphLayout::default();
    let view = View::new(&series, &connection, &layout);
    let (from, size) = ([0.0, 0.0], [800.0, 120.0]);
    let time = Axis::new(view.time.0 as f64, view.time.1 as f64, 0.0, size[0]);
    let draw = |panel| {
        let content = PanelContent::new(&view.directions[0], panel, view.time);
        (content.axis(from[1], size[1]), content.draw(from, size, time))
    };
    let (value, shapes) = draw(GraphPanel::InFlight);
    // Of two in one pixel column, the higher one remains.
    for (moment, bytes) in &peaks {
        let (x, y) = (time.at(*moment as f64), value.at(f64::from(*bytes)));
        let is_drawn = shapes.iter().any(|shape| match shape {
            Shape::Line { points, .. } => points
                .iter()
                .any(|[at, high]| (at - x).abs() <= 1.0 && *high <= y + 0.01),
            _ => false,
        });
        assert!(is_drawn, "no peak at {x} {y}");
    }
    let (value, shapes) = draw(GraphPanel::RoundTrip);
    for (moment, rtt) in &long {
        let (x, y) = (time.at(*moment as f64), value.at(*rtt as f64));
        let is_drawn = shapes.iter().any(|shape| match shape {
            Shape::Strokes { strokes, .. } => strokes
                .iter()
                .any(|[at, top, bottom]| (at - x).abs() <= 1.0 && *top <= y + 1.0 && *bottom >= y - 1.0),
            _ => false,
        });
        assert!(is_drawn, "no dot at {x} {y}");
    }
}

/// A pseudo-random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 20) % most
    }
}
