//! What every machine-readable document and every JSON line says of itself: its type, when and where it was made, by which
//! version. The reason for each key is in `docs/guide/json-and-pipelines.md`.
//!
//! Clock, host name and boot are arguments: `sockeye_console::envelope` reads them.

use crate::csv::Line;
use crate::date::push_rfc3339_us;
use crate::format::SCHEMA_VERSION;
use crate::json::Object;

/// The host and the program that a document comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Name of the host (`uname -n`); `None` if it has none.
    pub host: Option<String>,
    /// Identifier of the boot (`/proc/sys/kernel/random/boot_id`), in which cookies, inodes and pids are unique; `None` if
    /// unreadable.
    pub boot_id: Option<String>,
    /// Version of the program.
    pub version: &'static str,
}

impl Origin {
    /// A host of which nothing is known.
    pub const UNKNOWN: &'static Self = &Self {
        host: None,
        boot_id: None,
        version: env!("CARGO_PKG_VERSION"),
    };
}

/// The time and the origin of a document.
///
/// ```
/// use sockeye_output::{Envelope, JsonObject};
/// let mut out = Vec::new();
/// let mut document = JsonObject::begin(&mut out);
/// Envelope { time_us: 1_000_001, ..Envelope::default() }.push(&mut document, "sockets");
/// assert!(out.starts_with(br#"{"type":"sockets","schema_version":2,"time":"1970-01-01T00:00:01.000001Z","version":"#));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// Time of the sample, in microseconds since 1970-01-01 00:00:00 UTC.
    pub time_us: u64,
    /// Host and program.
    pub origin: &'static Origin,
}

impl Default for Envelope {
    fn default() -> Self {
        Self {
            time_us: 0,
            origin: Origin::UNKNOWN,
        }
    }
}

impl Envelope {
    /// Writes the keys at the beginning of a document or of a line of this type.
    pub fn push(&self, object: &mut Object<'_>, kind: &str) {
        object.word("type", kind);
        object.number("schema_version", Some(SCHEMA_VERSION));
        object.word("time", &self.time());
        object.text("host", self.origin.host.as_deref());
        object.text("boot_id", self.origin.boot_id.as_deref());
        object.word("version", self.origin.version);
    }

    /// Returns the beginning of every JSON line of this type, with its brace: [`Object::continued`] continues it. Made once
    /// and copied, it costs less than its keys.
    #[must_use]
    pub fn line_begin(&self, kind: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut object = Object::begin(&mut out);
        self.push(&mut object, kind);
        out
    }

    /// Appends `{"type":"KIND_summary",...,"summary":{...}}` with what `push` writes into the inner braces, and a line feed.
    pub fn push_summary_line(&self, out: &mut Vec<u8>, kind: &str, push: impl FnOnce(&mut Object<'_>)) {
        let mut line = Object::begin(out);
        self.push(&mut line, &format!("{kind}_summary"));
        let mut summary = line.object("summary");
        push(&mut summary);
        summary.end();
        line.end();
        out.push(b'\n');
    }

    /// Returns the time as RFC 3339 writes it.
    #[must_use]
    pub fn time(&self) -> String {
        let mut text = String::new();
        push_rfc3339_us(&mut text, self.time_us);
        text
    }

    /// Returns the names of the first fields of CSV: `time` and, if it is known, `host`.
    #[must_use]
    pub const fn csv_header(&self) -> &'static str {
        if self.origin.host.is_some() {
            "time,host"
        } else {
            "time"
        }
    }

    /// Returns the first fields of every line of CSV, for [`Line::constants`].
    #[must_use]
    pub fn csv_fields(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut line = Line::begin(&mut out);
        line.word(&self.time());
        if let Some(host) = &self.origin.host {
            line.text(Some(host));
        }
        out
    }
}
