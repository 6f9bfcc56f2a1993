//! One connection: what it is, what holds it back, and its numbers over time.

use super::Canvas;
use super::spark::spark;
use crate::state::State;
use crate::state::details::{COLUMN_WIDTH_MIN, LABEL_WIDTH, Line, TextKind, lines};
use crate::state::sample::Details;
use crate::state::table::SocketId;
use ratatui_core::style::{Color, Modifier, Style};
use sockeye_model::counted;
use sockeye_output::unit::Unit;

/// Draws the details of a socket as of the sample that is shown.
pub(super) fn draw(canvas: &mut Canvas, state: &State, socket: SocketId) {
    let samples = state.details_of(socket);
    let Some(last) = samples.last() else {
        let text = match state.still_at {
            Some(_) => "Not read at that time: p goes on.",
            None => "reading ...",
        };
        canvas.text(0, 3, text, Style::new());
        return;
    };
    let bottom = canvas.height().saturating_sub(1);
    let top = 2;
    let lines = lines(
        last,
        state.has_details(socket),
        canvas.width(),
        canvas.abilities.mark(),
    );
    let space = usize::from(bottom.saturating_sub(top));
    // The last line says how many do not fit.
    let fitting = if lines.len() > space {
        space.saturating_sub(1)
    } else {
        space
    };
    let first = state.details_first.min(lines.len().saturating_sub(fitting));
    for (line, y) in lines[first..].iter().take(fitting).zip(top..) {
        draw_line(canvas, &samples, line, y);
    }
    if lines.len() > space {
        let (above, below) = (first, lines.len().saturating_sub(first + fitting));
        let text = match (above, below) {
            (0, _) => format!("{}: Down", counted(below, "more line")),
            (_, 0) => format!("{} above: Up", counted(above, "line")),
            _ => format!("{} above: Up; {below} below: Down", counted(above, "line")),
        };
        canvas.text(0, bottom.saturating_sub(1), &text, canvas.dim());
    }
}

fn draw_line(canvas: &mut Canvas, samples: &[&Details], line: &Line, y: u16) {
    match line {
        Line::Blank => {}
        Line::Ended => {
            let text = "The connection has ended; this is its last sample.";
            canvas.text(0, y, text, canvas.color(Color::Yellow));
        }
        Line::Text { label, text, kind } => {
            let x = canvas.text(0, y, &format!("{label:<LABEL_WIDTH$}"), canvas.dim());
            let style = match kind {
                TextKind::Fact => Style::new(),
                TextKind::Limit => canvas.color(Color::Yellow).add_modifier(Modifier::BOLD),
            };
            canvas.text(x, y, text, style);
        }
        Line::Numbers(indices) => {
            let columns = (usize::from(canvas.width()) / COLUMN_WIDTH_MIN).max(1);
            let width = usize::from(canvas.width()) / columns;
            for (nth, index) in indices.iter().enumerate() {
                draw_number(canvas, samples, *index, (nth * width) as u16, y, width);
            }
        }
    }
}

/// Draws a number with its values over time.
fn draw_number(canvas: &mut Canvas, samples: &[&Details], index: usize, x: u16, y: u16, width: usize) {
    let Some((name, value)) = samples.last().and_then(|last| last.numbers.get(index)) else {
        return;
    };
    let mut text = Vec::new();
    Unit::of(name).push(&mut text, value.unwrap_or(0));
    let text = String::from_utf8_lossy(&text);
    let past: Vec<Option<u64>> = samples
        .iter()
        .map(|details| {
            let found = details.numbers.iter().find(|(other, _)| other == name);
            found.and_then(|(_, value)| *value)
        })
        .collect();
    let short = sockeye_model::strip_unit(name);
    let at = canvas.text(x, y, &format!("{short:<NAME_WIDTH$} "), canvas.dim());
    let at = canvas.text(at, y, &format!("{text:>VALUE_WIDTH$} "), Style::new());
    let graph = (usize::from(x) + width).saturating_sub(usize::from(at) + 1);
    canvas.text(
        at,
        y,
        &spark(&past, graph, canvas.abilities.is_utf8),
        canvas.color(Color::Cyan),
    );
}

const NAME_WIDTH: usize = 20;
const VALUE_WIDTH: usize = 9;
