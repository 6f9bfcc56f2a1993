//! Objects as one JSON array or as JSON lines.

use crate::args::TextFormat;

/// The layout of the objects; the caller writes what it returns.
#[derive(Debug)]
pub(crate) struct JsonRows {
    is_array: bool,
    is_empty: bool,
}

impl JsonRows {
    pub(crate) fn new(format: TextFormat) -> Self {
        Self {
            is_array: format == TextFormat::Json,
            is_empty: true,
        }
    }

    /// Returns the text before the first object.
    pub(crate) const fn begin(&self) -> &'static [u8] {
        if self.is_array { b"[" } else { b"" }
    }

    /// Appends an object.
    pub(crate) fn push(&mut self, out: &mut Vec<u8>, push_object: impl FnOnce(&mut Vec<u8>)) {
        if self.is_array {
            out.extend_from_slice(if self.is_empty { b"\n" } else { b",\n" });
        }
        push_object(out);
        if !self.is_array {
            out.push(b'\n');
        }
        self.is_empty = false;
    }

    /// Returns the text after the last object.
    pub(crate) const fn end(&self) -> &'static [u8] {
        match (self.is_array, self.is_empty) {
            (true, true) => b"]\n",
            (true, false) => b"\n]\n",
            (false, _) => b"",
        }
    }
}
