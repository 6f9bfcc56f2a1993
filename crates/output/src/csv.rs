//! A CSV writer (RFC 4180): a header, lines that end in CR LF, quotes where needed; absent values are empty.
//!
//! Numbers are exact and in the unit that the header names. A column may have several fields: an address is
//! `local_ip,local_port,...`. Text that is not UTF-8 or could control a terminal is escaped as in tables.
//!
//! Spreadsheets take a cell that begins with `=`, `+`, `-` or `@` for a formula. Text from outside (names of
//! processes, hosts, users, paths) that begins so gets a `'` in front. Abstract UNIX names are `@name` in tables; here the
//! field `local_abstract` replaces the `@`.
//!
//! Written here although the crate `csv` exists (three packages more). Its writer quotes, as a dozen lines here do; formulas, units
//! and columns of several fields, which are the rest of this module, it does not know.

mod waiting_rows;

pub(crate) use waiting_rows::WaitingRows;

use crate::number::push_decimal;
use crate::text::push_clean;
use waiting_rows::LineFields;

/// Appends a table, whose first line is its header, without the columns that no row fills. A table without rows keeps
/// all of them.
pub fn push_filled(out: &mut Vec<u8>, table: &[u8]) {
    let start = out.len();
    let header_end = end_of_line(table, 0);
    let mut filled: Vec<bool> = Vec::new();
    each_field(table, header_end, |column, field| {
        if filled.len() <= column {
            filled.resize(column + 1, false);
        }
        filled[column] |= !field.is_empty();
    });
    if filled.iter().all(|is_filled| *is_filled) {
        out.extend_from_slice(table);
        return;
    }
    // What separates the next field from what is written.
    let mut before: &[u8] = b"";
    each_field(table, 0, |column, field| {
        if column == 0 && !out[start..].is_empty() {
            before = b"\r\n";
        }
        if filled.get(column) == Some(&true) {
            out.extend_from_slice(before);
            out.extend_from_slice(field);
            before = b",";
        }
    });
    out.extend_from_slice(b"\r\n");
}

/// Calls `take` with each field from `at` on and with its column.
fn each_field<'a>(table: &'a [u8], mut at: usize, mut take: impl FnMut(usize, &'a [u8])) {
    let mut column = 0;
    while at < table.len() {
        let end = end_of_field(table, at);
        take(column, &table[at..end]);
        (column, at) = match table.get(end) {
            Some(b',') => (column + 1, end + 1),
            // CR LF
            _ => (0, end + 2),
        };
        if column > 0 && at == table.len() {
            take(column, b"");
        }
    }
}

