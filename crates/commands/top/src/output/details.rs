//! One connection: what it is, what holds it back, and its numbers over time.

use super::Canvas;
use super::spark::spark;
use crate::state::State;
use crate::state::sample::{Details, Sample};
use crate::state::table::SocketId;
use ratatui_core::style::{Color, Modifier, Style};
use sockeye_output::unit::Unit;

/// Draws the details of a socket as of a sample.
pub(super) fn draw(canvas: &mut Canvas, state: &State, socket: SocketId, sample: &Sample) {
    let samples: Vec<&Details> = state
        .history
        .of(state.view)
        .filter(|other| other.number <= sample.number)
        .filter_map(|other| other.details.as_deref())
        .filter(|details| details.socket == socket)
        .collect();
    let Some(last) = samples.last() else {
        let text = match state.still_at {
            Some(_) => "Not read at that time: p goes on.",
            None => "reading ...",
        };
        canvas.text(0, 3, text, Style::new());
        return;
    };
    let bottom = canvas.height().saturating_sub(1);
    let is_here = sample
        .details
        .as_ref()
        .is_some_and(|details| details.socket == socket);
    let mut y = 2;
    if !is_here {
        canvas.text(
            0,
            y,
            "The connection has ended; this is its last sample.",
            canvas.color(Color::Yellow),
        );
        y += 1;
    }
    for (name, text) in &last.facts {
        if y >= bottom {
            return;
        }
        let x = canvas.text(0, y, &format!("{name:<14}"), canvas.dim());
        canvas.text(x, y, text, Style::new());
        y += 1;
    }
    if !last.limit.is_empty() && y < bottom {
        let x = canvas.text(0, y, "held back by  ", canvas.dim());
        canvas.text(
            x,
            y,
            &last.limit,
            canvas.color(Color::Yellow).add_modifier(Modifier::BOLD),
        );
        y += 1;
    }
    draw_numbers(canvas, &samples, y + 1, bottom);
}

/// Draws each number with its values over time, in as many columns as fit.
fn draw_numbers(canvas: &mut Canvas, samples: &[&Details], top: u16, bottom: u16) {
    let Some(last) = samples.last() else { return };
    let known: Vec<usize> = (0..last.numbers.len())
        .filter(|index| last.numbers[*index].1.is_some())
        .collect();
    let lines = usize::from(bottom.saturating_sub(top));
    let columns = (usize::from(canvas.width()) / COLUMN_WIDTH_MIN).max(1);
    let width = usize::from(canvas.width()) / columns;
    let graph = width.saturating_sub(NAME_WIDTH + VALUE_WIDTH + 3);
    for (nth, index) in known.iter().take(lines * columns).enumerate() {
        let (x, y) = ((nth / lines * width) as u16, top + (nth % lines) as u16);
        let (name, value) = last.numbers[*index];
        let mut text = Vec::new();
        Unit::of(name).push(&mut text, value.unwrap_or(0));
        let text = String::from_utf8_lossy(&text);
        let past: Vec<Option<u64>> = samples
            .iter()
            .map(|details| {
                details
                    .numbers
                    .iter()
                    .find(|(other, _)| *other == name)
                    .and_then(|(_, value)| *value)
            })
            .collect();
        let short = sockeye_model::strip_unit(name);
        let short: String = short.chars().take(NAME_WIDTH).collect();
        let at = canvas.text(x, y, &format!("{short:<NAME_WIDTH$} "), canvas.dim());
        let at = canvas.text(at, y, &format!("{text:>VALUE_WIDTH$} "), Style::new());
        canvas.text(
            at,
            y,
            &spark(&past, graph, canvas.abilities.is_utf8),
            canvas.color(Color::Cyan),
        );
    }
}

const NAME_WIDTH: usize = 20;
const VALUE_WIDTH: usize = 9;
/// Name, value, and a graph of some characters.
const COLUMN_WIDTH_MIN: usize = 40;
