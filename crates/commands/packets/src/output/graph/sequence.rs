//! The time-sequence graph, with the elements of tcptrace's.

use super::axis::Axis;
use super::downsample::{Cover, Envelope};
use super::marks::Marks;
use super::shapes::{FEW, line_of, paint_of, sign_of, strokes_of};
use super::view::DirectionView;
use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::{Shape, Sign};
use sockeye_trace::MarkKind;

/// The sequence numbers of a graph, and whether the window's end is above them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) is_window_above: bool,
}

impl Range {
    pub(super) fn of(direction: &DirectionView<'_>) -> Self {
        let side = &*direction.side;
        let segments = side.segments.iter().flat_map(|point| [point.start, point.end]);
        let acks = side.acks.iter().map(|point| point.sequence);
        let marks = side.marks.iter().map(|mark| mark.sequence);
        let (low, high) = segments
            .chain(acks)
            .chain(marks)
            .fold((u64::MAX, 0), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        let low = low.min(high);
        let window = side.windows.iter().map(|point| point.sequence).max().unwrap_or(0);
        // A window much larger than the data would compress everything else at the bottom.
        let limit = high.saturating_add((high - low) / 2).max(high.saturating_add(1));
        Self {
            low,
            high: high.max(window.min(limit)),
            is_window_above: window > limit,
        }
    }
}

/// Draws the graph into a plot with its upper left corner at `from`.
pub(super) fn draw(
    direction: &DirectionView<'_>,
    from: [f32; 2],
    size: [f32; 2],
    time: Axis,
    value: Axis,
) -> Vec<Shape> {
    let side = &*direction.side;
    let x = |time_ns: u64| time.at(time_ns as f64);
    let y = |sequence: u64| value.at(sequence as f64);
    let is_above = |sequence: u64| !value.has(sequence as f64);
    let mut shapes = Vec::new();
    let mut marks = Marks::default();

    let mut window = Vec::new();
    let mut changes = Cover::new(from, size);
    let mut line = Envelope::default();
    let mut end_before = None;
    for point in &side.windows {
        if is_above(point.sequence) {
            // Above the plot it is not drawn: a line along the edge would look like its value.
            window.push(std::mem::take(&mut line).points());
            end_before = None;
            continue;
        }
        line.point(x(point.time_ns), y(point.sequence));
        if end_before.is_some_and(|before| before > point.sequence) {
            changes.bar(
                x(point.time_ns),
                y(point.sequence),
                (y(point.sequence) - TICK).max(from[1]),
            );
        }
        end_before = Some(point.sequence);
    }
    window.push(line.points());
    for points in window.into_iter().filter(|points| points.len() > 1) {
        shapes.push(line_of(Paint::Window, points));
    }
    shapes.push(strokes_of(Paint::Window, 1.0, changes.strokes()));

    let mut sack = Cover::new(from, size);
    for mark in side.marks.iter().filter(|mark| mark.kind == MarkKind::Sack) {
        sack.bar(x(mark.time_ns), y(mark.sequence), y(mark.end));
    }
    shapes.push(strokes_of(Paint::Sack, 1.0, sack.strokes()));

    // Retransmissions are drawn over other segments.
    let kinds = [
        Paint::Data,
        Paint::Probe,
        Paint::Reordered,
        Paint::Spurious,
        Paint::Retransmitted,
    ];
    let mut covers = kinds.map(|paint| (paint, Cover::new(from, size)));
    let pushed = side.segments.iter().filter(|segment| segment.is_pushed).count();
    for segment in &side.segments {
        let paint = paint_of(segment.flags);
        let (at, low, high) = (x(segment.time_ns), y(segment.start), y(segment.end));
        // A smaller bar would be hard to see.
        let least = if paint == Paint::Data { 1.0 } else { 3.0 };
        let low = low.max(high + least).min(from[1] + size[1]);
        let high = high.min(low - least);
        if let Some((_, cover)) = covers.iter_mut().find(|(kind, _)| *kind == paint) {
            cover.bar(at, low, high);
        }
        match paint {
            Paint::Retransmitted | Paint::Spurious => {
                marks.add(paint, Sign::Letter("R"), at, (high - 3.0).max(from[1] + LETTER));
            }
            Paint::Reordered => marks.add(paint, Sign::Letter("O"), at, (high - 3.0).max(from[1] + LETTER)),
            _ => {}
        }
        if segment.is_pushed && pushed <= PUSHED_MAX {
            marks.add(Paint::Data, Sign::Diamond, at, high);
        }
    }
    for (paint, cover) in covers {
        let few = if side.segments.len() < FEW { 0.8 } else { 0.0 };
        let width = few + if paint == Paint::Data { 1.2 } else { 1.8 };
        shapes.push(strokes_of(paint, width, cover.strokes()));
    }

    let mut line = Envelope::default();
    let mut duplicates = Cover::new(from, size);
    for point in &side.acks {
        let at = [x(point.time_ns), y(point.sequence)];
        line.point(at[0], at[1]);
        if point.is_duplicate {
            duplicates.bar(at[0], at[1], (at[1] + TICK).min(from[1] + size[1]));
        }
    }
    shapes.push(line_of(Paint::Acknowledged, line.points()));
    shapes.push(strokes_of(Paint::Acknowledged, 1.0, duplicates.strokes()));

    for mark in side.marks.iter().filter(|mark| mark.kind != MarkKind::Sack) {
        let (paint, sign) = sign_of(mark.kind);
        marks.add(
            paint,
            sign,
            x(mark.time_ns),
            (y(mark.sequence) - 3.0).max(from[1] + LETTER),
        );
    }
    shapes.extend(marks.into_shapes(from[1], [from[0] + 2.0, from[0] + size[0] + RIGHT]));
    shapes.retain(|shape| match shape {
        Shape::Strokes { strokes, .. } => !strokes.is_empty(),
        Shape::Line { points, .. } => points.len() > 1,
        _ => true,
    });
    shapes
}

/// Length of ticks at lines, in pixels.
const TICK: f32 = 5.0;
/// Distance that letters may extend beyond the right end, in pixels.
const RIGHT: f32 = 14.0;
/// Height of letters, in pixels.
const LETTER: f32 = 9.0;
/// Limit for pushed segments that are marked.
pub(super) const PUSHED_MAX: usize = 200;
