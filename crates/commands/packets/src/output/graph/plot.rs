//! Lays the panels out, one above the other over one time axis.

use super::GraphPanel;
use super::axis::{Axis, Quantity};
use super::caption;
use super::legend;
use super::panels::Content;
use super::strip::Strip;
use super::view::{View, Way};
use sockeye_output::picture::text_metrics::{width_of, wrapped};
use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::{Anchor, Scene, Shape};

/// Everything of a view, in its place.
pub(super) fn lay_out(view: &View<'_>) -> Scene {
    let width = view.layout.width.clamp(WIDTH_MIN, SIZE_MAX) as f32;
    let time = Axis::new(view.time.0 as f64, view.time.1 as f64, LEFT, width - RIGHT);
    let mut sheet = Sheet {
        shapes: Vec::new(),
        width,
        bottom: 12.0,
        ticks: time.ticks(Quantity::Time, 110.0),
        time,
    };

    // 1. What stands above
    let (title, verdict, facts) = (caption::title(view), caption::verdict(view), caption::facts(view));
    sheet.paragraph(&title, TITLE, 2.0, Paint::Text, true);
    sheet.paragraph(&verdict, SUBTITLE, 5.0, Paint::Text, false);
    sheet.paragraph(&facts, SMALL, 5.0, Paint::Faint, false);
    let (drawn, height) = legend::draw(&legend::entries(view), EDGE, sheet.right(), sheet.bottom + 7.0);
    sheet.shapes.extend(drawn);
    sheet.bottom += 7.0 + height;

    // 2. How much room each panel gets
    let panels = view.panels();
    let ways: Vec<_> = view
        .ways
        .iter()
        .map(|way| (way, Strip::of(way), contents(view, way, &panels)))
        .collect();
    let (mut fixed, mut natural) = (sheet.bottom + BOTTOM, 0.0);
    for (_, strip, contents) in &ways {
        for (panel, content) in contents {
            fixed += ABOVE;
            fixed += if *panel == GraphPanel::Sequence {
                strip.height()
            } else {
                0.0
            };
            natural += height_of(*panel, content);
        }
    }
    let asked = view.layout.height.map(|height| height.min(SIZE_MAX) as f32);
    let stretch = asked.map_or(1.0, |height| ((height - fixed) / natural).max(STRETCH_MIN));
    let height = (fixed + natural * stretch).max(asked.unwrap_or(0.0));

    // 3. The panels
    for (way, strip, contents) in &ways {
        for (panel, content) in contents {
            let mut name = panel.title().to_owned();
            if view.ways.len() > 1 || *panel == GraphPanel::Sequence {
                name = format!("{name}, {}", way.name());
            }
            sheet.panel(name, content, height_of(*panel, content) * stretch, strip);
            if *panel == GraphPanel::Sequence {
                let drawn = strip.draw(LEFT, sheet.right(), sheet.bottom, time);
                sheet.shapes.extend(drawn);
                sheet.bottom += strip.height();
            }
        }
    }

    // 4. The time axis
    sheet.time_axis();
    let told = [verdict, facts].into_iter().filter(|part| !part.is_empty());
    Scene {
        width,
        height,
        title,
        description: told.collect::<Vec<_>>().join(". "),
        shapes: sheet.shapes,
        behaviour: None,
    }
}

/// The panels of one direction; of one without any points only the first, to say so.
fn contents<'a>(view: &View<'_>, way: &'a Way<'a>, panels: &[GraphPanel]) -> Vec<(GraphPanel, Content<'a>)> {
    let mut contents: Vec<_> = panels
        .iter()
        .map(|panel| (*panel, Content::new(way, *panel, view.time)))
        .collect();
    if contents.iter().all(|(_, content)| content.is_empty()) {
        contents.truncate(1);
    }
    contents
}

fn height_of(panel: GraphPanel, content: &Content<'_>) -> f32 {
    match panel {
        _ if content.is_empty() => 40.0,
        GraphPanel::Sequence if content.has_data() => 420.0,
        _ => 110.0,
    }
}

/// What is drawn, from top to bottom.
struct Sheet {
    shapes: Vec<Shape>,
    width: f32,
    /// Below what there is already
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

    /// Lines of text over the whole width.
    fn paragraph(&mut self, text: &str, size: f32, gap: f32, paint: Paint, bold: bool) {
        for text in wrapped(text, size, self.width - 2.0 * EDGE) {
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

    /// One panel, below the last.
    fn panel(&mut self, name: String, content: &Content<'_>, height: f32, strip: &Strip) {
        let (right, top) = (self.right(), self.bottom + ABOVE);
        let size = [right - LEFT, height];
        self.bottom = top + height;
        let room = size[0] - width_of(&name, SMALL) - 12.0;
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
        if let Some(note) = content.note_within((room / width_of(" ", SMALL)).max(0.0) as usize) {
            self.text(Paint::Faint, [right, top - 5.0], SMALL, Anchor::End, note);
        }
        self.shapes.extend(strip.shades(top, height, self.time));
        let ticks: Vec<_> = self.ticks.iter().map(|(x, _)| *x).collect();
        for x in ticks {
            self.fill(Paint::Grid, [x - 0.5, top], [1.0, height]);
        }
        let distance = VALUES_APART.min(height / 3.0);
        for (y, label) in content.axis(top, height).ticks(content.quantity(), distance) {
            self.fill(Paint::Grid, [LEFT, y - 0.5], [size[0], 1.0]);
            self.text(Paint::Faint, [LEFT - 6.0, y + 3.5], AXIS, Anchor::End, label);
        }
        self.frame(top, size);
        self.shapes.extend(content.draw([LEFT, top], size, self.time));
    }

    fn frame(&mut self, top: f32, size: [f32; 2]) {
        self.fill(Paint::Axis, [LEFT - 1.0, top], [1.0, size[1] + 1.0]);
        self.fill(Paint::Axis, [LEFT, top + size[1]], [size[0], 1.0]);
    }

    /// Its labels, as far as they do not touch.
    fn time_axis(&mut self) {
        let mut free_from = f32::MIN;
        for (x, label) in std::mem::take(&mut self.ticks) {
            self.fill(Paint::Axis, [x - 0.5, self.bottom], [1.0, 4.0]);
            let half = width_of(&label, AXIS) / 2.0;
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

/// Narrower pictures are drawn this wide
const WIDTH_MIN: u32 = 360;
/// Larger ones this large
const SIZE_MAX: u32 = 16_000;
/// Panels shrink to this much of what they need
const STRETCH_MIN: f32 = 0.35;
/// Between labels of a vertical axis, about
const VALUES_APART: f32 = 52.0;
/// Room at the edges, in pixels
const EDGE: f32 = 16.0;
pub(super) const LEFT: f32 = 104.0;
pub(super) const RIGHT: f32 = 18.0;
const BOTTOM: f32 = 40.0;
const ABOVE: f32 = 26.0;
/// Sizes of text
const TITLE: f32 = 16.0;
const SUBTITLE: f32 = 13.0;
const SMALL: f32 = 11.0;
const AXIS: f32 = 10.5;
