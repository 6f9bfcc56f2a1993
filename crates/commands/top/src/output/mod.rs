//! Draws the model into a buffer of characters. Pure: what is drawn follows from the model and the abilities of the terminal.

mod details;
mod fit;
pub(crate) mod records;
mod spark;
mod table;
#[cfg(test)]
mod tests;

use crate::state::filter_line::FilterLine;
use crate::state::sample::Sample;
use crate::state::view::{View, group_name};
use crate::state::{CHROME_LINES, Command, Mode, State, Target, text};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use sockeye_output::text::display_width;

/// What the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Abilities {
    pub(crate) has_color: bool,
    pub(crate) is_utf8: bool,
}

impl Abilities {
    /// Returns the mark of text that is cut.
    const fn mark(self) -> char {
        if self.is_utf8 { '\u{2026}' } else { '~' }
    }
}

/// Draws the whole screen.
pub(crate) fn draw(state: &State, abilities: Abilities) -> Buffer {
    let (columns, rows) = state.size;
    let mut canvas = Canvas {
        buffer: Buffer::empty(Rect::new(0, 0, columns, rows)),
        abilities,
    };
    let last = rows.saturating_sub(1);
    if let Mode::Text(text, first) = &state.mode {
        let lines = text::lines(text, columns);
        for (line, y) in lines.iter().skip(*first).zip(0..last) {
            canvas.text(0, y, line, Style::new());
        }
        canvas.text(0, last, "Esc: back  Up Down: scroll", canvas.dim());
        return canvas.buffer;
    }
    canvas.text(0, 0, &title(state), Style::new());
    draw_tabs(&mut canvas, state.view);
    match (&state.mode, state.shown()) {
        (Mode::Details(socket), Some(_)) => details::draw(&mut canvas, state, *socket),
        (_, Some(sample)) => table::draw(&mut canvas, state, sample),
        (_, None) => {
            let text = state.failure.as_deref().unwrap_or("reading ...");
            for (line, y) in text::lines(text, columns).iter().zip(3..last) {
                canvas.text(0, y, line, Style::new());
            }
        }
    }
    draw_status(&mut canvas, state, last);
    canvas.buffer
}

/// A buffer that takes text only where it has a place.
pub(super) struct Canvas {
    buffer: Buffer,
    abilities: Abilities,
}

impl Canvas {
    /// Writes text from a column on, and returns the column behind it. Text that does not fit ends in a mark.
    fn text(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        let area = self.buffer.area;
        if x >= area.width || y >= area.height {
            return x;
        }
        let room = usize::from(area.width - x);
        if display_width(text.trim_end().as_bytes()) <= room {
            return self.buffer.set_stringn(x, y, text, room, style).0;
        }
        self.buffer.set_stringn(x, y, text, room - 1, style);
        let mark = self.abilities.mark().to_string();
        self.buffer.set_stringn(area.width - 1, y, mark, 1, style).0
    }

