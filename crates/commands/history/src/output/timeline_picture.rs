//! A timeline as a picture: a row of bars for each kind of value, gaps in all of them.

use super::point::{LINES, PointLine};
use sockeye_history::Point;
use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::{Anchor, Scene, Shape};

/// Lays out points in time. `what`: which connections, for the title.
pub(crate) fn timeline_picture(points: &[Point], what: &str, local: &dyn Fn(u64) -> String) -> Scene {
    let mut shapes = vec![text(
        Paint::Text,
        [EDGE, 26.0],
        15.0,
        Anchor::Start,
        what.to_owned(),
    )];
    let column = PLOT_WIDTH / points.len().max(1) as f32;
    let mut top = 40.0;
    for line in &LINES {
        push_gaps(&mut shapes, points, column, top);
        push_line(&mut shapes, points, line, column, top);
        top += ROW_HEIGHT + ROW_SPACE;
    }
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        let (left, right) = (PLOT_LEFT, PLOT_LEFT + PLOT_WIDTH);
        let base = top + 6.0;
        shapes.push(text(
            Paint::Faint,
            [left, base],
            11.0,
            Anchor::Start,
            local(first.at_ms),
        ));
        shapes.push(text(
            Paint::Faint,
            [right, base],
            11.0,
            Anchor::End,
            local(last.at_ms),
        ));
    }
    let gaps = points.iter().filter(|point| point.gap.is_some()).count();
    Scene {
        width: PLOT_LEFT + PLOT_WIDTH + LARGEST_WIDTH + EDGE,
        height: top + 20.0,
        title: what.to_owned(),
        description: format!("{} points in time, {gaps} of them with a gap", points.len()),
        shapes,
        behaviour: None,
    }
}

/// Adds the name of a line, its bars and its largest value.
fn push_line(shapes: &mut Vec<Shape>, points: &[Point], line: &PointLine, column: f32, top: f32) {
    let bottom = top + ROW_HEIGHT;
    shapes.push(text(
        Paint::Text,
        [EDGE, bottom],
        12.0,
        Anchor::Start,
        line.name.to_owned(),
    ));
    shapes.push(Shape::Fill {
        paint: Paint::Grid,
        at: [PLOT_LEFT, bottom],
        size: [PLOT_WIDTH, 1.0],
    });
    let values = || points.iter().map(line.value);
    let Some(largest) = values().flatten().max() else {
        return;
    };
    for (nth, value) in values().enumerate() {
        let Some(value) = value.filter(|value| *value > 0) else {
            continue;
        };
        // What is not 0 can be seen.
        let height = (value as f32 / largest as f32 * ROW_HEIGHT).max(1.0);
        shapes.push(Shape::Fill {
            paint: line.paint,
            at: [PLOT_LEFT + nth as f32 * column, bottom - height],
            size: [(column - 1.0).max(column * 0.8), height],
        });
    }
    let mut label = b"max ".to_vec();
    line.unit.push(&mut label, largest);
    shapes.push(text(
        Paint::Faint,
        [PLOT_LEFT + PLOT_WIDTH + 8.0, bottom],
        11.0,
        Anchor::Start,
        String::from_utf8_lossy(&label).into_owned(),
    ));
}

fn push_gaps(shapes: &mut Vec<Shape>, points: &[Point], column: f32, top: f32) {
    let gaps = points.iter().enumerate().filter(|(_, point)| point.gap.is_some());
    for (nth, _) in gaps {
        shapes.push(Shape::Fill {
            paint: Paint::Stalled,
            at: [PLOT_LEFT + nth as f32 * column, top],
            size: [column, ROW_HEIGHT],
        });
    }
}

const fn text(paint: Paint, at: [f32; 2], size: f32, anchor: Anchor, text: String) -> Shape {
    Shape::Text {
        paint,
        at,
        size,
        anchor,
        bold: false,
        text,
    }
}

const EDGE: f32 = 16.0;
/// Left edge of the bars: right of the names.
const PLOT_LEFT: f32 = 110.0;
const PLOT_WIDTH: f32 = 720.0;
/// Width of the largest value.
const LARGEST_WIDTH: f32 = 100.0;
const ROW_HEIGHT: f32 = 40.0;
const ROW_SPACE: f32 = 14.0;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_history::GapReason;

    fn points() -> Vec<Point> {
        let point = |at_ms, connections: Option<u64>, gap| Point {
            at_ms,
            connections,
            sent_bytes: connections.map(|number| number * 1_000_000_000),
            received_bytes: Some(0),
            retrans_segs: None,
            rtt_us_median: None,
            findings: Some(1),
            gap,
        };
        vec![
            point(1, Some(4), None),
            point(2, None, Some(GapReason::Reboot)),
            point(3, Some(8), None),
        ]
    }

    #[test]
    fn bars_are_in_proportion_and_gaps_are_in_each_row() {
        let local = |at_ms: u64| format!("2026-11-26 03:12:0{at_ms} +01:00");
        let scene = timeline_picture(&points(), "dport = :5432", &local);
        assert_eq!(scene.unreadable_text(), None);
        let heights = |wanted: Paint| -> Vec<f32> {
            let height = |shape: &Shape| match shape {
                Shape::Fill { paint, size, .. } if *paint == wanted => Some(size[1]),
                _ => None,
            };
            scene.shapes.iter().filter_map(height).collect()
        };
        assert_eq!(heights(Paint::Stalled).len(), LINES.len());
        assert_eq!(heights(LINES[0].paint), [ROW_HEIGHT / 2.0, ROW_HEIGHT]);
    }

    #[test]
    fn no_points_are_an_empty_picture() {
        let scene = timeline_picture(&[], "all", &|_| String::new());
        assert_eq!(scene.unreadable_text(), None);
    }
}
