//! Which columns of a table fit into one line of a terminal, for listings whose rows are all known.

use super::{Column, Record};
use crate::text::display_width;

/// The columns of a table on a terminal, and those that it is too narrow for.
#[derive(Debug)]
pub struct FittedColumns<R: Record> {
    /// The columns that are shown.
    pub shown: Vec<&'static Column<R>>,
    /// The columns with values that are not shown.
    pub left_out: Vec<&'static Column<R>>,
}

/// A column, and the characters that its heading and its cells take.
struct Measured<R: Record> {
    column: &'static Column<R>,
    width: usize,
    has_values: bool,
}

impl<R: Record> FittedColumns<R> {
    /// Leaves out columns until each row is one line of a terminal with so many characters: first those of `least` in which no row has
    /// a value, then those of `least` in its order.
    #[must_use]
    pub fn new<'r>(
        columns: Vec<&'static Column<R>>,
        least: &[&str],
        rows: impl Iterator<Item = R::Row<'r>>,
        width: usize,
    ) -> Self {
        let mut shown: Vec<_> = columns.into_iter().map(Measured::new).collect();
        let mut cell = Vec::new();
        for row in rows {
            for column in &mut shown {
                cell.clear();
                column.column.push_cell(&mut cell, &row);
                column.has_values |= !cell.is_empty();
                column.width = column.width.max(display_width(&cell));
            }
        }
        let mut left_out = Vec::new();
        if line_width(&shown) > width {
            shown.retain(|column| column.has_values || !least.contains(&column.column.name));
        }
        for name in least {
            if line_width(&shown) <= width {
                break;
            }
            let leaving = shown.extract_if(.., |column| column.column.name == *name);
            left_out.extend(leaving.map(|column| column.column));
        }
        Self {
            shown: shown.into_iter().map(|column| column.column).collect(),
            left_out,
        }
    }

    /// Appends the values of a row that are not shown, each with its heading, in the order of all columns.
    pub fn push_left_out(&self, out: &mut Vec<u8>, row: &R::Row<'_>) {
        let mut cell = Vec::new();
        for column in R::columns() {
            cell.clear();
            if self.left_out.contains(&column) {
                column.push_cell(&mut cell, row);
            }
            if cell.is_empty() {
                continue;
            }
            if !out.is_empty() {
                out.extend_from_slice(b"; ");
            }
            out.extend_from_slice(column.heading.to_lowercase().as_bytes());
            out.push(b' ');
            out.extend_from_slice(&cell);
        }
    }
}

impl<R: Record> Measured<R> {
    fn new(column: &'static Column<R>) -> Self {
        Self {
            column,
            width: display_width(column.heading.as_bytes()),
            has_values: false,
        }
    }
}

/// Returns how long a line is with a blank between columns.
fn line_width<R: Record>(columns: &[Measured<R>]) -> usize {
    let cells: usize = columns.iter().map(|column| column.width).sum();
    cells + columns.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Align::{Left, Right};
    use crate::listing::Value;

    struct Rows;

    impl Record for Rows {
        type Row<'a> = (&'a str, u64);

        const KEY: &'static str = "rows";
        const ROW: &'static str = "row";

        fn columns() -> &'static [Column<Self>] {
            COLUMNS
        }
    }

    static COLUMNS: &[Column<Rows>] = &[
        Column::value("name", "Name", Left, "", |row, _| Value::Text(row.0.as_bytes())),
        Column::value("empty", "Empty", Left, "", |_, _| Value::Absent),
        Column::value("bytes", "Bytes", Right, "", |row, _| Value::Number(row.1)),
        Column::value("why", "Why", Left, "", |row, _| Value::Text(row.0.as_bytes())),
    ];

    const ROWS: [(&str, u64); 2] = [("short", 1_234_567), ("a longer name", 0)];

    /// Columns are 13, 5, 7 and 13 characters wide.
    #[track_caller]
    fn check(width: usize, shown: &[&str], left_out: &[&str]) {
        let all = COLUMNS.iter().collect();
        let fitted = FittedColumns::new(all, &["why", "empty", "bytes"], ROWS.into_iter(), width);
        let names =
            |columns: &[&'static Column<Rows>]| columns.iter().map(|column| column.name).collect::<Vec<_>>();
        assert_eq!(names(&fitted.shown), shown, "{width}");
        assert_eq!(names(&fitted.left_out), left_out, "{width}");
    }

    #[test]
    fn columns_without_values_go_first() {
        check(41, &["name", "empty", "bytes", "why"], &[]);
        check(40, &["name", "bytes", "why"], &[]);
        check(35, &["name", "bytes", "why"], &[]);
        check(34, &["name", "bytes"], &["why"]);
        check(20, &["name"], &["why", "bytes"]);
        // The others are shown in any case.
        check(3, &["name"], &["why", "bytes"]);
    }

    #[test]
    fn values_that_are_not_shown_have_their_headings() {
        let all = COLUMNS.iter().collect();
        let fitted = FittedColumns::new(all, &["why", "bytes", "empty"], ROWS.into_iter(), 20);
        let mut out = Vec::new();
        fitted.push_left_out(&mut out, &ROWS[0]);
        assert_eq!(String::from_utf8(out).unwrap(), "bytes 1234567; why short");
    }
}
