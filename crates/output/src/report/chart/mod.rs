//! Charts of a report as a picture: curves over a common axis, one chart below the other.
//!
//! Each curve has its own colour and its own shape of dots, so that it can be identified without colours.
//!
//! Drawn here although `plotters` exists (three packages more, with SVG alone). Its pixels need a font file, and its SVG
//! does not follow the viewer's light or dark theme; a chart here is one scene that becomes SVG, PNG, sixels or characters.

mod axis;
mod dots;

use super::{noise, text};
use crate::picture::paint::Paint;
use crate::picture::scene::{Anchor, Scene, Shape};
use crate::picture::text_metrics::{shortened, width_of, wrapped};
use crate::text::harmless;
use axis::Axis;
use sockeye_measure::{Chart, Line, Report};

/// Lays out all charts, with the settings above and the noise below.
pub(super) fn lay_out(report: &Report) -> Scene {
    lay_out_within(report, WIDTH)
}

/// Lays out all charts in a picture of this width, in pixels.
fn lay_out_within(report: &Report, width: f32) -> Scene {
    let mut sheet = Sheet {
        shapes: Vec::new(),
        width,
        bottom: EDGE - 4.0,
    };
    let (title, is_of_chart) = title(report);
    sheet.paragraph(&title, TITLE, Paint::Text, true);
    sheet.paragraph(&text::head(report), SMALL, Paint::Faint, false);
    if let Some(partial) = &report.partial {
        let text = format!("PARTIAL: {}", harmless(partial.text.as_bytes()));
        sheet.paragraph(&text, SUBTITLE, Paint::Retransmitted, true);
    }
    if report.charts.is_empty() {
        sheet.paragraph(NOTHING, SUBTITLE, Paint::Faint, false);
    }
    for chart in &report.charts {
        sheet.chart(chart, is_of_chart);
    }
    if let Some(noise) = &report.noise {
        sheet.bottom += 8.0;
        sheet.paragraph(&noise::describe(noise), SMALL, Paint::Faint, false);
    }
    let shown = report.charts.iter().map(|chart| harmless(chart.title.as_bytes()));
    Scene {
        width,
        height: sheet.bottom + EDGE,
        title,
        description: shown.collect::<Vec<_>>().join(". "),
        shapes: sheet.shapes,
        behaviour: None,
    }
}

/// Returns the title of the picture, and whether it is the title of its only chart.
fn title(report: &Report) -> (String, bool) {
    match (&report.title[..], &report.charts[..]) {
        ("", [chart]) => (harmless(chart.title.as_bytes()), true),
        ("", _) => (
            format!("Results of sockeye {} {}", report.command, report.bench),
            false,
        ),
        (title, _) => (harmless(title.as_bytes()), false),
    }
}

/// A picture that is filled from top to bottom.
struct Sheet {
    shapes: Vec<Shape>,
    width: f32,
    /// Bottom of the shapes so far, in pixels from the top.
    bottom: f32,
}

impl Sheet {
    /// Adds lines of text over the whole width.
    fn paragraph(&mut self, text: &str, size: f32, paint: Paint, bold: bool) {
        for line in wrapped(text, size, bold, self.width - 2.0 * EDGE) {
            self.bottom += size + 5.0;
            self.text(paint, [EDGE, self.bottom], size, Anchor::Start, bold, line);
        }
    }

    fn text(&mut self, paint: Paint, at: [f32; 2], size: f32, anchor: Anchor, bold: bool, text: String) {
        self.shapes.push(Shape::Text {
            paint,
            at,
            size,
            anchor,
            bold,
            text,
        });
    }

    fn fill(&mut self, paint: Paint, at: [f32; 2], size: [f32; 2]) {
        self.shapes.push(Shape::Fill { paint, at, size });
    }

