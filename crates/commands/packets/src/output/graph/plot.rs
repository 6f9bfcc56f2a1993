//! The layout of the panels, one below the other, above one time axis.

use super::GraphPanel;
use super::axis::{Axis, Quantity};
use super::caption;
use super::event_rows::EventRows;
use super::legend;
use super::panels::PanelContent;
use super::view::{DirectionView, View};
use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::{Anchor, Scene, Shape};
use sockeye_output::picture::text_metrics::{shortened, width_of, wrapped};

/// Lays out a view.
pub(super) fn lay_out(view: &View<'_>) -> Scene {
    let width = view.layout.width.clamp(WIDTH_MIN, SIZE_MAX) as f32;
    let time = Axis::new(view.time.0 as f64, view.time.1 as f64, LEFT, width - RIGHT);
    let mut sheet = Sheet {
        shapes: Vec::new(),
        width,
        bottom: 12.0,
        ticks: time.ticks(Quantity::Time, STEPS_APART.min(width / 6.0)),
        time,
    };

    // 1. Title, verdict, facts, legend
    let (title, verdict, facts) = (caption::title(view), caption::verdict(view), caption::facts(view));
    sheet.paragraph(&title, TITLE, 2.0, Paint::Text, true);
    sheet.paragraph(&verdict, SUBTITLE, 5.0, Paint::Text, false);
    sheet.paragraph(&facts, SMALL, 5.0, Paint::Faint, false);
    let (drawn, height) = legend::draw(&legend::entries(view), EDGE, sheet.right(), sheet.bottom + 7.0);
    sheet.shapes.extend(drawn);
    sheet.bottom += 7.0 + height;

    // 2. The height of each panel
    let panels = view.panels();
    let directions: Vec<_> = view
        .directions
        .iter()
        .map(|direction| {
            (
                direction,
                EventRows::of(direction),
                contents(view, direction, &panels),
            )
        })
        .collect();
    let (mut fixed, mut natural) = (sheet.bottom + BOTTOM, 0.0);
    for (_, event_rows, contents) in &directions {
        for (panel, content) in contents {
            fixed += ABOVE;
            fixed += if *panel == GraphPanel::Sequence {
                event_rows.height()
            } else {
                0.0
            };
            natural += height_of(*panel, content);
        }
    }
    let requested = view.layout.height.map(|height| height.min(SIZE_MAX) as f32);
    let stretch = requested.map_or(1.0, |height| ((height - fixed) / natural).max(STRETCH_MIN));
    let height = (fixed + natural * stretch).max(requested.unwrap_or(0.0));

    // 3. The panels
    for (direction, event_rows, contents) in &directions {
        for (panel, content) in contents {
            let mut name = panel.title().to_owned();
            if view.directions.len() > 1 || *panel == GraphPanel::Sequence {
                name = format!("{name}, {}", direction.name());
            }
            sheet.panel(name, content, height_of(*panel, content) * stretch, event_rows);
            if *panel == GraphPanel::Sequence {
                let drawn = event_rows.draw(LEFT, sheet.right(), sheet.bottom, time);
                sheet.shapes.extend(drawn);
                sheet.bottom += event_rows.height();
            }
        }
    }

    // 4. The time axis
    sheet.time_axis();
    let parts = [verdict, facts].into_iter().filter(|part| !part.is_empty());
    Scene {
        width,
        height,
        title,
        description: parts.collect::<Vec<_>>().join(". "),
        shapes: sheet.shapes,
        behaviour: None,
    }
}

/// Returns the panels of a direction; if none has points, only the first, which has a message then.
fn contents<'a>(
    view: &View<'_>,
    direction: &'a DirectionView<'a>,
    panels: &[GraphPanel],
) -> Vec<(GraphPanel, PanelContent<'a>)> {
    let mut contents: Vec<_> = panels
        .iter()
        .map(|panel| (*panel, PanelContent::new(direction, *panel, view.time)))
        .collect();
    if contents.iter().all(|(_, content)| content.is_empty()) {
        contents.truncate(1);
    }
    contents
}

fn height_of(panel: GraphPanel, content: &PanelContent<'_>) -> f32 {
    match panel {
        _ if content.is_empty() => 40.0,
        GraphPanel::Sequence if content.has_data() => 420.0,
        _ => 110.0,
    }
}

/// A picture that is filled from top to bottom.
struct Sheet {
    shapes: Vec<Shape>,
    width: f32,
    /// Bottom of the shapes so far, in pixels from the top.
    bottom: f32,
    time: Axis,
    ticks: Vec<(f32, String)>,
}

impl Sheet {
    fn right(&self) -> f32 {
        self.width - RIGHT
    }

    fn text(&mut self, paint: Paint, at: [f32; 2], size: f32, anchor: Anchor, text: String) {
        self.shapes.push(Shape::Text {
            paint,
            at,
            size,
            anchor,
            bold: false,
            text,
        });
    }

