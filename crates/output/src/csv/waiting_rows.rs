//! Rows of CSV that wait for the last one, because columns that no row fills are left out.

use super::{Line, each_field};
use std::io;

/// A table whose rows wait. A field that no row filled so far is not there at all, not even as a comma: what waits is not much
/// longer than what is written, and most rows are written as they are.
#[derive(Debug)]
pub(crate) struct WaitingRows {
    header: Vec<u8>,
    bytes: Vec<u8>,
    filled: FilledFields,
    /// Where rows begin that have the same fields, and which fields.
    stretches: Vec<Stretch>,
}

/// The fields that a row filled so far.
#[derive(Debug)]
pub(super) struct FilledFields {
    filled: Vec<bool>,
    /// Number of filled fields before each field, and that of all.
    before: Vec<usize>,
    /// Number of fields that rows do not have, each in each row.
    omitted: usize,
    /// Number of the first fields, which are the same in each row.
    constants: usize,
    /// Number of those that are empty.
    constants_omitted: usize,
    /// The others.
    constant_bytes: Vec<u8>,
}

#[derive(Debug)]
struct Stretch {
    start: usize,
    filled: Vec<bool>,
}

/// The fields of a line that is being written.
#[derive(Debug)]
pub(super) struct LineFields<'a> {
    of: &'a mut FilledFields,
    /// The next field.
    next: usize,
    /// Fields before this one are written; those from here to `next` are empty.
    written: usize,
    /// Whether the row has a field so far: the first has no comma.
    has_any: bool,
    /// Where the last field begins, if no row before filled it.
    new_at: Option<usize>,
}

impl WaitingRows {
    /// Creates a table with a header, without its end of line, whose rows begin with these fields. No name in the header needs
    /// quotes.
    pub(crate) fn new(header: Vec<u8>, constants: &[u8]) -> Self {
        let fields = header.iter().filter(|byte| **byte == b',').count() + 1;
        let mut filled = FilledFields {
            filled: vec![false; fields],
            before: Vec::new(),
            omitted: 0,
            constants: 0,
            constants_omitted: 0,
            constant_bytes: Vec::new(),
        };
        each_field(constants, 0, |column, field| {
            filled.constants += 1;
            if field.is_empty() {
                filled.constants_omitted += 1;
            } else {
                filled.filled[column] = true;
                if !filled.constant_bytes.is_empty() {
                    filled.constant_bytes.push(b',');
                }
                filled.constant_bytes.extend_from_slice(field);
            }
        });
        filled.count();
        Self {
            header,
            bytes: Vec::new(),
            filled,
            stretches: Vec::new(),
        }
    }

