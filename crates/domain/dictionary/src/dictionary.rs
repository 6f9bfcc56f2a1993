//! Entry point of the crate: look-ups and readers of logs for `explain`. It has no state: entries are unpacked when they are needed,
//! and stay for the whole program.

use crate::{Entry, Found, Log, lookup, packed};

/// The dictionary in the binary.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dictionary(());

impl Dictionary {
    /// The dictionary in the binary.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }

    /// All entries by kind, in the order of the files.
    pub fn entries(&self) -> impl Iterator<Item = &'static Entry<'static>> {
        packed::entries()
    }

    /// Looks up a text: a name in any spelling, or a line of a tool or a log. Without a match, returns
    /// similar entries.
    #[must_use]
    pub fn find(&self, text: &str) -> Found {
        lookup::find(text)
    }

    /// The entry of a counter, in any of the spellings that drivers give to queues and ports: `rx_queue_3_drops`, `tx3_xdp_full`,
    /// `[3]: rx_discards`, `port.rx_crc_errors`.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<&'static Entry<'static>> {
        lookup::counter(name)
    }

    /// The entry of an error number, without its sign.
    #[must_use]
    pub fn error(&self, number: u16) -> Option<&'static Entry<'static>> {
        lookup::error(number)
    }

    /// For each of these lines without an entry, the message that is most similar. A call reads all texts.
    #[must_use]
    pub fn similar_messages(&self, lines: &[&str]) -> Vec<Option<&'static Entry<'static>>> {
        lookup::similar_messages(lines)
    }

    /// A reader for a log.
    #[must_use]
    pub fn log(&self) -> Log {
        Log::new()
    }
}