    fn chart(&mut self, chart: &Chart, is_titled: bool) {
        // 1. The title and the legend
        self.bottom += 14.0;
        if !is_titled {
            self.paragraph(&harmless(chart.title.as_bytes()), SUBTITLE, Paint::Text, true);
        }
        self.legend(&chart.lines);

        // 2. The axes; they begin right of the widest label
        let points = || chart.lines.iter().flat_map(|line| line.points.iter());
        let drawn = || points().filter(|(x, y)| x.is_finite() && y.is_finite());
        let marked = chart.marks.iter().map(|(x, _)| *x);
        let x_values = drawn().map(|(x, _)| *x).chain(marked);
        let x_axis = Axis::over(x_values, chart.x_scale, chart.x.1, false);
        let y_axis = Axis::over(drawn().map(|(_, y)| *y), chart.y_scale, chart.y.1, true);
        let labels = y_axis.placed(HEIGHT, 0.0).ticks(VALUES_APART);
        let widest = labels.iter().map(|(_, label)| width_of(label, SMALL, false));
        let (left, right) = (EDGE + widest.fold(20.0, f32::max) + 8.0, self.width - EDGE - 12.0);
        let x_axis = x_axis.placed(left, right);

        // 3. The words of the marks, in rows so that they do not overlap
        self.bottom += 18.0;
        self.text(
            Paint::Faint,
            [EDGE, self.bottom],
            SMALL,
            Anchor::Start,
            false,
            shortened(chart.y.0, SMALL, false, self.width - 2.0 * EDGE),
        );
        let marks = placed(&chart.marks, x_axis, left, right);
        let rows = marks.iter().map(|mark| mark.row + 1).max().unwrap_or(0);
        let (rows_top, top) = (self.bottom + 4.0, self.bottom + 12.0 + rows as f32 * ROW);
        self.bottom = top + HEIGHT;
        let y_axis = y_axis.placed(self.bottom, top);

        // 4. The grid, then the curves, then their dots
        let mut free_above = f32::MAX;
        for (y, label) in y_axis.ticks(VALUES_APART) {
            self.fill(Paint::Grid, [left, y - 0.5], [right - left, 1.0]);
            let base = y + 4.0;
            if base <= free_above {
                free_above = base - SMALL - 2.0;
                self.text(Paint::Faint, [left - 6.0, base], SMALL, Anchor::End, false, label);
            }
        }
        self.x_axis(x_axis, top, chart.x.0);
        self.fill(Paint::Axis, [left - 1.0, top], [1.0, HEIGHT + 1.0]);
        self.fill(Paint::Axis, [left, top + HEIGHT], [right - left, 1.0]);
        for mark in &marks {
            self.mark(mark, rows_top, top + HEIGHT);
        }
        let mut is_empty = true;
        for (nth, line) in chart.lines.iter().enumerate() {
            let at = |(x, y): &(f64, f64)| Some([x_axis.at(*x)?, y_axis.at(*y)?]);
            let points: Vec<[f32; 2]> = line.points.iter().filter_map(at).collect();
            is_empty &= points.is_empty();
            self.curve(nth, points);
        }
        if is_empty {
            let middle = [f32::midpoint(left, right), top + HEIGHT / 2.0];
            self.text(
                Paint::Faint,
                middle,
                SUBTITLE,
                Anchor::Middle,
                false,
                NOTHING.to_owned(),
            );
        }
    }

    /// Draws the horizontal axis, its name, and those labels that do not overlap.
    fn x_axis(&mut self, axis: Axis, top: f32, name: &str) {
        let mut free_from = f32::MIN;
        for (x, label) in axis.ticks(STEPS_APART) {
            self.fill(Paint::Grid, [x - 0.5, top], [1.0, HEIGHT]);
            self.fill(Paint::Axis, [x - 0.5, self.bottom], [1.0, 4.0]);
            let half = width_of(&label, SMALL, false) / 2.0;
            let at = x.min(self.width - 4.0 - half).max(4.0 + half);
            if at - half > free_from {
                free_from = at + half + 4.0;
                let position = [at, self.bottom + 17.0];
                self.text(Paint::Faint, position, SMALL, Anchor::Middle, false, label);
            }
        }
        self.bottom += 35.0;
        let middle = [self.width / 2.0, self.bottom];
        let name = shortened(name, SMALL, false, self.width - 2.0 * EDGE);
        self.text(Paint::Faint, middle, SMALL, Anchor::Middle, false, name);
    }

    /// Draws the names of the curves, in as many lines as they need.
    fn legend(&mut self, lines: &[Line]) {
        let (mut x, mut base) = (EDGE, self.bottom + 18.0);
        for (nth, line) in lines
            .iter()
            .enumerate()
            .filter(|(_, line)| !line.points.is_empty())
        {
            let widest = self.width - 2.0 * EDGE - SAMPLE - 6.0;
            let name = shortened(&harmless(line.name.as_bytes()), SMALL, false, widest);
            let width = SAMPLE + 6.0 + width_of(&name, SMALL, false) + 20.0;
            if x > EDGE && x + width - 20.0 > self.width - EDGE {
                (x, base) = (EDGE, base + 18.0);
            }
            let y = base - 4.0;
            self.shapes.push(dots::line(nth, vec![[x, y], [x + SAMPLE, y]]));
            self.shapes.push(dots::dot([x + SAMPLE / 2.0, y], nth));
            self.text(
                Paint::Text,
                [x + SAMPLE + 6.0, base],
                SMALL,
                Anchor::Start,
                false,
                name,
            );
            (x, self.bottom) = (x + width, base);
        }
    }