    fn fill(&mut self, paint: Paint, at: [f32; 2], size: [f32; 2]) {
        self.shapes.push(Shape::Fill { paint, at, size });
    }

    /// Adds lines of text over the whole width.
    fn paragraph(&mut self, text: &str, size: f32, gap: f32, paint: Paint, bold: bool) {
        for text in wrapped(text, size, bold, self.width - 2.0 * EDGE) {
            self.bottom += size + gap;
            self.shapes.push(Shape::Text {
                paint,
                at: [EDGE, self.bottom],
                size,
                anchor: Anchor::Start,
                bold,
                text,
            });
        }
    }

    /// Adds a panel below the last.
    fn panel(&mut self, name: String, content: &PanelContent<'_>, height: f32, event_rows: &EventRows) {
        let (right, top) = (self.right(), self.bottom + ABOVE);
        let size = [right - LEFT, height];
        self.bottom = top + height;
        let name = shortened(&name, SMALL, true, size[0]);
        let note_width = size[0] - width_of(&name, SMALL, true) - 12.0;
        self.shapes.push(Shape::Text {
            paint: Paint::Text,
            at: [LEFT, top - 5.0],
            size: SMALL,
            anchor: Anchor::Start,
            bold: true,
            text: name,
        });
        if content.is_empty() {
            let middle = [LEFT + size[0] / 2.0, top + height / 2.0 + 4.0];
            let nothing = "nothing was captured of it".to_owned();
            self.text(Paint::Faint, middle, SMALL, Anchor::Middle, nothing);
            self.frame(top, size);
            return;
        }
        if let Some(note) = content.note_within(|note| width_of(note, SMALL, false) <= note_width) {
            self.text(Paint::Faint, [right, top - 5.0], SMALL, Anchor::End, note);
        }
        self.shapes.extend(event_rows.shades(top, height, self.time));
        let ticks: Vec<_> = self.ticks.iter().map(|(x, _)| *x).collect();
        for x in ticks {
            self.fill(Paint::Grid, [x - 0.5, top], [1.0, height]);
        }
        let distance = VALUES_APART.min(height / 3.0);
        for (y, label) in content.axis(top, height).ticks(content.quantity(), distance) {
            self.fill(Paint::Grid, [LEFT, y - 0.5], [size[0], 1.0]);
            let label = shortened(&label, AXIS, false, LEFT - 10.0);
            self.text(Paint::Faint, [LEFT - 6.0, y + 3.5], AXIS, Anchor::End, label);
        }
        self.frame(top, size);
        self.shapes.extend(content.draw([LEFT, top], size, self.time));
    }

    fn frame(&mut self, top: f32, size: [f32; 2]) {
        self.fill(Paint::Axis, [LEFT - 1.0, top], [1.0, size[1] + 1.0]);
        self.fill(Paint::Axis, [LEFT, top + size[1]], [size[0], 1.0]);
    }

    /// Adds the time axis, with labels that do not overlap.
    fn time_axis(&mut self) {
        let mut free_from = f32::MIN;
        for (x, label) in std::mem::take(&mut self.ticks) {
            self.fill(Paint::Axis, [x - 0.5, self.bottom], [1.0, 4.0]);
            let half = width_of(&label, AXIS, false) / 2.0;
            let at = x.min(self.width - 4.0 - half);
            if at - half > free_from {
                free_from = at + half + 4.0;
                self.text(
                    Paint::Faint,
                    [at, self.bottom + 16.0],
                    AXIS,
                    Anchor::Middle,
                    label,
                );
            }
        }
        let middle = [f32::midpoint(LEFT, self.right()), self.bottom + 31.0];
        let since = "since the connection's first packet".to_owned();
        self.text(Paint::Faint, middle, SMALL, Anchor::Middle, since);
    }
}

/// Smallest width of a picture.
const WIDTH_MIN: u32 = 360;
/// Largest width and height of a picture.
const SIZE_MAX: u32 = 16_000;
/// Smallest fraction of its height to which a panel shrinks.
const STRETCH_MIN: f32 = 0.35;
/// Approximate distance between labels of the time axis; less in a narrow picture.
const STEPS_APART: f32 = 110.0;
/// Approximate distance between labels of a vertical axis.
const VALUES_APART: f32 = 52.0;
/// Margins, in pixels.
const EDGE: f32 = 16.0;
pub(super) const LEFT: f32 = 104.0;
pub(super) const RIGHT: f32 = 18.0;
const BOTTOM: f32 = 40.0;
const ABOVE: f32 = 26.0;
/// Sizes of text.
const TITLE: f32 = 16.0;
const SUBTITLE: f32 = 13.0;
const SMALL: f32 = 11.0;
const AXIS: f32 = 10.5;
