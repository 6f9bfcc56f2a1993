//! The legend: the colours in a graph and their meaning.

use super::GraphPanel;
use super::estimate::estimates;
use super::sequence::PUSHED_MAX;
use super::shapes::paint_of;
use super::view::View;
use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::{Anchor, Shape, Sign};
use sockeye_output::picture::text_metrics::width_of;
use sockeye_trace::MarkKind;
use std::collections::BTreeSet;

/// An entry of the legend.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) paint: Paint,
    sample: Sample,
    pub(super) text: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Sample {
    Bar,
    Line,
    Shade,
    Sign(Sign),
}

impl Entry {
    /// Returns the letter that it explains; `None` if it explains a colour only.
    pub(super) const fn letter(&self) -> Option<&'static str> {
        match self.sample {
            Sample::Sign(Sign::Letter(letter)) => Some(letter),
            _ => None,
        }
    }
}

/// Returns the entries for what a view contains.
pub(super) fn entries(view: &View<'_>) -> Vec<Entry> {
    let panels = view.panels();
    let mut entries = Vec::new();
    let mut add = |is_shown: bool, paint, sample, text| {
        if is_shown {
            entries.push(Entry { paint, sample, text });
        }
    };
    let has_sequence = panels.contains(&GraphPanel::Sequence);
    let has_estimates = panels.contains(&GraphPanel::InFlight)
        && view
            .directions
            .iter()
            .any(|direction| !estimates(direction).is_empty());
    let has_windows = view
        .directions
        .iter()
        .any(|direction| !direction.side.windows.is_empty());
    if !has_sequence {
        let has_lines = panels.iter().any(|panel| *panel != GraphPanel::Window);
        add(has_lines, Paint::Data, Sample::Line, "sent");
        add(
            panels.contains(&GraphPanel::Throughput),
            Paint::Acknowledged,
            Sample::Line,
            "acknowledged",
        );
        add(has_windows, Paint::Window, Sample::Line, "receive window");
        add(has_estimates, Paint::Estimated, Sample::Line, ESTIMATED);
        return entries;
    }
    let sides = || view.directions.iter().map(|direction| &*direction.side);
    let kinds: BTreeSet<_> = sides()
        .flat_map(|side| side.segments.iter().map(|segment| paint_of(segment.flags)))
        .collect();
    let marks: BTreeSet<_> = sides()
        .flat_map(|side| side.marks.iter().map(|mark| mark.kind))
        .collect();
    add(kinds.contains(&Paint::Data), Paint::Data, Sample::Bar, "data");
    add(
        kinds.contains(&Paint::Retransmitted),
        Paint::Retransmitted,
        Sample::Sign(Sign::Letter("R")),
        "sent again",
    );
    add(
        kinds.contains(&Paint::Spurious),
        Paint::Spurious,
        Sample::Sign(Sign::Letter("R")),
        "sent again, acknowledged before",
    );
    add(
        kinds.contains(&Paint::Reordered),
        Paint::Reordered,
        Sample::Sign(Sign::Letter("O")),
        "out of order",
    );
    add(kinds.contains(&Paint::Probe), Paint::Probe, Sample::Bar, "probe");
    add(
        sides().any(|side| !side.acks.is_empty()),
        Paint::Acknowledged,
        Sample::Line,
        "acknowledged (ticks: duplicates)",
    );
    add(
        has_windows,
        Paint::Window,
        Sample::Line,
        "end of the receive window",
    );
    add(marks.contains(&MarkKind::Sack), Paint::Sack, Sample::Bar, "SACK");
    add(
        marks.contains(&MarkKind::ZeroWindow),
        Paint::Window,
        Sample::Sign(Sign::Letter("Z")),
        "zero window",
    );
    add(
        marks.contains(&MarkKind::CongestionExperienced),
        Paint::Reordered,
        Sample::Sign(Sign::Letter("CE")),
        "congestion experienced",
    );
    let pushed = |side: &sockeye_trace::SideSeries| {
        (1..=PUSHED_MAX).contains(&side.segments.iter().filter(|segment| segment.is_pushed).count())
    };
    add(
        sides().any(pushed),
        Paint::Data,
        Sample::Sign(Sign::Diamond),
        "PSH",
    );
    let has_event = |stall: bool| {
        view.directions
            .iter()
            .flat_map(|direction| &direction.events)
            .any(|event| match event.kind {
                sockeye_trace::EventKind::Stall { .. } => stall,
                sockeye_trace::EventKind::WindowClosed { .. } => !stall,
                _ => false,
            })
    };
    add(has_estimates, Paint::Estimated, Sample::Line, ESTIMATED);
    add(has_event(true), Paint::Stalled, Sample::Shade, "stall");
    add(has_event(false), Paint::Closed, Sample::Shade, "window closed");
    entries
}

/// Draws the entries in lines, and returns the height of these too.
pub(super) fn draw(entries: &[Entry], left: f32, right: f32, top: f32) -> (Vec<Shape>, f32) {
    let mut shapes = Vec::new();
    let (mut x, mut y) = (left, top);
    for entry in entries {
        let width = SAMPLE + width_of(entry.text, SIZE, false) + GAP;
        if x > left && x + width - GAP > right {
            (x, y) = (left, y + LINE);
        }
        let base = y + LINE - 4.0;
        shapes.push(match entry.sample {
            Sample::Bar => Shape::Fill {
                paint: entry.paint,
                at: [x + 6.0, base - 9.0],
                size: [3.0, 10.0],
            },
            Sample::Line => Shape::Fill {
                paint: entry.paint,
                at: [x, base - 4.75],
                size: [14.0, 1.5],
            },
            Sample::Shade => Shape::Fill {
                paint: entry.paint,
                at: [x, base - 9.0],
                size: [14.0, 10.0],
            },
            Sample::Sign(sign) => Shape::Mark {
                paint: entry.paint,
                sign,
                at: [x + 8.0, if sign == Sign::Diamond { base - 4.0 } else { base }],
                span: [x + 8.0, x + 8.0],
                count: 1,
            },
        });
        shapes.push(Shape::Text {
            paint: Paint::Faint,
            at: [x + SAMPLE, base],
            size: SIZE,
            anchor: Anchor::Start,
            bold: false,
            text: entry.text.to_owned(),
        });
        x += width;
    }
    let height = if entries.is_empty() { 0.0 } else { y - top + LINE };
    (shapes, height)
}

/// Name of estimates, in each legend.
pub(super) const ESTIMATED: &str = "congestion window, estimated";
const SIZE: f32 = 11.0;
const LINE: f32 = 17.0;
const SAMPLE: f32 = 20.0;
const GAP: f32 = 14.0;