    /// Draws a curve, and dots at those of its points that are far enough apart.
    fn curve(&mut self, nth: usize, points: Vec<[f32; 2]>) {
        let mut dotted: Option<[f32; 2]> = None;
        let last = points.len().saturating_sub(1);
        let dots: Vec<Shape> = points
            .iter()
            .enumerate()
            .filter_map(|(index, at)| {
                let far = dotted.is_none_or(|dot| (dot[0] - at[0]).hypot(dot[1] - at[1]) >= DOTS_APART);
                (far || index == last).then(|| {
                    dotted = Some(*at);
                    dots::dot(*at, nth)
                })
            })
            .collect();
        self.shapes.push(dots::line(nth, points));
        self.shapes.extend(dots);
    }

    /// Draws a dashed line from the words of a mark down to the axis.
    fn mark(&mut self, mark: &Mark, rows_top: f32, bottom: f32) {
        let (top, base) = (
            rows_top + mark.row as f32 * ROW,
            rows_top + mark.row as f32 * ROW + ROW - 5.0,
        );
        let dashes = ((bottom - top) / 6.0) as u32;
        let strokes = (0..dashes).map(|nth| {
            let from = top + nth as f32 * 6.0;
            [mark.x, from, from + 3.5]
        });
        self.shapes.push(Shape::Strokes {
            paint: Paint::Faint,
            width: 1.0,
            strokes: strokes.collect(),
        });
        // A background, so that other lines do not cross the words.
        self.fill(
            Paint::Page,
            [mark.from + 1.0, top],
            [mark.to - mark.from - 1.0, ROW - 2.0],
        );
        let text = mark.text.clone();
        self.text(
            Paint::Text,
            [mark.from + 3.0, base],
            SMALL,
            Anchor::Start,
            false,
            text,
        );
    }
}

/// Words at a position on the horizontal axis.
#[derive(Debug, Clone, PartialEq)]
struct Mark {
    x: f32,
    text: String,
    /// Left and right end of the text, in pixels.
    from: f32,
    to: f32,
    /// Row of the text, from the top.
    row: usize,
}

/// Assigns a row to each mark: below the rows of marks that it would overlap, so that its dashed line crosses no words.
fn placed(marks: &[(f64, String)], axis: Axis, left: f32, right: f32) -> Vec<Mark> {
    let mut sorted: Vec<(f32, String)> = marks
        .iter()
        .filter_map(|(x, text)| Some((axis.at(*x)?, harmless(text.as_bytes()))))
        .collect();
    sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
    sorted.truncate(MARKS_MAX);
    let mut placed: Vec<Mark> = Vec::new();
    for (x, text) in sorted {
        let text = shortened(&text, SMALL, false, right - left - 8.0);
        let width = width_of(&text, SMALL, false) + 8.0;
        // At the right end the words are left of the line.
        let from = if x + width <= right {
            x
        } else {
            (x - width).max(left)
        };
        let to = from + width;
        let touched = placed.iter().filter(|other| other.from < to && from < other.to);
        let row = touched.map(|other| other.row + 1).max().unwrap_or(0);
        placed.push(Mark {
            x,
            text,
            from,
            to,
            row,
        });
    }
    placed
}

