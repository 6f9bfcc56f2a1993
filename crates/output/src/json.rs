//! JSON, written as it is told: no tree in between.
//!
//! What is absent has no key. Numbers are exact, those above 2^53 too: readers that keep numbers as
//! floating point must take care with cookies and byte counters. Text that is not UTF-8 has U+FFFD in place
//! of each wrong sequence, and its exact bytes beside it under its name with `_hex`.
//!
//! Written here although `serde_json` is in the binary to read with. A row has the keys that are known of it, decided while it is
//! written, and a key beside it where text is not UTF-8: with serde that is a serializer by hand for every kind of row, not less.

use crate::format::{Coverage, SCHEMA_VERSION, Summary};
use crate::number::{push_decimal, push_short};
use crate::text::{push_hex, push_json};

/// A JSON object being written; [`end`](Self::end) closes it.
///
/// ```
/// let mut out = Vec::new();
/// let mut object = sockeye_output::JsonObject::begin(&mut out);
/// object.number("pid", Some(7_u32));
/// object.bytes("comm", Some(b"\xff"));
/// object.end();
/// assert_eq!(out, "{\"pid\":7,\"comm\":\"\u{fffd}\",\"comm_hex\":\"ff\"}".as_bytes());
/// ```
#[derive(Debug)]
pub struct Object<'a> {
    /// The bytes written so far.
    pub out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    /// Begins one at the end of `out`.
    #[inline]
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Keys of one that is open already; whoever opened it closes it.
    pub fn inside(out: &'a mut Vec<u8>) -> Self {
        Self { out, is_empty: true }
    }

    /// Closes it.
    #[inline]
    pub fn end(self) {
        self.out.push(b'}');
    }

    /// Writes a key, which must not need escapes; its value is to be appended to what this gives.
    #[inline]
    pub fn key(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out.push(b'"');
        push_short(self.out, name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// A number, if there is one.
    #[inline]
    pub fn number(&mut self, name: &str, value: Option<impl Into<u64>>) {
        if let Some(value) = value {
            push_decimal(self.key(name), value.into());
        }
    }

    /// A number with a fraction; JSON has no word for those that are not finite.
    pub fn float(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            let text = format!("{value}");
            self.key(name).extend_from_slice(text.as_bytes());
        }
    }

    /// True or false, if it is known.
    pub fn boolean(&mut self, name: &str, value: Option<bool>) {
        if let Some(value) = value {
            push_short(self.key(name), if value { b"true" } else { b"false" });
        }
    }

    /// Text that is known to be harmless.
    #[inline]
    pub fn word(&mut self, name: &str, value: &str) {
        let out = self.key(name);
        out.push(b'"');
        push_short(out, value.as_bytes());
        out.push(b'"');
    }

    /// Text from outside that is UTF-8.
    #[inline]
    pub fn text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            push_json(self.key(name), value.as_bytes());
        }
    }

    /// Text from outside that may be anything; what is not UTF-8 is there in hexadecimal too, under `name` with `_hex`.
    pub fn bytes(&mut self, name: &str, value: Option<&[u8]>) {
        let Some(value) = value else { return };
        if push_json(self.key(name), value) {
            self.out.extend_from_slice(b",\"");
            self.out.extend_from_slice(name.as_bytes());
            self.out.extend_from_slice(b"_hex\":\"");
            push_hex(self.out, value);
            self.out.push(b'"');
        }
    }

    /// Begins an object as the value of `name`.
    #[inline]
    pub fn object(&mut self, name: &str) -> Object<'_> {
        Object::begin(self.key(name))
    }
}

/// `text` as a JSON string, with its quotes.
#[must_use]
pub fn json_string(text: &str) -> String {
    let mut out = Vec::new();
    push_json(&mut out, text.as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends the keys with which a document ends.
pub fn push_summary_fields(out: &mut Vec<u8>, summary: &Summary<'_>) {
    let mut fields = Object { out, is_empty: true };
    let mut losses = fields.object("losses");
    for (name, count) in summary.losses.counters() {
        losses.number(name, Some(count));
    }
    losses.end();
    let out = fields.key("sources");
    out.push(b'[');
    for (nth, (what, rung)) in summary.sources.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        let mut source = Object::begin(out);
        source.text("what", Some(what));
        source.text("rung", Some(rung));
        source.end();
    }
    out.push(b']');
    fields.text("coverage", summary.coverage.map(Coverage::name));
    fields.boolean("interrupted", Some(summary.interrupted));
    fields.number("schema_version", Some(SCHEMA_VERSION));
}

/// Appends the last of JSON lines: `{"summary":{...}}`.
pub fn push_summary_line(out: &mut Vec<u8>, summary: &Summary<'_>) {
    out.extend_from_slice(b"{\"summary\":{");
    push_summary_fields(out, summary);
    out.extend_from_slice(b"}}\n");
}
