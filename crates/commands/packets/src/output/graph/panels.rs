//! Panels: their axes and their shapes.

use super::GraphPanel;
use super::axis::{Axis, Quantity, counted};
use super::derived::{Rates, windows};
use super::downsample::{Cover, Envelope};
use super::estimate::{Estimate, estimates};
use super::sequence::{self, Range};
use super::shapes::{FEW, line_of, paint_of, strokes_of};
use super::view::DirectionView;
use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::Shape;

/// The content of a panel of one direction, which can be drawn at any size.
#[derive(Debug)]
pub(super) struct PanelContent<'a> {
    direction: &'a DirectionView<'a>,
    panel: GraphPanel,
    lines: Vec<(Paint, Vec<(u64, f64)>)>,
    estimates: Vec<Estimate>,
    low: f64,
    high: f64,
    /// Text at the right end above the plot.
    note: String,
}

impl<'a> PanelContent<'a> {
    pub(super) fn new(direction: &'a DirectionView<'a>, panel: GraphPanel, time: (u64, u64)) -> Self {
        let side = &*direction.side;
        let mut content = Self {
            direction,
            panel,
            lines: Vec::new(),
            estimates: Vec::new(),
            low: 0.0,
            high: 0.0,
            note: String::new(),
        };
        match panel {
            GraphPanel::Sequence => {
                let range = Range::of(direction);
                content.low = range.low as f64;
                content.high = range.high as f64;
                if range.is_window_above {
                    content.note = "the receive window ends above".to_owned();
                }
            }
            GraphPanel::InFlight => {
                let flight = |&(time, bytes): &(u64, u32)| (time, f64::from(bytes));
                let points: Vec<_> = side.in_flight.iter().map(flight).collect();
                content.high = highest(&points);
                let window: Vec<_> = windows(direction)
                    .into_iter()
                    .map(|(time, bytes)| (time, bytes as f64))
                    .collect();
                let top = highest(&window);
                if top > 0.0 && top <= content.high * WINDOW_IN_FLIGHT_MAX {
                    content.high = content.high.max(top);
                    content.lines.push((Paint::Window, window));
                } else if top > 0.0 && content.high > 0.0 {
                    content.note = format!(
                        "at most {}; the peer's window up to {}",
                        Quantity::Bytes.label(content.high),
                        Quantity::Bytes.label(top)
                    );
                }
                content.lines.push((Paint::Data, points));
                content.estimates = estimates(direction);
            }
            GraphPanel::RoundTrip => {
                let mut times: Vec<_> = side.rtt.iter().map(|point| point.1).collect();
                let (least, most) = (times.iter().min().copied(), times.iter().max().copied());
                if let (Some(least), Some(most)) = (least, most) {
                    let span = [least, most].map(|time| Quantity::Time.label(time as f64));
                    content.note = if span[0] == span[1] {
                        span[0].clone()
                    } else {
                        format!("{} to {}", span[0], span[1])
                    };
                    // A few very long ones would compress the others at the bottom: they are drawn at the upper edge.
                    let rank = times.len() - 1 - times.len() / 100;
                    let (_, usual, _) = times.select_nth_unstable(rank);
                    let limit = usual.saturating_mul(3);
                    content.high = most.min(limit) as f64;
                    let above = side.rtt.iter().filter(|point| point.1 > limit).count();
                    if above > 0 {
                        content.note = format!("{}, {} above", content.note, counted(above as u64));
                    }
                }
            }
            GraphPanel::Throughput => {
                let rates = Rates::of(direction, time);
                content.high = highest(&rates.sent).max(highest(&rates.acknowledged));
                content.note = format!("over {}", Quantity::Time.label(rates.window_ns as f64));
                content.lines = vec![
                    (Paint::Data, rates.sent),
                    (Paint::Acknowledged, rates.acknowledged),
                ];
            }
            GraphPanel::Window => {
                let points: Vec<_> = windows(direction)
                    .into_iter()
                    .map(|(time, bytes)| (time, bytes as f64))
                    .collect();
                content.high = highest(&points);
                content.lines = vec![(Paint::Window, points)];
            }
            GraphPanel::SegmentSize => {
                let sizes = side
                    .segments
                    .iter()
                    .map(|point| point.end.saturating_sub(point.start));
                content.high = sizes.max().unwrap_or(0) as f64;
            }
        }
        content
    }

    /// Returns whether the panel has nothing to show.
    pub(super) fn is_empty(&self) -> bool {
        match self.panel {
            GraphPanel::Sequence => {
                let side = &*self.direction.side;
                side.segments.is_empty() && side.acks.is_empty() && side.marks.is_empty()
            }
            GraphPanel::RoundTrip => self.direction.side.rtt.is_empty(),
            GraphPanel::SegmentSize => self.direction.side.segments.is_empty(),
            _ => self.lines.iter().all(|(_, points)| points.is_empty()),
        }
    }

    /// Returns whether there is more than SYN and FIN.
    pub(super) fn has_data(&self) -> bool {
        let side = &*self.direction.side;
        let is_long = |len: u64| len > 1;
        side.segments
            .iter()
            .any(|point| is_long(point.end.saturating_sub(point.start)))
            || side.acks.iter().any(|ack| ack.sequence > 2)
    }

