//! Objects as one JSON document or as JSON lines, for output that is written while programs run.

use crate::args::TextFormat;
use sockeye_output::{Envelope, JsonObject};

/// The layout of the objects; the caller writes what it returns.
#[derive(Debug)]
pub(crate) struct JsonRows {
    is_document: bool,
    is_empty: bool,
    names: RowNames,
}

/// Names of a document and of its rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowNames {
    /// `type` of the document.
    pub(crate) document: &'static str,
    /// Key of its array.
    pub(crate) key: &'static str,
    /// `type` of an object in a JSON line.
    pub(crate) row: &'static str,
}

impl JsonRows {
    pub(crate) fn new(format: TextFormat, names: RowNames) -> Self {
        Self {
            is_document: format == TextFormat::Json,
            is_empty: true,
            names,
        }
    }

    /// Appends the text before the first object.
    pub(crate) fn begin(&self, out: &mut Vec<u8>, envelope: &Envelope) {
        if self.is_document {
            let mut document = JsonObject::begin(out);
            envelope.push(&mut document, self.names.document);
            document.key(self.names.key).push(b'[');
        }
    }

    /// Appends an object with the fields that `push_fields` writes; `envelope` is for a line of its own.
    pub(crate) fn push(
        &mut self,
        out: &mut Vec<u8>,
        envelope: &Envelope,
        push_fields: impl FnOnce(&mut JsonObject<'_>),
    ) {
        if self.is_document {
            out.extend_from_slice(if self.is_empty { b"\n" } else { b",\n" });
        }
        let mut object = JsonObject::begin(out);
        if !self.is_document {
            envelope.push(&mut object, self.names.row);
        }
        push_fields(&mut object);
        object.end();
        if !self.is_document {
            out.push(b'\n');
        }
        self.is_empty = false;
    }

    /// Appends the text after the last object, with the fields of the summary.
    pub(crate) fn end(
        &self,
        out: &mut Vec<u8>,
        envelope: &Envelope,
        push_summary: impl FnOnce(&mut JsonObject<'_>),
    ) {
        if self.is_document {
            out.extend_from_slice(if self.is_empty { b"],\n" } else { b"\n],\n" });
            let mut rest = JsonObject::inside(out);
            push_summary(&mut rest);
            rest.end();
            out.push(b'\n');
        } else {
            envelope.push_summary_line(out, self.names.document, push_summary);
        }
    }
}
