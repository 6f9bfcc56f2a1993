//! The rows of events below a time-sequence graph, one for each kind of event.

use super::axis::{Axis, counted};
use super::shapes::is_repeated;
use super::view::{DirectionView, span};
use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::{Anchor, Shape};
use sockeye_output::picture::text_metrics::{shortened, width_of};
use sockeye_trace::EventKind;
use std::collections::BTreeMap;

/// Time spans of events, by kind.
#[derive(Debug, Default)]
pub(super) struct EventRows(BTreeMap<EventRow, Row>);

/// The events of one kind.
#[derive(Debug, Default)]
struct Row {
    spans: Vec<(u64, u64)>,
    /// Segments; events of kinds without segments count once
    count: u64,
}

/// Kinds of events, from top to bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventRow {
    Repeated,
    Lost,
    Burst,
    Timeout,
    Stall,
    Closed,
    Reordered,
    Spurious,
    DuplicatedByNetwork,
    DuplicatedByCapture,
    Missing,
}

impl EventRow {
    pub(super) const fn of(event: EventKind) -> Self {
        match event {
            EventKind::Lost => Self::Lost,
            EventKind::Reordered => Self::Reordered,
            EventKind::Spurious => Self::Spurious,
            EventKind::Unclear => Self::Repeated,
            EventKind::DuplicatedByNetwork => Self::DuplicatedByNetwork,
            EventKind::DuplicatedByCapture => Self::DuplicatedByCapture,
            EventKind::MissingInCapture => Self::Missing,
            EventKind::Timeout => Self::Timeout,
            EventKind::LossBurst { .. } => Self::Burst,
            EventKind::Stall { .. } => Self::Stall,
            EventKind::WindowClosed { .. } => Self::Closed,
        }
    }

    pub(super) const fn paint(self) -> Paint {
        match self {
            Self::Repeated | Self::Lost | Self::Burst | Self::Timeout => Paint::Retransmitted,
            Self::Stall => Paint::Faint,
            Self::Closed => Paint::Window,
            Self::Reordered => Paint::Reordered,
            Self::Spurious => Paint::Spurious,
            Self::DuplicatedByNetwork | Self::DuplicatedByCapture | Self::Missing => Paint::Probe,
        }
    }

    /// Returns a name for few columns.
    const fn short(self) -> &'static str {
        match self {
            Self::Repeated => "again",
            Self::Burst => "bursts",
            Self::Closed => "closed",
            Self::DuplicatedByNetwork => "net dup",
            Self::DuplicatedByCapture => "cap dup",
            Self::Missing => "missing",
            _ => self.name(),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Repeated => "sent again",
            Self::Lost => "lost",
            Self::Burst => "loss bursts",
            Self::Timeout => "timeouts",
            Self::Stall => "stalls",
            Self::Closed => "window closed",
            Self::Reordered => "reordered",
            Self::Spurious => "spurious",
            Self::DuplicatedByNetwork => "dup. by net",
            Self::DuplicatedByCapture => "captured twice",
            Self::Missing => "not captured",
        }
    }
}

impl EventRows {
    pub(super) fn of(direction: &DirectionView<'_>) -> Self {
        let mut rows = BTreeMap::<EventRow, Row>::new();
        let mut add = |kind, span, count: u32| {
            let row = rows.entry(kind).or_default();
            row.spans.push(span);
            row.count += u64::from(count);
        };
        for segment in direction
            .side
            .segments
            .iter()
            .filter(|segment| is_repeated(segment))
        {
            add(EventRow::Repeated, (segment.time_ns, segment.time_ns), 1);
        }
        for event in &direction.events {
            add(EventRow::of(event.kind), span(event), event.segments);
        }
        Self(rows)
    }

    pub(super) fn height(&self) -> f32 {
        if self.0.is_empty() {
            0.0
        } else {
            self.0.len() as f32 * ROW + GAP
        }
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns each row's name, paint, and spans in the pixels of `time`.
    pub(super) fn rows(&self, time: Axis) -> impl Iterator<Item = (String, Paint, Vec<(f32, f32)>)> {
        self.0.iter().map(move |(kind, row)| {
            let name = format!("{} {}", kind.short(), row.count);
            (name, kind.paint(), merged(&row.spans, time))
        })
    }

    /// Draws the rows from `top` down, in the columns of `time`, with names left of `left`.
    pub(super) fn draw(&self, left: f32, right: f32, top: f32, time: Axis) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for (nth, (kind, row)) in self.0.iter().enumerate() {
            let y = top + GAP + nth as f32 * ROW;
            shapes.push(Shape::Text {
                paint: Paint::Faint,
                at: [left - 6.0, y + ROW - 3.5],
                size: NAME,
                anchor: Anchor::End,
                bold: false,
                text: labelled(*kind, row.count, left - 10.0),
            });
            shapes.push(Shape::Fill {
                paint: Paint::Grid,
                at: [left, y + ROW - 1.5],
                size: [right - left, 0.5],
            });
            for (from, to) in merged(&row.spans, time) {
                shapes.push(Shape::Fill {
                    paint: kind.paint(),
                    at: [from - 0.75, y + 1.5],
                    size: [(to - from).max(0.0) + 1.5, ROW - 3.0],
                });
            }
        }
        shapes
    }

    /// Draws the background of stalls and closed windows, for every panel.
    pub(super) fn shades(&self, top: f32, height: f32, time: Axis) -> Vec<Shape> {
        [
            (EventRow::Stall, Paint::Stalled),
            (EventRow::Closed, Paint::Closed),
        ]
        .into_iter()
        .filter_map(|(kind, paint)| Some((self.0.get(&kind)?, paint)))
        .flat_map(|(row, paint)| {
            merged(&row.spans, time)
                .into_iter()
                .map(move |(from, to)| Shape::Fill {
                    paint,
                    at: [from, top],
                    size: [(to - from).max(1.0), height],
                })
        })
        .collect()
    }
}

/// Returns the name and count of a row in at most `width` pixels.
fn labelled(kind: EventRow, count: u64, width: f32) -> String {
    let label = |name: &str| format!("{name}\u{a0}{}", counted(count));
    let text = label(kind.name());
    if width_of(&text, NAME, false) <= width {
        return text;
    }
    shortened(&label(kind.short()), NAME, false, width)
}

/// Returns spans in pixels; those that touch are merged.
fn merged(spans: &[(u64, u64)], time: Axis) -> Vec<(f32, f32)> {
    let mut pixels: Vec<_> = spans
        .iter()
        .map(|(from, to)| (time.at(*from as f64), time.at(*to as f64)))
        .collect();
    pixels.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut merged: Vec<(f32, f32)> = Vec::new();
    for (from, to) in pixels {
        match merged.last_mut() {
            Some(last) if from <= last.1 + 1.0 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// Size of names.
const NAME: f32 = 10.0;
/// Height of a row.
const ROW: f32 = 13.0;
/// Space above the first row.
const GAP: f32 = 5.0;