    const fn dim(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    const fn reversed(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    const fn color(&self, color: Color) -> Style {
        if self.abilities.has_color {
            Style::new().fg(color)
        } else {
            Style::new()
        }
    }

    const fn width(&self) -> u16 {
        self.buffer.area.width
    }

    const fn height(&self) -> u16 {
        self.buffer.area.height
    }
}

/// The first line: what is most important first, since a narrow screen cuts it.
fn title(state: &State) -> String {
    let mut parts = Vec::new();
    if let Some(sample) = state.shown() {
        parts.push(sample.clock.to_string());
        parts.extend(urgent(state));
        let newest = state.history.last(state.view).map_or(sample.at, |last| last.at);
        if let Some(playback) = &state.playback {
            parts.push(if playback.is_playing { "PLAYS" } else { "STOPPED" }.to_owned());
        } else if state.still_at.is_some() {
            let back = newest.saturating_sub(sample.at).as_secs();
            parts.push(format!("PAUSED -{}:{:02}", back / 60, back % 60));
        }
        let count = sample.table.rows.len() + sample.table.left_out;
        let of = match state.view {
            View::Groups => {
                let group_by = sample.group_by.unwrap_or(state.group_by());
                format!(" by {}", group_name(group_by))
            }
            _ => String::new(),
        };
        let noun = if count == 1 {
            state.view.noun()
        } else {
            state.view.name()
        };
        parts.push(format!("{count} {noun}{of}"));
        // That of the rows that are shown, which may be of an earlier time than the filter of now.
        if !sample.filter.is_empty() && state.view.has_filter() {
            parts.push(format!("/{}", sockeye_output::harmless(sample.filter.as_bytes())));
        } else if !sample.filter.is_empty() {
            parts.push("all: the filter selects sockets".to_owned());
        }
        // Recorded samples are shown as fast as they are played.
        if state.playback.is_none() {
            parts.push(interval(state, sample));
        }
    } else {
        parts.push("sockeye top".to_owned());
        if !state.filter.is_empty() {
            parts.push(format!("/{}", sockeye_output::harmless(state.filter.as_bytes())));
        }
        // Why there are no rows is in their place.
        parts.extend(capture(state));
    }
    if state.shown().is_some_and(|sample| !sample.notes.is_empty()) {
        parts.push("! notes".to_owned());
    }
    parts.join("  ")
}

/// What must not be cut: why the numbers are old, and what runs.
fn urgent(state: &State) -> impl Iterator<Item = String> {
    let failure = state.failure.as_deref().and_then(|text| text.lines().next());
    failure.map(str::to_owned).into_iter().chain(capture(state))
}

fn capture(state: &State) -> Option<String> {
    state.capture.map(|_| "CAPTURE RUNS (c ends it)".to_owned())
}

/// The interval between samples, and whether it is longer than was asked for.
fn interval(state: &State, sample: &Sample) -> String {
    let seconds = format!("{:.3}", sample.interval.as_secs_f64());
    let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
    let slower = if sample.interval > state.interval {
        " (5 % of a core)"
    } else {
        ""
    };
    format!("every {seconds} s{slower}")
}

/// The texts of the views, and the columns at which they begin.
fn tabs(width: u16) -> Vec<(u16, View, String)> {
    let texts = |of: fn(View) -> String| View::ALL.map(|view| (view, of(view)));
    let long = texts(|view| format!("{} {}", view.index() + 1, view.name()));
    let short = texts(|view| {
        let name = view.name();
        format!("{} {}", view.index() + 1, &name[..name.len().min(2)])
    });
    let length = |texts: &[(View, String)], gap: usize| {
        let all: usize = texts.iter().map(|(_, text)| text.len() + gap).sum();
        all - gap
    };
    let fits = |texts: &[(View, String)], gap| length(texts, gap) <= usize::from(width);
    let (texts, gap) = match (fits(&long, 2), fits(&long, 1)) {
        (true, _) => (long, 2),
        (false, true) => (long, 1),
        (false, false) => (short, 1),
    };
    let mut at = 0;
    let place = |(view, text): (View, String)| {
        let begin = at;
        at += text.len() as u16 + gap;
        (begin, view, text)
    };
    texts.into_iter().map(place).collect()
}

fn draw_tabs(canvas: &mut Canvas, current: View) {
    for (x, view, text) in tabs(canvas.width()) {
        let style = if view == current {
            canvas.reversed()
        } else {
            canvas.dim()
        };
        canvas.text(x, TABS_LINE as u16, &text, style);
    }
}

/// Returns what is at a column and a row of the screen.
pub(crate) fn target_at(state: &State, column: u16, row: u16) -> Option<Target> {
    match usize::from(row) {
        TABS_LINE => tab_at(column, state.size.0).map(Target::View),
        HEADINGS_LINE => table::heading_at(state, column).map(Target::Heading),
        row => {
            let nth = row
                .checked_sub(HEADINGS_LINE + 1)
                .filter(|nth| *nth < state.page())?;
            let index = state.place().0 + nth;
            (index < state.rows().len()).then_some(Target::Row(index))
        }
    }
}

/// Line of the views, from 0.
const TABS_LINE: usize = 1;
/// Line of the headings.
const HEADINGS_LINE: usize = 2;
// Below the rows there are two more lines.
const _: () = assert!(HEADINGS_LINE + 3 == CHROME_LINES);

/// Returns the view whose name is at a column.
fn tab_at(column: u16, width: u16) -> Option<View> {
    let tabs = tabs(width);
    let found = tabs.into_iter().rev().find(|(begin, ..)| *begin <= column);
    found
        .filter(|(begin, _, text)| usize::from(column - begin) < text.len())
        .map(|(_, view, _)| view)
}

/// The last line: a question, a filter, a message, or the most important keys.
fn draw_status(canvas: &mut Canvas, state: &State, y: u16) {
    match &state.mode {
        Mode::Filter(line) => draw_filter(canvas, line, y),
        Mode::Confirm(command) => {
            let question = match command {
                Command::Kill(_, label) => format!("Close {label}? y/n"),
                Command::Keepalive(_, label) => format!("Turn on keepalive for {label}? y/n"),
                _ => "Are you sure? y/n".to_owned(),
            };
            canvas.text(
                0,
                y,
                &question,
                canvas.color(Color::Yellow).add_modifier(Modifier::BOLD),
            );
        }
        _ => {
            let keys = match state.mode {
                Mode::Details(_) => "Esc: back  k: close  K: keepalive  c: capture  p: pause  ?: help",
                _ => "q: end  ?: help  /: filter  <>: sort  Enter: more  p: pause",
            };
            let style = if state.message.is_some() {
                canvas.color(Color::Yellow)
            } else {
                canvas.dim()
            };
            canvas.text(0, y, state.message.as_deref().unwrap_or(keys), style);
        }
    }
}

/// A filter with its cursor; above it what is wrong, or what can follow.
fn draw_filter(canvas: &mut Canvas, line: &FilterLine, y: u16) {
    let width = usize::from(canvas.width());
    let before = line.text[..line.cursor].chars().count();
    // Of a long filter the part at the cursor is shown.
    let skipped = (before + 2).saturating_sub(width);
    let shown: String = line.text.chars().skip(skipped).collect();
    canvas.text(0, y, "/", Style::new());
    let padded = format!("{shown:0$}", width.saturating_sub(1));
    canvas.text(1, y, &padded, Style::new());
    let cursor = (before.saturating_sub(skipped) + 1) as u16;
    if cursor < canvas.width() && y < canvas.height() {
        let style = canvas.reversed();
        canvas.buffer[(cursor, y)].set_style(style);
    }
    let Some(above) = y.checked_sub(1) else { return };
    let blank = " ".repeat(width);
    if !line.candidates.is_empty() {
        canvas.text(0, above, &blank, Style::new());
        canvas.text(0, above, &line.candidates.join(" "), canvas.dim());
    } else if let Some(error) = &line.error {
        let at = line
            .text
            .get(..error.span.start)
            .map_or(0, |text| text.chars().count());
        let column = at.saturating_sub(skipped) + 1;
        let message = format!("^ {error}");
        let length = message.chars().count();
        // Where the message does not fit to the right of its place, it ends there.
        let text = if column + length <= width || column < length {
            format!("{:column$}{message}", "")
        } else {
            let message = format!("{error} ^");
            format!("{:1$}{message}", "", (column + 1).saturating_sub(length))
        };
        canvas.text(0, above, &blank, Style::new());
        canvas.text(0, above, &text, canvas.color(Color::Yellow));
    }
}
