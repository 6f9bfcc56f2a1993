//! The table of a sample: columns that fit, the cursor, trends.

use super::fit::{Place, fit, forms};
use super::spark::spark;
use super::{Canvas, HEADINGS_LINE};
use crate::state::State;
use crate::state::sample::Sample;
use crate::state::table::Row;
use ratatui_core::style::{Color, Modifier, Style};
use sockeye_model::counted;
use sockeye_output::table::Tint;
use sockeye_output::text::display_width;

/// Draws headings, rows, and what was left out.
pub(super) fn draw(canvas: &mut Canvas, state: &State, sample: &Sample) {
    let rows = state.rows();
    let (first, selected) = state.place();
    let shown = &rows[first.min(rows.len())..rows.len().min(first + state.page())];
    let trends = trends(state, sample, shown);
    let headings = &sample.table.headings;
    let order = state.order();
    let (places, left_out) = fit(headings, shown, order.column, usize::from(canvas.width()));
    let head = HEADINGS_LINE as u16;
    let forms = forms(headings);
    for place in &places {
        let heading = &headings[place.column];
        let is_order = heading.name == order.column;
        let style = if is_order {
            canvas.reversed()
        } else {
            canvas.dim().add_modifier(Modifier::BOLD)
        };
        let texts = forms.each_ref().map(|form| &*form[place.column]);
        let text = texts
            .into_iter()
            .find(|text| display_width(text.as_bytes()) <= place.width);
        let text = text.unwrap_or(texts[2]);
        put(canvas, *place, head, text, heading.is_right, style);
    }
    let trend_at = places.last().map_or(0, |place| place.x + place.width as u16 + 2);
    let trend_width = usize::from(canvas.width().saturating_sub(trend_at)).min(TREND_WIDTH);
    let has_trends =
        trend_width >= TREND_WIDTH_MIN && left_out == 0 && trends.iter().any(|trend| !trend.is_empty());
    if has_trends {
        canvas.text(trend_at, head, "RTT trend", canvas.dim());
    }
    for ((nth, row), trend) in shown.iter().enumerate().zip(&trends) {
        let y = head + 1 + nth as u16;
        let is_selected = first + nth == selected;
        for place in &places {
            let Some(cell) = row.cells.get(place.column) else {
                continue;
            };
            let style = if is_selected {
                Style::new()
            } else {
                canvas.tint(cell.tint)
            };
            let is_right = headings[place.column].is_right;
            let text: &str = if cell.text.is_empty() { "-" } else { &cell.text };
            put(canvas, *place, y, text, is_right, style);
        }
        if has_trends {
            let text = spark(trend, trend_width, canvas.abilities.is_utf8);
            canvas.text(trend_at, y, &text, canvas.color(Color::Cyan));
        }
        if is_selected {
            let area = ratatui_core::layout::Rect::new(0, y, canvas.width(), 1);
            let (style, area) = (canvas.reversed(), area.intersection(canvas.buffer.area));
            canvas.buffer.set_style(area, style);
        }
    }
    let sums = canvas.height().saturating_sub(2);
    canvas.text(
        0,
        sums,
        &summary(sample, rows.len() - shown.len(), left_out),
        canvas.dim(),
    );
}

impl Canvas {
    const fn tint(&self, tint: Tint) -> Style {
        match tint {
            Tint::None => Style::new(),
            Tint::Dim => self.dim(),
            Tint::Green => self.color(Color::Green),
            Tint::Yellow => self.color(Color::Yellow),
            Tint::Blue => self.color(Color::Blue),
            Tint::Magenta => self.color(Color::Magenta),
            Tint::Cyan => self.color(Color::Cyan),
        }
    }
}

/// Returns the name of the column whose heading is at a column of the screen.
pub(super) fn heading_at(state: &State, x: u16) -> Option<&'static str> {
    let sample = state.shown()?;
    let rows = state.rows();
    let (first, _) = state.place();
    let shown = &rows[first.min(rows.len())..rows.len().min(first + state.page())];
    let (places, _) = fit(
        &sample.table.headings,
        shown,
        state.order().column,
        usize::from(state.size.0),
    );
    let hit = places
        .iter()
        .find(|place| place.x <= x && x < place.x + place.width as u16 + 1)?;
    Some(sample.table.headings[hit.column].name)
}

/// Writes a cell. One that is too long loses its middle: both ends of an address and of a name say most.
fn put(canvas: &mut Canvas, place: Place, y: u16, text: &str, is_right: bool, style: Style) {
    let length = display_width(text.as_bytes());
    let cut;
    let text = if length > place.width {
        cut = cut_middle(text, place.width, canvas.abilities.mark());
        cut.as_str()
    } else {
        text
    };
    let indent = if is_right {
        place.width.saturating_sub(length)
    } else {
        0
    };
    canvas.text(place.x + indent as u16, y, text, style);
}

/// Cuts a text to a width. Of an address its port stays whole.
fn cut_middle(text: &str, width: usize, mark: char) -> String {
    let characters: Vec<char> = text.chars().collect();
    let kept = width.saturating_sub(1).min(characters.len());
    let port = text.rfind(':').map_or(0, |colon| text.len() - colon);
    let whole = (text.is_ascii() && port <= PORT_WIDTH).then_some(port);
    let end = whole.unwrap_or(0).max(kept / 2).min(kept);
    let begin = kept - end;
    characters[..begin]
        .iter()
        .chain([&mark])
        .chain(&characters[characters.len() - end..])
        .collect()
}

/// The round trip times of rows up to a sample.
fn trends(state: &State, until: &Sample, rows: &[&Row]) -> Vec<Vec<Option<u64>>> {
    let mut samples: Vec<&Sample> = state
        .history
        .of(state.view)
        .rev()
        .filter(|sample| sample.number <= until.number)
        .take(TREND_WIDTH)
        .collect();
    samples.reverse();
    let of_row = |row: &&Row| {
        if row.rtt_us.is_none() {
            return Vec::new();
        }
        let at = |sample: &&Sample| {
            let found = sample.table.rows.iter().find(|other| other.id == row.id);
            found.and_then(|found| found.rtt_us).map(u64::from)
        };
        samples.iter().map(at).collect()
    };
    rows.iter().map(of_row).collect()
}

/// The line of sums: what does not fit, sums, what was lost.
fn summary(sample: &Sample, rows_beyond: usize, columns_left_out: usize) -> String {
    let mut parts = Vec::new();
    let beyond = rows_beyond + sample.table.left_out;
    if beyond > 0 {
        parts.push(counted(beyond, "more row"));
    }
    match columns_left_out {
        0 => {}
        1 => parts.push("1 column does not fit".to_owned()),
        count => parts.push(format!("{count} columns do not fit")),
    }
    parts.extend(
        [&sample.totals, &sample.notes]
            .into_iter()
            .filter(|text| !text.is_empty())
            .map(ToString::to_string),
    );
    parts.join("; ").replace('\n', " ")
}

/// Width of `:65535`.
const PORT_WIDTH: usize = 6;
const TREND_WIDTH: usize = 20;
const TREND_WIDTH_MIN: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_keeps_both_ends() {
        assert_eq!(cut_middle("0123456789", 5, '~'), "01~89");
        assert_eq!(cut_middle("0123456789", 1, '~'), "~");
        assert_eq!(cut_middle("0123456789", 4, '\u{2026}'), "01\u{2026}9");
        assert_eq!(cut_middle("10.25.0.1:51735", 10, '~'), "10.~:51735");
        assert_eq!(cut_middle("[2001:db8::1]:53", 9, '~'), "[200~]:53");
    }
}
