//! Which columns of a table fit into a line, and where.

use crate::state::table::{Heading, Row};
use sockeye_output::heading::heading_forms;
use sockeye_output::text::display_width;
use std::borrow::Cow;

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
    let natural = |kept: &[usize], forms: &[Cow<'_, str>]| -> Vec<usize> {
        let both = kept
            .iter()
            .map(|&column| cells[column].max(display_width(forms[column].as_bytes())));
        both.collect()
    };
    let all: Vec<usize> = (0..headings.len()).collect();
    let [whole, first_words, abbreviated] = forms(headings);
    for (forms, gap) in [(&whole, 2), (&whole, 1), (&first_words, 1), (&abbreviated, 1)] {
        let mut widths = natural(&all, forms);
        if let Some(left) = width.checked_sub(line_width(&widths, gap)) {
            widen(&mut widths, rows, left);
            return (places(&all, &widths, gap), 0);
        }
    }
    let sorted = headings.iter().position(|heading| heading.name == sorted_by);
    // Who talks to whom is not left out for what rows are sorted by: their addresses are cut instead.
    let peer = headings.iter().position(|heading| heading.name == "peer");
    let ends = peer.filter(|peer| *peer < ENDS_MAX).map_or(0, |peer| peer + 1);
    let widths_min = if ends > 0 {
        &[WIDTH_MIN, WIDTH_MIN - 3, WIDTH_MIN - 6][..]
    } else {
        &[]
    };
    for width_min in widths_min {
        for count in (ends..=headings.len()).rev() {
            let mut kept: Vec<usize> = (0..count).collect();
            if let Some(sorted) = sorted.filter(|sorted| *sorted >= count) {
                kept.truncate((count - 1).max(ends));
                kept.push(sorted);
            }
            if let Some(widths) = cut(&natural(&kept, &abbreviated), &kept, headings, width, *width_min) {
                return (places(&kept, &widths, 1), headings.len() - kept.len());
            }
        }
    }
    for count in (1..=headings.len()).rev() {
        let mut kept: Vec<usize> = (0..count).collect();
        if let (Some(sorted), [_, .., last]) = (sorted, kept.as_mut_slice()) {
            *last = sorted.max(*last);
        }
        if let Some(widths) = cut(&natural(&kept, &abbreviated), &kept, headings, width, WIDTH_MIN) {
            return (places(&kept, &widths, 1), headings.len() - count);
        }
    }
    let first: Vec<usize> = all.into_iter().take(1).collect();
    let widths = natural(&first, &abbreviated);
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
fn cut(
    widths: &[usize],
    kept: &[usize],
    headings: &[Heading],
    width: usize,
    width_min: usize,
) -> Option<Vec<usize>> {
    let mut widths = widths.to_vec();
    while line_width(&widths, 1) > width {
        let columns = widths.iter_mut().zip(kept);
        let texts = columns.filter(|(_, column)| !headings[**column].is_right);
        let (widest, _) = texts.max_by_key(|(width, _)| **width)?;
        if *widest <= width_min {
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

/// Returns the forms of each heading, the longest first.
pub(super) fn forms(headings: &[Heading]) -> [Vec<Cow<'static, str>>; 3] {
    let texts: Vec<&'static str> = headings.iter().map(|heading| heading.text).collect();
    heading_forms(&texts)
}

/// Wider cells are cut, unless there is space for them.
const WIDTH_MAX: usize = 50;
/// Cells are not made narrower than this.
const WIDTH_MIN: usize = 15;
/// The peer is always shown if it is among so many first columns.
const ENDS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::fixtures::{row, table};
    use crate::state::table::Cell;

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
        check(26, &[(0, 19), (20, 6)], 0);
        check(22, &[(0, 15), (16, 6)], 0);
        check(19, &[(0, 19)], 1);
        check(15, &[(0, 15)], 1);
        check(0, &[(0, 21)], 1);
    }

    #[test]
    fn narrow_table_of_flows_keeps_the_peer() {
        let mut table = table(&[row(1, "[2001:db8::1]:many", Some(290_000))]);
        let (text, number) = (table.headings[0].clone(), table.headings[1].clone());
        let named = |heading: &Heading, name| Heading {
            name,
            ..heading.clone()
        };
        table.headings = vec![
            named(&text, "local"),
            named(&text, "direction"),
            named(&text, "peer"),
            named(&number, "connections"),
            named(&number, "sent_bytes_per_s"),
        ];
        let cells = table.rows[0].cells.clone();
        let arrow = Cell {
            text: "-->".into(),
            ..cells[0].clone()
        };
        let (end, number) = (&cells[0], &cells[1]);
        table.rows[0].cells = [end, &arrow, end, number, number].map(Clone::clone).into();
        let rows: Vec<&Row> = table.rows.iter().collect();
        let columns = |width| {
            let (places, left_out) = fit(&table.headings, &rows, "sent_bytes_per_s", width);
            let columns = places.iter().map(|place| (place.column, place.width));
            (columns.collect::<Vec<_>>(), left_out)
        };
        assert_eq!(columns(40), (vec![(0, 14), (1, 4), (2, 13), (4, 6)], 1));
        assert_eq!(columns(33), (vec![(0, 10), (1, 4), (2, 10), (4, 6)], 1));
        // Too narrow for all that.
        assert_eq!(columns(15).0, [(0, 15)]);
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