    /// Appends the row that `push` writes, field by field.
    #[inline]
    pub(crate) fn push(&mut self, push: impl FnOnce(&mut Line<'_>)) {
        let start = self.bytes.len();
        let mut line = Line {
            out: &mut self.bytes,
            is_empty: true,
            waiting: Some(LineFields {
                of: &mut self.filled,
                next: 0,
                written: 0,
                has_any: false,
                new_at: None,
            }),
        };
        push(&mut line);
        line.end();
        let is_same = |last: &Stretch| last.filled == self.filled.filled;
        if !self.stretches.last().is_some_and(is_same) {
            self.stretches.push(Stretch {
                start,
                filled: self.filled.filled.clone(),
            });
        }
    }

    /// Announces a row that will come: rows before it have the fields that it fills, so that they are not written again.
    pub(crate) fn announce(&mut self, push: impl FnOnce(&mut Line<'_>)) {
        let (length, omitted, stretches) = (self.bytes.len(), self.filled.omitted, self.stretches.len());
        self.push(push);
        self.bytes.truncate(length);
        self.filled.omitted = omitted;
        self.stretches.truncate(stretches);
    }

    /// Appends a row that is written already, with all fields.
    pub(crate) fn push_written(&mut self, row: &[u8]) {
        self.push(|line| each_field(row, 0, |_, field| line.field().extend_from_slice(field)));
    }

    /// Returns the length of the table with all fields.
    pub(crate) const fn whole_len(&self) -> usize {
        self.header.len() + CRLF.len() + self.bytes.len() + self.filled.omitted
    }

    /// Passes the table to `write` in pieces, without the columns that no row fills; with all of them if there are no rows or
    /// `all`.
    pub(crate) fn finish(
        mut self,
        all: bool,
        mut write: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if all || self.bytes.is_empty() {
            self.filled.filled.fill(true);
        }
        let filled = &self.filled.filled;
        let mut piece = Vec::new();
        let every = vec![true; filled.len()];
        self.header.extend_from_slice(CRLF);
        push_with_fields(&mut piece, &self.header, &every, filled);
        write(&piece)?;
        let ends = self.stretches.iter().skip(1).map(|next| next.start);
        for (stretch, end) in self.stretches.iter().zip(ends.chain([self.bytes.len()])) {
            let rows = &self.bytes[stretch.start..end];
            if stretch.filled == *filled {
                write(rows)?;
                continue;
            }
            let mut rest = rows;
            while !rest.is_empty() {
                let (rows, after) = rest.split_at(super::end_of_line(rest, 0).max(1));
                piece.clear();
                push_with_fields(&mut piece, rows, &stretch.filled, filled);
                write(&piece)?;
                rest = after;
            }
        }
        Ok(())
    }
}

/// Appends a row that has the fields `from` as one that has the fields `to`.
fn push_with_fields(out: &mut Vec<u8>, row: &[u8], from: &[bool], to: &[bool]) {
    let (mut at, mut is_first) = (0, true);
    for (is_there, is_wanted) in from.iter().zip(to) {
        let start = at;
        if *is_there {
            at = super::end_of_field(row, at);
        }
        if *is_wanted {
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            out.extend_from_slice(&row[start..at]);
        }
        // After its comma.
        at += usize::from(*is_there);
    }
    out.extend_from_slice(CRLF);
}

const CRLF: &[u8] = b"\r\n";

impl FilledFields {
    /// Counts the filled fields again.
    fn count(&mut self) {
        self.before.clear();
        let mut before = 0;
        for is_filled in &self.filled {
            self.before.push(before);
            before += usize::from(*is_filled);
        }
        self.before.push(before);
    }
}

impl LineFields<'_> {
    /// Appends the first fields of each row.
    #[inline]
    pub(super) fn push_constants(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.of.constant_bytes);
        self.of.omitted += self.of.constants_omitted;
        self.next = self.of.constants;
        self.written = self.next;
        self.has_any = !self.of.constant_bytes.is_empty();
    }

    /// Ends the last field, and begins the next: with a comma, if rows have it.
    #[inline]
    pub(super) fn begin(&mut self, out: &mut Vec<u8>) {
        self.end(out);
        let is_filled = self.of.filled[self.next];
        self.next += 1;
        self.written = self.next;
        if !is_filled {
            self.new_at = Some(out.len());
            return;
        }
        if self.has_any {
            out.push(b',');
        }
        self.has_any = true;
    }

    /// Appends empty fields.
    #[inline]
    pub(super) fn push_empty(&mut self, out: &mut Vec<u8>, count: usize) {
        if self.new_at.is_some() {
            self.end(out);
        }
        self.next += count;
    }

