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

use crate::number::push_decimal;
use crate::text::push_clean;

/// A line that is being written.
pub struct Line<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Line<'a> {
    /// Begins a line at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        Self { out, is_empty: true }
    }

    /// Ends the line with CR LF.
    pub fn end(self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// Begins a field that needs no quotes.
    #[inline]
    pub fn field(&mut self) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out
    }

    /// Appends `count` empty fields.
    #[inline]
    pub fn empty(&mut self, count: usize) {
        if count > 0 {
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
