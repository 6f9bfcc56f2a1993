//! Makes a table as narrow as its terminal.

use super::{Align, Cell, Heading, INDENT, Table};
use crate::heading::heading_forms;
use crate::text::display_width;
use std::borrow::Cow;

impl Table {
    /// Chooses the gap, and the columns at which rows continue on a further line.
    pub(super) fn plan_lines(&mut self) {
        let Some(terminal) = self.terminal else {
            return;
        };
        let last = self.headings.len().saturating_sub(1);
        let counted = |column: usize| {
            let heading = &self.headings[column];
            // The last one may be long, as a list of processes: only if later cells are announced all of it has to fit.
            let may_be_long = heading.align == Align::Left && !heading.breaks && heading.later_width == 0;
            if column == last && column > 0 && may_be_long {
                display_width(&heading.text)
            } else {
                self.widths[column]
            }
        };
        let columns: usize = (0..self.headings.len()).map(counted).sum();
        if columns + 2 * last <= terminal {
            return;
        }
        self.gap = 1;
        if columns + last <= terminal {
            return;
        }
        let mut used = 0;
        let breaks: Vec<bool> = (0..self.headings.len())
            .map(|column| {
                let width = counted(column);
                let breaks = column > 0 && used + self.gap + width > terminal;
                used = match (column, breaks) {
                    (0, _) => width,
                    (_, true) => INDENT + width,
                    (_, false) => used + self.gap + width,
                };
                breaks
            })
            .collect();
        self.breaks = breaks;
    }

    /// Shortens headings and leaves out columns until a row fits into one line of the terminal.
    pub(super) fn plan_one_line(&mut self) {
        let Some(terminal) = self.terminal else {
            return;
        };
        if self.line_width(2) <= terminal {
            return;
        }
        self.gap = 1;
        if self.line_width(1) <= terminal {
            return;
        }
        let texts: Vec<String> = self
            .headings
            .iter()
            .map(|heading| String::from_utf8_lossy(&heading.text).into_owned())
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let [_, first_words, abbreviated] = heading_forms(&texts);
        self.shorten_headings(&first_words, |_| true);
        if self.line_width(1) <= terminal {
            return;
        }
        self.shorten_headings(&abbreviated, |heading| heading.align == Align::Right);
        while self.line_width(1) > terminal {
            let numbers = |heading: &Heading| heading.align == Align::Right;
            let Some(column) = self
                .headings
                .iter()
                .rposition(numbers)
                .filter(|&column| column > 0)
            else {
                return;
            };
            let mut keep = vec![true; self.headings.len()];
            keep[column] = false;
            self.keep_columns(&keep);
            self.columns_left_out += 1;
        }
    }

    /// Returns the width of a row; a left-aligned last column, which may be cut, counts with its header.
    fn line_width(&self, gap: usize) -> usize {
        let last = self.headings.len().saturating_sub(1);
        let widths = self.headings.iter().enumerate().map(|(column, heading)| {
            // The last one may be long, as a list of processes: only if later cells are announced all of it has to fit.
            let may_be_long = heading.align == Align::Left && !heading.breaks && heading.later_width == 0;
            if column == last && column > 0 && may_be_long {
                display_width(&heading.text)
            } else {
                self.widths[column]
            }
        });
        widths.sum::<usize>() + gap * last
    }

    /// Takes shorter headings where the cells are narrower.
    fn shorten_headings(&mut self, shorter: &[Cow<'_, str>], may: fn(&Heading) -> bool) {
        let mut cells = vec![0; self.headings.len()];
        for row in self.cells.chunks(self.stride()) {
            for ((width, cell), heading) in cells.iter_mut().zip(row).zip(&self.headings) {
                *width = (*width).max(heading.capped(cell.width));
            }
        }
        let columns = self.headings.iter_mut().zip(&mut self.widths);
        for (((heading, width), cells), shorter) in columns.zip(cells).zip(shorter) {
            if display_width(&heading.text) > cells && may(heading) {
                heading.text = shorter.as_bytes().to_vec();
                *width = cells.max(display_width(&heading.text));
            }
        }
    }

    /// Returns of each column whether a cell has a value that is not zero.
    pub(super) fn filled_columns(&self) -> Vec<bool> {
        let mut filled = vec![false; self.headings.len()];
        let mut start = 0;
        for (index, cell) in self.cells.iter().enumerate() {
            let column = index % self.stride();
            if let Some(heading) = self.headings.get(column) {
                let text = &self.bytes[start..cell.end];
                filled[column] |= match heading.align {
                    Align::Left => !matches!(text, b"" | b"-"),
                    Align::Right => !is_zero(text),
                };
            }
            start = cell.end;
        }
        filled
    }

    /// Removes the columns that are not to be kept, with their buffered cells.
    pub(super) fn keep_columns(&mut self, keep: &[bool]) {
        let stride = self.stride();
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut cells = Vec::with_capacity(self.cells.len());
        let mut start = 0;
        for (index, cell) in self.cells.iter().enumerate() {
            // Details have no column.
            if keep.get(index % stride).is_none_or(|keep| *keep) {
                bytes.extend_from_slice(&self.bytes[start..cell.end]);
                cells.push(Cell {
                    end: bytes.len(),
                    ..*cell
                });
            }
            start = cell.end;
        }
        (self.bytes, self.cells) = (bytes, cells);
        let mut kept = keep.iter();
        self.headings.retain(|_| kept.next() == Some(&true));
        let mut kept = keep.iter();
        self.widths.retain(|_| kept.next() == Some(&true));
        self.breaks.truncate(self.headings.len());
    }
}

/// Whether a number is absent or zero, with or without a unit: `0`, `0B`, `0 B/s`.
pub(super) fn is_zero(text: &[u8]) -> bool {
    match text {
        b"" | b"-" | b"0" => true,
        [b'0', next, ..] => matches!(next, b' ' | b'B' | b'b'),
        _ => false,
    }
}
