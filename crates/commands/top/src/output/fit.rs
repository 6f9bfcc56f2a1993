//! Which columns of a table fit into a line, and where.

use crate::state::table::{Heading, Row};
use sockeye_output::text::display_width;

/// Where a column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Index among all columns.
    pub(super) column: usize,
    pub(super) x: u16,
    pub(super) width: usize,
}

/// Chooses the columns that fit, with their places: headings are shortened first, then wide cells are cut, then the last columns
/// are left out, but not the one that rows are sorted by. Also returns how many are left out.
pub(super) fn fit(headings: &[Heading], rows: &[&Row], sorted_by: &str, width: usize) -> (Vec<Place>, usize) {
    let cells: Vec<usize> = (0..headings.len())
        .map(|column| cell_width(rows, column))
        .collect();
    let natural = |kept: &[usize], shorten: Shorten| -> Vec<usize> {
        let both = kept
            .iter()
            .map(|&column| cells[column].max(shorten(headings[column].text).len()));
        both.collect()
    };
    let all: Vec<usize> = (0..headings.len()).collect();
    let [whole, first_word, first_letters] = HEADING_FORMS;
    for (shorten, gap) in [(whole, 2), (whole, 1), (first_word, 1), (first_letters, 1)] {
        let mut widths = natural(&all, shorten);
        if let Some(left) = width.checked_sub(line_width(&widths, gap)) {
            widen(&mut widths, rows, left);
            return (places(&all, &widths, gap), 0);
        }
    }
    let sorted = headings.iter().position(|heading| heading.name == sorted_by);
    for count in (1..=headings.len()).rev() {
        let mut kept: Vec<usize> = (0..count).collect();
        if let (Some(sorted), [_, .., last]) = (sorted, kept.as_mut_slice()) {
            *last = sorted.max(*last);
        }
        if let Some(widths) = cut(&natural(&kept, first_letters), &kept, headings, width) {
            return (places(&kept, &widths, 1), headings.len() - count);
        }
    }
    let first: Vec<usize> = all.into_iter().take(1).collect();
    let widths = natural(&first, first_letters);
    (places(&first, &widths, 1), headings.len() - first.len())
}

/// Gives the space that is left to cells that are wider than others may be, the first ones first.
fn widen(widths: &mut [usize], rows: &[&Row], mut left: usize) {
    for (column, width) in widths.iter_mut().enumerate() {
        let more = whole_width(rows, column).saturating_sub(*width).min(left);
        *width += more;
        left -= more;
    }
}

fn cell_width(rows: &[&Row], column: usize) -> usize {
    whole_width(rows, column).clamp(1, WIDTH_MAX)
}

/// Returns the width of the widest cell.
fn whole_width(rows: &[&Row], column: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.cells.get(column));
    let widest = cells.map(|cell| display_width(cell.text.as_bytes())).max();
    widest.unwrap_or(0)
}

/// Takes characters from the widest columns of text until the line fits; `None` if it does not.
fn cut(widths: &[usize], kept: &[usize], headings: &[Heading], width: usize) -> Option<Vec<usize>> {
    let mut widths = widths.to_vec();
    while line_width(&widths, 1) > width {
        let columns = widths.iter_mut().zip(kept);
        let texts = columns.filter(|(_, column)| !headings[**column].is_right);
        let (widest, _) = texts.max_by_key(|(width, _)| **width)?;
        if *widest <= WIDTH_MIN {
            return None;
        }
        *widest -= 1;
    }
    Some(widths)
}

fn places(kept: &[usize], widths: &[usize], gap: usize) -> Vec<Place> {
    let mut x = 0;
    let both = kept.iter().zip(widths).map(|(&column, &width)| {
        let place = Place {
            column,
            x: x as u16,
            width,
        };
        x += width + gap;
        place
    });
    both.collect()
}

fn line_width(widths: &[usize], gap: usize) -> usize {
    widths
        .iter()
        .map(|width| width + gap)
        .sum::<usize>()
        .saturating_sub(gap)
}

/// Shortens a heading.
pub(super) type Shorten = fn(&str) -> &str;

/// A heading whole, its first word, and the first letters of that.
pub(super) const HEADING_FORMS: [Shorten; 3] = [|heading| heading, first_word, first_letters];

fn first_word(heading: &str) -> &str {
    heading.split(' ').next().unwrap_or_default()
}

/// `Connections` becomes `Conn`; what is a unit stays: `Sent/s`.
fn first_letters(heading: &str) -> &str {
    let word = first_word(heading);
    if word.contains('/') {
        word
    } else {
        word.get(..4).unwrap_or(word)
    }
}

/// Wider cells are cut, unless there is space for them.
const WIDTH_MAX: usize = 50;
/// Cells are not made narrower than this.
const WIDTH_MIN: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::fixtures::{row, table};

    #[track_caller]
    fn check(width: usize, expected: &[(u16, usize)], left_out: usize) {
        let table = table(&[row(1, "10.0.0.1:443 and more", Some(5))]);
        let rows: Vec<&Row> = table.rows.iter().collect();
        let (places, left) = fit(&table.headings, &rows, "name", width);
        let places: Vec<(u16, usize)> = places.iter().map(|place| (place.x, place.width)).collect();
        assert_eq!((places.as_slice(), left), (expected, left_out), "{width}");
    }

    #[test]
    fn wide_column_is_cut_before_another_is_left_out() {
        check(80, &[(0, 21), (23, 6)], 0);
        check(28, &[(0, 21), (22, 6)], 0);
        check(26, &[(0, 21), (22, 4)], 0);
        check(20, &[(0, 15), (16, 4)], 0);
        check(19, &[(0, 19)], 1);
        check(15, &[(0, 15)], 1);
        check(0, &[(0, 21)], 1);
    }

    #[test]
    fn long_text_has_the_space_that_is_left() {
        let table = table(&[row(1, &"long ".repeat(16), Some(5))]);
        let rows: Vec<&Row> = table.rows.iter().collect();
        let width = |columns| fit(&table.headings, &rows, "name", columns).0[0].width;
        assert_eq!((width(200), width(80), width(60), width(58)), (80, 72, 52, 50));
    }

    #[test]
    fn column_of_the_order_is_kept() {
        let mut table = table(&[row(1, "10.0.0.1:443", Some(5))]);
        let middle = table.headings[0].clone();
        table.headings.insert(
            1,
            Heading {
                name: "middle",
                ..middle
            },
        );
        table.rows[0].cells = [0, 0, 1].map(|at| table.rows[0].cells[at].clone()).into();
        let rows: Vec<&Row> = table.rows.iter().collect();
        let columns = |sorted_by| {
            let (places, left_out) = fit(&table.headings, &rows, sorted_by, 20);
            (
                places.iter().map(|place| place.column).collect::<Vec<_>>(),
                left_out,
            )
        };
        assert_eq!(columns("number"), (vec![0, 2], 1));
        assert_eq!(columns("name"), (vec![0], 2));
    }
}
