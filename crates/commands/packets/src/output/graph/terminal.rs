//! Graphs in a terminal: Braille characters of eight dots each, or ASCII where the locale has no others; with colours if allowed.

use super::GraphPanel;
use super::axis::{Axis, Quantity};
use super::caption;
use super::estimate::estimates;
use super::event_rows::EventRows;
use super::panels::PanelContent;
use super::view::View;
use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::Shape;
use sockeye_output::picture::text_metrics::wrapped_columns;
use sockeye_output::text::display_width;
use std::io::{self, Write};

pub(super) fn write(out: &mut impl Write, view: &View<'_>) -> io::Result<()> {
    let width = view.layout.width.clamp(WIDTH_MIN, CELLS_MAX) as usize;
    let height = view.layout.height.unwrap_or(HEIGHT).clamp(1, CELLS_MAX) as usize;
    let marks = if view.layout.ascii { &ASCII } else { &UNICODE };
    let mut page = Page {
        color: view.layout.color,
        marks,
        lines: Vec::new(),
    };

    // 1. Title, verdict, what was left out
    let title = caption::title(view).replace('→', marks.arrow);
    page.text(BOLD, &cut(&title, width));
    let mut verdict = wrapped_columns(&caption::verdict(view), width);
    if verdict.len() > VERDICT_LINES && height < 2 * HEIGHT as usize {
        verdict.truncate(VERDICT_LINES);
        if let Some(last) = verdict.last_mut() {
            *last = format!("{}{}", cut(last, width - marks.gap.chars().count()), marks.gap);
        }
    }
    verdict.iter().for_each(|line| page.text(PLAIN, line));
    for line in caption::left_out(view)
        .iter()
        .flat_map(|text| wrapped_columns(text, width))
    {
        page.text(FAINT, &line);
    }

    // 2. The panels that fit
    let event_rows: Vec<_> = view.directions.iter().map(EventRows::of).collect();
    let panels = view.panels();
    let has_sequence = panels.contains(&GraphPanel::Sequence);
    let event_lines: usize = if has_sequence {
        event_rows.iter().map(EventRows::len).sum()
    } else {
        0
    };
    let mut shown: Vec<_> = view
        .directions
        .iter()
        .enumerate()
        .flat_map(|(nth, direction)| {
            panels
                .iter()
                .map(move |panel| (nth, *panel, PanelContent::new(direction, *panel, view.time)))
        })
        .filter(|(.., content): &(usize, GraphPanel, PanelContent<'_>)| !content.is_empty())
        .collect();
    // The last two are the time axis and the legend.
    let lines_left = height.saturating_sub(page.lines.len() + event_lines + 2);
    let mut left_out = 0;
    while shown.len() > 1 && shown.iter().map(|(_, panel, _)| rows_min(*panel)).sum::<usize>() > lines_left {
        shown.pop();
        left_out += 1;
    }
    let least: usize = shown.iter().map(|(_, panel, _)| rows_min(*panel)).sum();
    let shares: usize = shown.iter().map(|(_, panel, _)| share_of(*panel)).sum();
    let spare = lines_left.saturating_sub(least);

    // 3. The panels
    let plot = width - LABELS;
    let time = Axis::new(
        view.time.0 as f64,
        view.time.1 as f64,
        0.0,
        (plot * 2) as f32 - 1.0,
    );
    for (nth, panel, content) in &shown {
        // One line is the title.
        let rows = rows_min(*panel) - 1 + spare * share_of(*panel) / shares.max(1);
        let mut name = panel.title().to_owned();
        if view.directions.len() > 1 || *panel == GraphPanel::Sequence {
            name = format!("{name}, {}", view.directions[*nth].name());
        }
        let columns = plot.saturating_sub(name.chars().count() + 3);
        let head = match content.note_within(|note| note.chars().count() <= columns) {
            Some(note) => format!("{name} ({note})"),
            None => name,
        };
        page.text(
            FAINT,
            &cut(&format!("{:LABELS$}{}", "", head.replace('\u{a0}', " ")), width),
        );
        draw_panel(&mut page, content, rows.max(2), plot, time);
        if *panel == GraphPanel::Sequence {
            for (name, paint, spans) in event_rows[*nth].rows(time) {
                page.event_row(&name, paint, &spans, plot);
            }
        }
    }
    if shown.is_empty() {
        page.text(FAINT, "nothing was captured of it");
    }

    // 4. The time axis and the legend
    page.time_axis(plot, time);
    let more = match left_out {
        0 => String::new(),
        1 => "no room for 1 panel".to_owned(),
        _ => format!("no room for {left_out} panels"),
    };
    let mut entries = legend(view, has_sequence);
    if left_out > 0 {
        entries.insert(0, (FAINT, &more));
    }
    page.legend(&entries, width);
    for line in page.lines {
        out.write_all(line.trim_end().as_bytes())?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Returns the legend for what a view contains.
fn legend(view: &View<'_>, has_sequence: bool) -> Vec<(&'static str, &'static str)> {
    let any = |paint: Paint| {
        let mut segments = view
            .directions
            .iter()
            .flat_map(|direction| &direction.side.segments);
        segments.any(|segment| super::shapes::paint_of(segment.flags) == paint)
    };
    let mut legend = vec![
        (escape(Paint::Data), "━ sent"),
        (escape(Paint::Acknowledged), "━ acknowledged"),
        (escape(Paint::Window), "━ window"),
    ];
    let has_flight = view.panels().contains(&GraphPanel::InFlight);
    if has_flight
        && view
            .directions
            .iter()
            .any(|direction| !estimates(direction).is_empty())
    {
        legend.push((escape(Paint::Estimated), "━ cwnd, estimated"));
    }
    for (paint, name) in [
        (Paint::Retransmitted, "R again"),
        (Paint::Spurious, "S spurious"),
        (Paint::Reordered, "O out of order"),
    ] {
        if has_sequence && any(paint) {
            legend.push((escape(paint), name));
        }
    }
    legend
}

/// The characters that a graph is drawn with.
struct Marks {
    arrow: &'static str,
    /// In place of text that was cut off.
    gap: &'static str,
    /// A span in a row of events or in the legend.
    span: char,
    /// An event of one moment.
    moment: char,
    /// Left edge of a panel, without and with a label.
    edge: [char; 2],
    /// A character for each set of eight dots.
    dots: fn(u8) -> char,
}

const UNICODE: Marks = Marks {
    arrow: "→",
    gap: "…",
    span: '━',
    moment: '╹',
    edge: ['│', '┤'],
    dots: |dots| char::from_u32(0x2800 + u32::from(dots)).unwrap_or('?'),
};

const ASCII: Marks = Marks {
    arrow: "->",
    gap: "...",
    span: '=',
    moment: '|',
    edge: ['|', '+'],
    dots: ascii_dots,
};

/// Returns the ASCII character that looks most like these dots of a Braille character.
const fn ascii_dots(dots: u8) -> char {
    // Rows of dots from top to bottom.
    const ROWS: [u8; 4] = [0x09, 0x12, 0x24, 0xc0];
    let mut rows = 0;
    let mut row = 0;
    while row < ROWS.len() {
        rows |= ((dots & ROWS[row] != 0) as u8) << row;
        row += 1;
    }
    match rows {
        0 => ' ',
        0b0001 => '\'',
        0b0010 | 0b0100 | 0b0110 => '-',
        0b1000 => '.',
        0b1100 => ',',
        0b0011 => '"',
        0b1001 | 0b1010 | 0b0101 => ':',
        // Three or four rows in one column or in both
        _ if dots & 0x47 == 0 || dots & 0xb8 == 0 => '|',
        _ => '#',
    }
}

/// The lines of a graph.
struct Page {
    color: bool,
    marks: &'static Marks,
    lines: Vec<String>,
}

impl Page {
    fn text(&mut self, style: &str, text: &str) {
        let mut line = String::new();
        self.push(&mut line, style, text);
        self.lines.push(line);
    }

    fn push(&self, line: &mut String, style: &str, text: &str) {
        if self.color && !style.is_empty() && !text.trim().is_empty() {
            line.push_str(style);
            line.push_str(text);
            line.push_str(RESET);
        } else {
            line.push_str(text);
        }
    }

    /// Adds a row of events.
    fn event_row(&mut self, name: &str, paint: Paint, spans: &[(f32, f32)], plot: usize) {
        let mut cells = vec![' '; plot];
        for (from, to) in spans {
            let last = ((*to / 2.0) as usize).min(plot - 1);
            let first = ((*from / 2.0) as usize).min(last);
            cells[first..=last].fill(if last > first {
                self.marks.span
            } else {
                self.marks.moment
            });
        }
        let mut line = String::new();
        let name = name.replace('\u{a0}', " ");
        let label = format!("{:>1$} ", cut(&name, LABELS - 1), LABELS - 1);
        self.push(&mut line, FAINT, &label);
        self.push(
            &mut line,
            escape(paint),
            cells.iter().collect::<String>().trim_end(),
        );
        self.lines.push(line);
    }

    fn time_axis(&mut self, plot: usize, time: Axis) {
        let mut cells = vec![' '; LABELS + plot];
        for (at, label) in time.ticks(Quantity::Time, 24.0) {
            let label: Vec<char> = label.replace('\u{a0}', " ").chars().collect();
            let middle = LABELS + (at / 2.0) as usize;
            let first =
                (middle.saturating_sub(label.len() / 2)).min((LABELS + plot).saturating_sub(label.len()));
            let around = first.saturating_sub(1)..(first + label.len() + 1).min(cells.len());
            if cells[around].iter().all(|cell| *cell == ' ') {
                cells[first..first + label.len()].copy_from_slice(&label);
            }
        }
        self.text(FAINT, &cells.iter().collect::<String>());
    }

    fn legend(&mut self, entries: &[(&str, &str)], width: usize) {
        let (mut line, mut columns) = (String::new(), 0);
        for (style, text) in entries {
            columns += display_width(text.as_bytes()) + 2;
            if columns > width + 2 {
                break;
            }
            let text = text.replace('━', self.marks.span.encode_utf8(&mut [0; 4]));
            self.push(&mut line, style, &text);
            line.push_str("  ");
        }
        self.lines.push(line);
    }
}

/// Adds a panel: labels to the left, dots to the right.
fn draw_panel(page: &mut Page, content: &PanelContent<'_>, rows: usize, plot: usize, time: Axis) {
    let (columns, lines) = (plot * 2, rows * 4);
    let size = [columns as f32 - 1.0, lines as f32 - 1.0];
    let mut dots = Dots {
        cells: vec![Cell::default(); plot * rows],
        plot,
        rows,
    };
    for shape in content.draw([0.0, 0.0], size, time) {
        dots.shape(&shape);
    }
    let mut labels = vec![String::new(); rows];
    for (at, label) in content
        .axis(0.0, size[1])
        .ticks(content.quantity(), 12.0_f32.min(lines as f32 / 3.0))
    {
        let row = ((at / 4.0) as usize).min(rows - 1);
        labels[row] = label.replace('\u{a0}', " ");
    }
    for (cells, label) in dots.cells.chunks_exact(plot).zip(labels) {
        let mut line = String::new();
        let edge = page.marks.edge[usize::from(!label.is_empty())];
        let label = format!("{:>1$}{edge}", cut(&label, LABELS - 1), LABELS - 1);
        page.push(&mut line, FAINT, &label);
        // One escape sequence for a run of cells with the same colour
        for run in cells.chunk_by(|one, other| one.paint == other.paint) {
            let text: String = run.iter().map(|cell| cell.character(page.marks)).collect();
            page.push(&mut line, run[0].paint.map_or(PLAIN, escape), &text);
        }
        page.lines.push(line);
    }
}

/// A character of two by four dots, in the most important paint of these.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    dots: u8,
    paint: Option<Paint>,
    letter: Option<char>,
}

impl Cell {
    fn character(&self, marks: &Marks) -> char {
        match self.letter {
            Some(letter) => letter,
            None if self.dots == 0 => ' ',
            None => (marks.dots)(self.dots),
        }
    }
}

struct Dots {
    cells: Vec<Cell>,
    plot: usize,
    rows: usize,
}

impl Dots {
    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Strokes { paint, strokes, .. } => {
                for [x, top, bottom] in strokes {
                    self.upright(*paint, *x, *top, *bottom);
                }
            }
            Shape::Line { paint, points, .. } => {
                for pair in points.windows(2) {
                    let ([ax, ay], [bx, by]) = (pair[0], pair[1]);
                    for column in ax as usize..=bx.max(ax) as usize {
                        self.dot(*paint, column, ay as usize);
                    }
                    self.upright(*paint, bx, ay.min(by), ay.max(by));
                }
            }
            // Retransmissions have their letter; other marks are only in the rows of events.
            _ => {}
        }
    }

    fn upright(&mut self, paint: Paint, x: f32, top: f32, bottom: f32) {
        for row in top.max(0.0) as usize..=bottom.max(0.0) as usize {
            self.dot(paint, x as usize, row);
        }
    }

    fn dot(&mut self, paint: Paint, x: usize, y: usize) {
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let (column, row) = (x / 2, y / 4);
        if column >= self.plot || row >= self.rows {
            return;
        }
        let cell = &mut self.cells[row * self.plot + column];
        cell.dots |= BITS[y % 4][x % 2];
        if cell.paint.is_none_or(|before| rank(paint) > rank(before)) {
            cell.paint = Some(paint);
            cell.letter = match paint {
                Paint::Retransmitted => Some('R'),
                Paint::Spurious => Some('S'),
                Paint::Reordered => Some('O'),
                _ => cell.letter,
            };
        }
    }
}

/// Returns the rank of a paint; a cell has the paint with the highest.
const fn rank(paint: Paint) -> u8 {
    match paint {
        Paint::Retransmitted => 6,
        Paint::Spurious => 5,
        Paint::Reordered | Paint::Estimated => 4,
        Paint::Data | Paint::Probe => 3,
        Paint::Acknowledged => 2,
        Paint::Sack => 1,
        _ => 0,
    }
}

const fn escape(paint: Paint) -> &'static str {
    match paint {
        Paint::Data => "\x1b[34m",
        Paint::Acknowledged => "\x1b[32m",
        Paint::Window | Paint::Closed => "\x1b[35m",
        Paint::Retransmitted => "\x1b[1;31m",
        Paint::Reordered | Paint::Spurious => "\x1b[33m",
        Paint::Sack => "\x1b[36m",
        Paint::Estimated => BOLD,
        _ => FAINT,
    }
}

/// Returns the first `width` characters.
fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

const fn rows_min(panel: GraphPanel) -> usize {
    match panel {
        GraphPanel::Sequence => 7,
        _ => 4,
    }
}

const fn share_of(panel: GraphPanel) -> usize {
    match panel {
        GraphPanel::Sequence => 4,
        _ => 1,
    }
}

const PLAIN: &str = "";
const BOLD: &str = "\x1b[1m";
const FAINT: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";
/// Characters left of a plot.
const LABELS: usize = 12;
/// Default number of lines.
const HEIGHT: u32 = 24;
const WIDTH_MIN: u32 = 30;
const CELLS_MAX: u32 = 1_000;
/// Limit for lines of a verdict in a low terminal.
const VERDICT_LINES: usize = 3;