    /// Ends the last field, and appends the empty ones after it: a comma for each that rows have.
    #[inline]
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(start) = self.new_at.take() {
            self.end_new(out, start);
        }
        if self.written < self.next {
            let filled = self.of.before[self.next] - self.of.before[self.written];
            self.of.omitted += self.next - self.written - filled;
            // The first field of a row has no comma.
            let commas = filled - usize::from(!self.has_any && filled > 0);
            self.has_any |= filled > 0;
            out.resize(out.len() + commas, b',');
            self.written = self.next;
        }
    }

    /// Ends a field that no row filled before. If it is filled, this row and all later ones have it.
    fn end_new(&mut self, out: &mut Vec<u8>, start: usize) {
        if out.len() == start {
            self.of.omitted += 1;
            return;
        }
        self.of.filled[self.written - 1] = true;
        self.of.count();
        if self.has_any {
            out.insert(start, b',');
        }
        self.has_any = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(header: &str, constants: &str, rows: &[&str], all: bool) -> (String, usize) {
        let mut table = WaitingRows::new(header.as_bytes().to_vec(), constants.as_bytes());
        for row in rows {
            table.push(|line| {
                line.constants(constants.as_bytes());
                for field in row.split('|') {
                    match field {
                        "" => line.empty(1),
                        field => line.text(Some(field)),
                    }
                }
            });
        }
        let (mut out, whole) = (Vec::new(), table.whole_len());
        table
            .finish(all, |piece| {
                out.extend_from_slice(piece);
                Ok(())
            })
            .unwrap();
        (String::from_utf8(out).unwrap().replace("\r\n", "\n"), whole)
    }

    #[track_caller]
    fn check(header: &str, constants: &str, rows: &[&str], expected: &str) {
        assert_eq!(table(header, constants, rows, false).0, expected);
    }

    #[test]
    fn columns_that_no_row_fills_are_left_out() {
        check("t,a,b,c", "9", &["1||3", "||4"], "t,a,c\n9,1,3\n9,,4\n");
        check("t,a,b,c", "9", &["||", "||4", "|2|"], "t,b,c\n9,,\n9,,4\n9,2,\n");
        check("t,a,b,c", "9", &["1||3", "|2|"], "t,a,b,c\n9,1,,3\n9,,2,\n");
        check("t,h,a,b", "9,", &["|x,y"], "t,b\n9,\"x,y\"\n");
        check("t,a", "9", &["", ""], "t\n9\n9\n");
        check("t,a", "9", &[], "t,a\n");
    }

    #[test]
    fn whole_table_has_all_columns_and_the_length_that_was_counted() {
        let (whole, length) = table("t,h,a,b,c", "9,", &["||", "=1||x", "|2|"], true);
        assert_eq!(whole, "t,h,a,b,c\n9,,,,\n9,,'=1,,x\n9,,,2,\n");
        // Each of its four lines has a further byte, CR.
        assert_eq!(length, whole.len() + 4);
    }

    #[test]
    fn announced_row_changes_nothing_but_work() {
        let write = |announced: &[&str]| {
            let mut table = WaitingRows::new(b"t,a,b,c".to_vec(), b"9");
            let push = |row: &'static str| {
                move |line: &mut Line<'_>| {
                    line.constants(b"9");
                    row.split('|').for_each(|field| line.word(field));
                }
            };
            for row in ["||", "|2|", "||3"] {
                if announced.contains(&row) {
                    table.announce(push(row));
                }
            }
            for row in ["||", "|2|", "||3"] {
                table.push(push(row));
            }
            let (mut out, whole) = (Vec::new(), table.whole_len());
            table
                .finish(false, |piece| {
                    out.extend_from_slice(piece);
                    Ok(())
                })
                .unwrap();
            (out, whole)
        };
        let expected = write(&[]);
        assert_eq!(expected.0, b"t,b,c\r\n9,,\r\n9,2,\r\n9,,3\r\n");
        assert_eq!(write(&["|2|"]), expected);
        assert_eq!(write(&["|2|", "||3"]), expected);
    }

    #[test]
    fn written_rows_equal_those_of_fields() {
        let mut table = WaitingRows::new(b"t,a,b,c".to_vec(), b"9");
        for row in ["9,,,\r\n", "9,\"x,\"\"y\",,\"\r\n\"\r\n", "9,,,z\r\n"] {
            table.push_written(row.as_bytes());
        }
        let mut out = Vec::new();
        table
            .finish(false, |piece| {
                out.extend_from_slice(piece);
                Ok(())
            })
            .unwrap();
        let expected = "t,a,c\r\n9,,\r\n9,\"x,\"\"y\",\"\r\n\"\r\n9,,z\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
