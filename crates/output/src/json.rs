//! A JSON writer without a tree in memory.
//!
//! An absent value has no key. Numbers are exact, also above 2^53: readers that use floating point lose digits of cookies
//! and byte counters. In text that is not UTF-8, U+FFFD replaces each invalid sequence; a second key, with the suffix
//! `_hex`, has the exact bytes.
//!
//! Written here although `serde_json` is in the binary to read with. The keys of a row depend on its values, and text that is not
//! UTF-8 needs a second key: with serde that is a hand-written serializer for every kind of row, not less.

use crate::date::push_rfc3339_us;
use crate::format::{Coverage, Summary};
use crate::number::{push_decimal, push_padded, push_short};
use crate::text::{push_hex, push_json};

/// A JSON object that is being written; [`end`](Self::end) closes it.
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
    /// Begins an object at the end of `out`.
    #[inline]
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Appends keys to an object that is already open, which the caller closes.
    pub fn inside(out: &'a mut Vec<u8>) -> Self {
        Self { out, is_empty: true }
    }

    /// Continues an object that is open and has keys: `out` ends with the value of one.
    #[inline]
    pub fn continued(out: &'a mut Vec<u8>) -> Self {
        Self { out, is_empty: false }
    }

    /// Closes the object.
    #[inline]
    pub fn end(self) {
        self.out.push(b'}');
    }

    /// Writes a key, which must not need escapes; the caller appends its value to the returned buffer.
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

    /// Writes a key that was prepared; the caller appends its value to the returned buffer.
    #[inline]
    pub(crate) fn prepared(&mut self, key: &Key) -> &mut Vec<u8> {
        if self.is_empty {
            self.is_empty = false;
            self.out.extend_from_slice(&key.padded[1..usize::from(key.len)]);
        } else {
            push_padded(self.out, &key.padded, key.len.into());
        }
        self.out
    }

    /// Writes a number; nothing if it is absent.
    #[inline]
    pub fn number(&mut self, name: &str, value: Option<impl Into<u64>>) {
        if let Some(value) = value {
            push_decimal(self.key(name), value.into());
        }
    }

    /// Writes a number with a fraction; nothing if it is not finite, which JSON cannot express.
    pub fn float(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            let text = format!("{value}");
            self.key(name).extend_from_slice(text.as_bytes());
        }
    }

    /// Writes a boolean; nothing if it is absent.
    pub fn boolean(&mut self, name: &str, value: Option<bool>) {
        if let Some(value) = value {
            push_short(self.key(name), if value { b"true" } else { b"false" });
        }
    }

    /// Writes a string that needs no escapes.
    #[inline]
    pub fn word(&mut self, name: &str, value: &str) {
        let out = self.key(name);
        out.push(b'"');
        push_short(out, value.as_bytes());
        out.push(b'"');
    }

    /// Writes text from outside that is UTF-8; nothing if it is absent.
    #[inline]
    pub fn text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            push_json(self.key(name), value.as_bytes());
        }
    }

    /// Writes text from outside; if it is not UTF-8, its bytes follow in hexadecimal under `name` with the suffix `_hex`.
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

    /// Begins an object as the value of the key `name`.
    #[inline]
    pub fn object(&mut self, name: &str) -> Object<'_> {
        Object::begin(self.key(name))
    }

    /// Writes an array of objects as the value of the key `name`; `push` writes the keys of each.
    pub fn objects<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut push: impl FnMut(&mut Object<'_>, T),
    ) {
        let out = self.key(name);
        out.push(b'[');
        for (nth, item) in items.into_iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            let mut fields = Object::begin(out);
            push(&mut fields, item);
            fields.end();
        }
        out.push(b']');
    }
}

/// A key as it is in a row, with its comma, quotes and colon: one copy of constant length writes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    padded: [u8; KEY_BYTES],
    len: u8,
}

impl Key {
    /// Prepares a key, which must not need escapes; `None` if it is too long.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let text = format!(",\"{name}\":");
        let mut padded = [0; KEY_BYTES];
        padded.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        let len = u8::try_from(text.len()).ok()?;
        Some(Self { padded, len })
    }
}

const KEY_BYTES: usize = 32;

/// Returns `text` as a JSON string with its quotes.
#[must_use]
pub fn json_string(text: &str) -> String {
    let mut out = Vec::new();
    push_json(&mut out, text.as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

/// Writes the keys at the end of a document: losses, sources, coverage, interruption.
pub fn push_summary_fields(fields: &mut Object<'_>, summary: &Summary<'_>) {
    let mut losses = fields.object("losses");
    for (name, count) in summary.losses.counters() {
        losses.number(name, Some(count));
    }
    losses.end();
    let out = fields.key("sources");
    out.push(b'[');
    for (nth, (what, kind)) in summary.sources.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        let mut source = Object::begin(out);
        source.text("what", Some(what));
        source.text("source", Some(kind));
        source.end();
    }
    out.push(b']');
    fields.text("coverage", summary.coverage.map(Coverage::name));
    if let Some(totals) = &summary.connections {
        let mut counts = fields.object("connections");
        counts.number("active_opens", Some(totals.active_opens));
        counts.number("passive_opens", Some(totals.passive_opens));
        counts.number("attempt_fails", Some(totals.attempt_fails));
        counts.number("resets", Some(totals.resets));
        counts.number("unseen", Some(totals.unseen));
        counts.number("short", totals.short);
        counts.number("lost_events", totals.lost_events);
        counts.number("interval_ms", Some(totals.interval_ms));
        counts.end();
    }
    if let Some((from_us, to_us)) = summary.summed_us {
        let mut times = fields.object("summed");
        for (name, at_us) in [("from_time", from_us), ("to_time", to_us)] {
            let mut text = String::new();
            push_rfc3339_us(&mut text, at_us);
            times.text(name, Some(&text));
        }
        times.end();
    }
    let left_out = Some(summary.rows_left_out).filter(|&rows| rows > 0);
    fields.number("rows_left_out", left_out.map(|rows| rows as u64));
    fields.boolean("interrupted", Some(summary.interrupted));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_keys_are_those_of_the_same_name() {
        let long = "a".repeat(KEY_BYTES - 4);
        for name in ["", "pid", &long] {
            let (mut written, mut prepared) = (Vec::new(), Vec::new());
            let (mut object, mut same) = (Object::begin(&mut written), Object::begin(&mut prepared));
            let key = Key::new(name).expect("it is short enough");
            for value in [1, 2] {
                push_decimal(object.key(name), value);
                push_decimal(same.prepared(&key), value);
            }
            assert_eq!(prepared, written, "{name}");
        }
        assert!(Key::new(&"a".repeat(KEY_BYTES - 3)).is_none());
    }
}