    /// Returns the note, if there is one and it fits.
    pub(super) fn note_within(&self, fits: impl FnOnce(&str) -> bool) -> Option<String> {
        (!self.note.is_empty() && fits(&self.note)).then(|| self.note.clone())
    }

    pub(super) const fn quantity(&self) -> Quantity {
        match self.panel {
            GraphPanel::Sequence | GraphPanel::InFlight | GraphPanel::Window | GraphPanel::SegmentSize => {
                Quantity::Bytes
            }
            GraphPanel::RoundTrip => Quantity::Time,
            GraphPanel::Throughput => Quantity::Rate,
        }
    }

    /// Returns its axis over the height of a plot, with a little space above the highest value.
    pub(super) fn axis(&self, top: f32, height: f32) -> Axis {
        Axis::new(
            self.low,
            self.high + (self.high - self.low) * 0.05,
            top + height,
            top,
        )
    }

    /// Returns the shapes of a plot at `from`.
    pub(super) fn draw(&self, from: [f32; 2], size: [f32; 2], time: Axis) -> Vec<Shape> {
        let value = self.axis(from[1], size[1]);
        let dots = |count: usize, points: &mut dyn Iterator<Item = (Paint, u64, f64)>| {
            // A few dots may be larger.
            let dot = if count < FEW { 3.4 } else { 2.0 };
            let mut covers: Vec<(Paint, Cover)> = Vec::new();
            for (paint, moment, worth) in points {
                let (x, y) = (time.at(moment as f64), value.at(worth));
                let cover = match covers.iter_mut().find(|(one, _)| *one == paint) {
                    Some((_, cover)) => cover,
                    None => {
                        covers.push((paint, Cover::new(from, size)));
                        let Some((_, cover)) = covers.last_mut() else {
                            continue;
                        };
                        cover
                    }
                };
                cover.bar(x, y - dot / 2.0, y + dot / 2.0);
            }
            covers.sort_by_key(|(paint, _)| *paint);
            let shape = |(paint, cover): (Paint, Cover)| strokes_of(paint, dot, cover.strokes());
            covers.into_iter().map(shape).collect()
        };
        match self.panel {
            GraphPanel::Sequence => sequence::draw(self.direction, from, size, time, value),
            GraphPanel::RoundTrip => {
                let points = self.direction.side.rtt.iter();
                dots(
                    points.len(),
                    &mut points.map(|&(moment, rtt)| {
                        let paint = if value.has(rtt as f64) {
                            Paint::Data
                        } else {
                            Paint::Sign
                        };
                        (paint, moment, rtt as f64)
                    }),
                )
            }
            GraphPanel::SegmentSize => {
                let points = self.direction.side.segments.iter();
                dots(
                    points.len(),
                    &mut points.map(|point| {
                        let len = point.end.saturating_sub(point.start);
                        (paint_of(point.flags), point.time_ns, len as f64)
                    }),
                )
            }
            _ => self
                .lines
                .iter()
                .map(|(paint, points)| {
                    let mut line = Envelope::default();
                    for (moment, worth) in points {
                        line.point(time.at(*moment as f64), value.at(*worth));
                    }
                    line_of(*paint, line.points())
                })
                .filter(|shape| matches!(shape, Shape::Line { points, .. } if points.len() > 1))
                .chain(self.dashes(from, size, time, value))
                .collect(),
        }
    }
}

impl PanelContent<'_> {
    /// Returns horizontal lines for the estimates, as dots, of which there are no more than pixels.
    fn dashes(&self, from: [f32; 2], size: [f32; 2], time: Axis, value: Axis) -> Option<Shape> {
        if self.estimates.is_empty() {
            return None;
        }
        let mut cover = Cover::new(from, size);
        let mut dash = |left: f32, right: f32, y: f32| {
            let (top, bottom) = (
                (y - DASH / 2.0).max(from[1]),
                (y + DASH / 2.0).min(from[1] + size[1]),
            );
            let mut x = left;
            loop {
                cover.bar(x, top, bottom);
                x += 1.0;
                if x > right {
                    break;
                }
            }
        };
        let [left, right] = [|one: &Estimate| one.from_ns, |one: &Estimate| one.until_ns]
            .map(|moment| move |one: &Estimate| time.at(moment(one) as f64));
        if self.estimates.len() as f32 <= size[0] {
            for one in &self.estimates {
                dash(left(one), right(one), value.at(one.bytes as f64));
            }
        } else {
            // The highest of several in one column
            for column in self
                .estimates
                .chunk_by(|one, other| left(one) as i32 == left(other) as i32)
            {
                let most = column.iter().map(|one| one.bytes).max().unwrap_or(0);
                let last = column.last().map_or(0.0, right);
                dash(column.first().map_or(0.0, left), last, value.at(most as f64));
            }
        }
        Some(strokes_of(Paint::Estimated, 1.2, cover.strokes()))
    }
}

fn highest(points: &[(u64, f64)]) -> f64 {
    points.iter().map(|point| point.1).fold(0.0, f64::max)
}

/// Thickness of estimates.
const DASH: f32 = 1.8;
/// A window of more than this many times the data in flight is in the note and not drawn.
const WINDOW_IN_FLIGHT_MAX: f64 = 3.0;
