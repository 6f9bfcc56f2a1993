//! The way as a picture: latencies as widths.

use super::columns::HopRow;
use super::standing::{Standing, standing};
use sockeye_measure::{Histogram, duration};
use sockeye_output::picture::GraphTheme;
use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::{Anchor, Scene, Shape};
use sockeye_output::picture::svg;
use sockeye_output::picture::text_metrics::shortened;
use sockeye_output::text::harmless;
use sockeye_path::{Direction, PathReport};
use std::io::{self, Write};

/// Writes the picture as SVG.
pub(crate) fn write_picture(
    out: &mut impl Write,
    rows: &[HopRow<'_>],
    report: &PathReport,
) -> io::Result<()> {
    svg::write(out, &scene(rows, report), GraphTheme::Auto)
}

/// Draws a bar for each hop, one below the other, which begins where the one before ends.
fn scene(rows: &[HopRow<'_>], report: &PathReport) -> Scene {
    let still: Vec<_> = rows.iter().filter_map(standing).collect();
    let rows: Vec<_> = rows.iter().filter(|row| row.hop.part.is_none()).collect();
    let sentences = report.sentences();
    let mut shapes = Vec::new();
    let mut y = MARGIN;
    for sentence in &sentences {
        y += LINE;
        shapes.push(text(
            [MARGIN, y],
            &harmless(sentence.text.as_bytes()),
            Paint::Text,
            WIDTH - 2.0 * MARGIN,
        ));
    }
    y += LINE;
    let of_direction = |direction| {
        let rows = rows.iter().copied();
        rows.filter(move |row| row.hop.key.direction == direction)
    };
    let median = |row: &HopRow<'_>| row.hop.delays.percentile(Histogram::P50).unwrap_or(0);
    // Both directions have one scale.
    let total = [Direction::Out, Direction::In]
        .map(|direction| of_direction(direction).map(median).sum::<u64>())
        .into_iter()
        .fold(0, u64::max);
    for direction in [Direction::Out, Direction::In] {
        let mut x = BARS;
        for row in of_direction(direction) {
            let wide = (WIDTH - MARGIN - VALUES - BARS) * (median(row) as f64 / total.max(1) as f64) as f32;
            shapes.push(text(
                [MARGIN, y + BAR * 0.7],
                &row.label(),
                Paint::Text,
                BARS - MARGIN - GAP,
            ));
            shapes.push(Shape::Fill {
                paint: if row.hop.dropped() > 0 {
                    Paint::Retransmitted
                } else {
                    Paint::Data
                },
                at: [x, y],
                size: [wide.max(1.0), BAR],
            });
            let mut value = duration(median(row));
            if row.hop.dropped() > 0 {
                value.push_str(&format!(", {} dropped", row.hop.dropped()));
            }
            shapes.push(text(
                [x + wide.max(1.0) + GAP, y + BAR * 0.7],
                &value,
                Paint::Faint,
                VALUES - GAP,
            ));
            x += wide;
            y += BAR + GAP;
        }
        y += GAP;
    }
    for one in &still {
        push_standing(&mut shapes, one, y);
        y += BAR + GAP;
    }
    Scene {
        width: WIDTH,
        height: y + MARGIN,
        title: "The way of packets through this host".to_owned(),
        description: sentences
            .iter()
            .map(|sentence| sentence.text.as_str())
            .collect::<Vec<_>>()
            .join(" "),
        shapes,
        behaviour: None,
    }
}

/// Draws a queue that stands still: a box, filled as far as the queue is.
fn push_standing(shapes: &mut Vec<Shape>, one: &Standing, y: f32) {
    let wide = WIDTH - MARGIN - 2.0 * VALUES - BARS;
    shapes.push(text(
        [MARGIN, y + BAR * 0.7],
        &one.label,
        Paint::Text,
        BARS - MARGIN - GAP,
    ));
    // Without a box it is not known how much fits.
    if let Some(percent) = one.percent {
        let filled = f32::from(percent) / 100.0;
        for (paint, wide) in [(Paint::Grid, wide), (Paint::Stalled, (wide * filled).max(1.0))] {
            shapes.push(Shape::Fill {
                paint,
                at: [BARS, y],
                size: [wide, BAR],
            });
        }
    }
    shapes.push(text(
        [BARS + wide + GAP, y + BAR * 0.7],
        &one.text,
        Paint::Faint,
        2.0 * VALUES - GAP,
    ));
}

fn text(at: [f32; 2], text: &str, paint: Paint, width: f32) -> Shape {
    Shape::Text {
        paint,
        at,
        size: SIZE,
        anchor: Anchor::Start,
        bold: false,
        text: shortened(text, SIZE, false, width),
    }
}

const WIDTH: f32 = 960.0;
const MARGIN: f32 = 16.0;
const LINE: f32 = 20.0;
const BAR: f32 = 20.0;
const GAP: f32 = 6.0;
const SIZE: f32 = 13.0;
/// Where bars begin, and how wide the texts behind them are.
const BARS: f32 = 200.0;
const VALUES: f32 = 160.0;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_path::{Ending, HopKind, PathFold};
    use sockeye_wire::path::{Journey, Point, QueueLength, Stamp};

    /// A packet that passes points on a device with the longest name that there can be.
    fn report() -> PathReport {
        let points = [
            Point::Queued,
            Point::Transmitted,
            Point::Received,
            Point::Delivered,
            Point::Read,
        ];
        let stamps = points.iter().zip(1_u64..).map(|(point, nth)| Stamp {
            ns: nth * nth * 100_000_000,
            netns: 1,
            ifindex: 2,
            point: *point,
            length: QueueLength::NoQueue,
            device: *b"wwwwwwwwwwwwwww\0",
        });
        let journey = Journey {
            protocol: 6,
            end: Some(Point::Read),
            is_truncated: false,
            source: ([10, 0, 0, 1], 1).into(),
            destination: ([10, 0, 0, 2], 2).into(),
            bytes: 100,
            reason: None,
            reader: Some(1),
            comm: *b"reader\0\0\0\0\0\0\0\0\0\0",
            send_buffer: None,
            waited_ns: None,
            is_first_fragment: false,
            limit: None,
            round_trip_us: None,
            is_segment: false,
            points_before: 0,
            socket: None,
            payload: None,
            call: 0,
            stamps: stamps.collect(),
        };
        let mut fold = PathFold::new(1);
        for direction in [Direction::Out, Direction::In] {
            fold.add(&journey, direction, Ending::Complete);
        }
        fold.finish()
    }

    /// A hop of one direction that takes ten times as long as all of the other one has a bar that is longer, too.
    #[test]
    fn widths_of_both_directions_have_one_scale() {
        let of = |direction, ns: u64| {
            let mut report = report();
            report
                .hops
                .retain(|hop| hop.key.kind == HopKind::Qdisc && hop.key.direction == direction);
            report.hops[0].delays = Histogram::new();
            report.hops[0].delays.record(ns);
            report.hops.remove(0)
        };
        let hops = [of(Direction::Out, 1_000), of(Direction::In, 10_000)];
        let rows = hops.each_ref().map(HopRow::alone);
        let scene = scene(&rows, &PathReport::default());
        let widths: Vec<f32> = scene
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Fill { size: [wide, _], .. } => Some(*wide),
                _ => None,
            })
            .collect();
        assert_eq!(widths.len(), 2);
        assert!((widths[1] / widths[0] - 10.0).abs() < 0.2, "{widths:?}");
    }

    #[test]
    fn every_text_of_the_picture_can_be_read() {
        let report = report();
        let rows: Vec<_> = report
            .hops
            .iter()
            .map(|hop| HopRow {
                hop,
                share_ppm: report.share_ppm(hop),
                netns_name: None,
                part_name: None,
            })
            .collect();
        let scene = scene(&rows, &report);
        assert_eq!(scene.unreadable_text(), None);
        assert_eq!(rows.len(), 8);
    }

    #[test]
    fn queues_that_stand_still_are_in_the_picture() {
        let report = super::super::standing::fixtures::report();
        let rows: Vec<_> = report.hops.iter().map(HopRow::alone).collect();
        let scene = scene(&rows, &report);
        assert_eq!(scene.unreadable_text(), None);
        let is_box = |shape: &&Shape| {
            matches!(
                shape,
                Shape::Fill {
                    paint: Paint::Stalled,
                    ..
                }
            )
        };
        assert_eq!(scene.shapes.iter().filter(is_box).count(), 1);
        assert!(
            scene.description.contains("have waited in the receive queue"),
            "{}",
            scene.description
        );
    }
}