const NOTHING: &str = "nothing was measured that could be drawn";
const WIDTH: f32 = 960.0;
/// Height of a chart without title, legend and labels.
const HEIGHT: f32 = 340.0;
const EDGE: f32 = 16.0;
/// Approximate distance between labels of the axes.
const VALUES_APART: f32 = 48.0;
const STEPS_APART: f32 = 64.0;
/// Minimum distance between dots of a curve.
const DOTS_APART: f32 = 14.0;
/// Height of a row of marks.
const ROW: f32 = 17.0;
/// Upper limit for marks of a chart.
const MARKS_MAX: usize = 24;
/// Length of the line in the legend.
const SAMPLE: f32 = 30.0;
/// Sizes of text.
const TITLE: f32 = 16.0;
const SUBTITLE: f32 = 13.0;
const SMALL: f32 = 12.0;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_measure::{Scale, Unit, Value};

    fn marks(positions: &[f64]) -> Vec<Mark> {
        let axis =
            Axis::over([0.0, 100.0].into_iter(), Scale::Linear, Unit::Number, false).placed(0.0, 400.0);
        let marks: Vec<_> = positions.iter().map(|x| (*x, "a few words".to_owned())).collect();
        placed(&marks, axis, 0.0, 400.0)
    }

    #[test]
    fn words_of_marks_do_not_overlap() {
        let rows = |positions: &[f64]| marks(positions).iter().map(|mark| mark.row).collect::<Vec<_>>();
        assert_eq!(rows(&[10.0, 60.0]), [0, 0]);
        assert_eq!(rows(&[12.0, 11.0, 10.0]), [0, 1, 2]);
        let many: Vec<f64> = (0..40).map(|nth| f64::from(nth) * 3.0 % 100.0).collect();
        let all = marks(&many);
        assert_eq!(all.len(), MARKS_MAX);
        for (nth, one) in all.iter().enumerate() {
            assert!(one.from >= 0.0 && one.to <= 400.0, "{one:?}");
            for other in &all[nth + 1..] {
                assert!(
                    one.row != other.row || one.to <= other.from || other.to <= one.from,
                    "{one:?} {other:?}"
                );
            }
        }
        assert!(
            placed(
                &[(f64::NAN, String::new())],
                Axis::over([].into_iter(), Scale::Linear, Unit::Number, false),
                0.0,
                9.0
            )
            .is_empty()
        );
    }

    /// Numbers that look random and are the same in each run (xorshift).
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % limit
        }

        fn name(&mut self) -> String {
            let len = 1 + self.below(3) * self.below(40);
            let letters: Vec<char> = "iW m漢·/é0 ".chars().collect();
            (0..len)
                .map(|_| letters[self.below(letters.len() as u64) as usize])
                .collect()
        }

        fn number(&mut self) -> f64 {
            let digit = self.below(1000) as f64;
            digit * 10_f64.powi(self.below(14) as i32 - 4)
        }
    }

    #[test]
    fn no_labels_collide_in_any_chart() {
        let units = [
            Unit::Bytes,
            Unit::Count,
            Unit::BitsPerSecond,
            Unit::Seconds,
            Unit::Nanoseconds,
            Unit::Permille,
            Unit::Number,
        ];
        let scales = [Scale::Linear, Scale::Logarithmic];
        let mut random = Random(0x5eed);
        for _ in 0..250 {
            let mut report = Report::new("stream");
            report.setting("host", "to", Unit::Text, Value::Text(random.name()));
            if random.below(2) == 0 {
                report.title = random.name();
            }
            for _ in 0..random.below(3) {
                let mut lines = Vec::new();
                for _ in 0..random.below(9) {
                    let mut points: Vec<_> = (0..random.below(12))
                        .map(|_| (random.number(), random.number()))
                        .collect();
                    points.sort_by(|one, other| one.0.total_cmp(&other.0));
                    lines.push(Line {
                        name: random.name(),
                        points,
                    });
                }
                report.charts.push(Chart {
                    title: random.name(),
                    x: (
                        "a long name of the horizontal axis, in units",
                        units[random.below(7) as usize],
                    ),
                    y: ("value", units[random.below(7) as usize]),
                    x_scale: scales[random.below(2) as usize],
                    y_scale: scales[random.below(2) as usize],
                    lines,
                    marks: (0..random.below(6) * random.below(6))
                        .map(|_| (random.number(), random.name()))
                        .collect(),
                });
            }
            let width = 420.0 + random.below(1580) as f32;
            let scene = lay_out_within(&report, width);
            assert_eq!(scene.unreadable_text(), None, "{width} {report:?}");
        }
    }

    #[test]
    fn a_title_is_a_sentence_and_settings_are_below_it() {
        let mut report = Report::new("stream");
        report.setting("time_s", "for", Unit::Seconds, Value::Whole(3));
        report.charts.push(Chart {
            title: "Throughput of one stream over lo, 3 s".to_owned(),
            x: ("time", Unit::Seconds),
            y: ("throughput", Unit::BitsPerSecond),
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            lines: Vec::new(),
            marks: Vec::new(),
        });
        let scene = lay_out(&report);
        let texts: Vec<String> = scene.text_boxes().into_iter().map(|(text, _)| text).collect();
        assert_eq!(scene.title, "Throughput of one stream over lo, 3 s");
        assert_eq!(
            texts[..2],
            ["Throughput of one stream over lo, 3 s", "stream: for 3s"]
        );
        // The only chart's title is not repeated.
        assert!(!texts[1..].contains(&scene.title));
        report.charts.push(report.charts[0].clone());
        report.title = "Two streams, one after the other".to_owned();
        assert_eq!(lay_out(&report).title, "Two streams, one after the other");
    }
}