/// Returns where the field at `at` ends: at a comma, CR, or the end of the table.
#[inline]
fn end_of_field(table: &[u8], mut at: usize) -> usize {
    let mut is_quoted = false;
    while let Some(&byte) = table.get(at) {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b',' | b'\r' if !is_quoted => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Returns where the line at `at` ends, after its CR LF.
fn end_of_line(table: &[u8], mut at: usize) -> usize {
    while at < table.len() {
        let end = end_of_field(table, at);
        if table.get(end) != Some(&b',') {
            return (end + 2).min(table.len());
        }
        at = end + 1;
    }
    at
}

/// A line that is being written.
#[derive(Debug)]
pub struct Line<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
    /// In a table whose rows wait, which fields it has.
    waiting: Option<LineFields<'a>>,
}

impl<'a> Line<'a> {
    /// Begins a line at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            is_empty: true,
            waiting: None,
        }
    }

    /// Ends the line with CR LF.
    pub fn end(mut self) {
        if let Some(fields) = &mut self.waiting {
            fields.end(self.out);
        }
        self.out.extend_from_slice(b"\r\n");
    }

    /// Begins a field that needs no quotes.
    #[inline]
    pub fn field(&mut self) -> &mut Vec<u8> {
        match &mut self.waiting {
            Some(fields) => fields.begin(self.out),
            None if self.is_empty => {}
            None => self.out.push(b','),
        }
        self.is_empty = false;
        self.out
    }

    /// Appends `count` empty fields.
    #[inline]
    pub fn empty(&mut self, count: usize) {
        if let Some(fields) = &mut self.waiting {
            fields.push_empty(self.out, count);
        } else if count > 0 {
            let commas = count - usize::from(self.is_empty);
            self.is_empty = false;
            self.out.resize(self.out.len() + commas, b',');
        }
    }

    /// Appends an integer; `None` is an empty field.
    #[inline]
    pub fn number(&mut self, value: Option<impl Into<u64>>) {
        let out = self.field();
        if let Some(value) = value {
            push_decimal(out, value.into());
        }
    }

    /// Appends two integers; `None` is an empty field.
    pub fn numbers(&mut self, values: [Option<u32>; 2]) {
        for value in values {
            self.number(value);
        }
    }

    /// Appends a number with a fraction; `None` is an empty field.
    pub fn float(&mut self, value: Option<f64>) {
        let out = self.field();
        if let Some(value) = value.filter(|value| value.is_finite()) {
            out.extend_from_slice(format!("{value}").as_bytes());
        }
    }

    /// Appends `true` or `false`; `None` is an empty field.
    pub fn boolean(&mut self, value: Option<bool>) {
        self.word(match value {
            Some(true) => "true",
            Some(false) => "false",
            None => "",
        });
    }

    /// Appends a constant, which needs no quotes.
    pub fn word(&mut self, word: &str) {
        self.field().extend_from_slice(word.as_bytes());
    }

    /// Appends fields that are already written as CSV, at the beginning of a line.
    #[inline]
    pub fn constants(&mut self, fields: &[u8]) {
        match &mut self.waiting {
            // It knows them.
            Some(waiting) => waiting.push_constants(self.out),
            None => self.field().extend_from_slice(fields),
        }
    }

    /// Appends text from outside, quoted where needed; `None` is an empty field.
    pub fn text(&mut self, text: Option<&str>) {
        self.bytes(text.map(str::as_bytes));
    }

    /// Appends bytes from outside as text; `None` is an empty field.
    pub fn bytes(&mut self, text: Option<&[u8]>) {
        match text {
            Some(text) => self.outside(|out| push_clean(out, text)),
            None => self.empty(1),
        }
    }

    /// Appends the text from outside that `push` writes: `'` in front of what would be a formula, quoted where needed.
    pub fn outside(&mut self, push: impl FnOnce(&mut Vec<u8>)) {
        let out = self.field();
        let start = out.len();
        push(out);
        if matches!(out.get(start), Some(b'=' | b'+' | b'-' | b'@')) {
            out.insert(start, b'\'');
        }
        if !out[start..]
            .iter()
            .any(|byte| matches!(byte, b'"' | b',' | b'\r' | b'\n'))
        {
            return;
        }
        let text = out.split_off(start);
        out.push(b'"');
        for byte in text {
            if byte == b'"' {
                out.push(b'"');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(table: &str, expected: &str) {
        let mut out = Vec::new();
        push_filled(&mut out, table.replace('\n', "\r\n").as_bytes());
        assert_eq!(String::from_utf8(out).unwrap(), expected.replace('\n', "\r\n"));
    }

    #[test]
    fn columns_that_no_row_fills_are_left_out() {
        check("a,b,c\n1,,3\n,,4\n", "a,c\n1,3\n,4\n");
        check("a,b,c\n1,,\n", "a\n1\n");
        check("a,b,c\n1,,3\n,2,\n", "a,b,c\n1,,3\n,2,\n");
        check("a,b,c\n\"x,\"\"y\",,\"\n\"\n", "a,c\n\"x,\"\"y\",\"\n\"\n");
        check("a,b\n", "a,b\n");
    }

    #[test]
    fn broken_tables_do_not_panic() {
        for table in ["", "a", "a,b\r\n\"x", "a,b\r\n1,\r", "a\r\n1,2,3\r\n,,"] {
            push_filled(&mut Vec::new(), table.as_bytes());
        }
    }
}
