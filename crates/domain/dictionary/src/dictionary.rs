//! Entry point of the crate: parses the built-in texts of all kinds and answers look-ups for `explain`.
//! The index of names is built at the first look-up, because reading a log does not need it.

use crate::lookup::{Index, Names};
use crate::messages::Messages;
use crate::{Entry, Found, Kind, Log, stanza};
use std::sync::OnceLock;

/// All entries, with indices to find them. Files are parsed when they are needed.
#[derive(Debug, Default)]
pub struct Dictionary {
    entries: OnceLock<Vec<Entry<'static>>>,
    /// Of these, the messages: a log needs no others
    messages: OnceLock<Vec<Entry<'static>>>,
    names: OnceLock<Names>,
}

impl Dictionary {
    /// The dictionary in the binary.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All entries by kind, in the order of the files.
    #[must_use]
    pub fn entries(&self) -> &[Entry<'static>] {
        self.index().entries()
    }

    /// Looks up a text: a name in any spelling, or a line of a tool or a log. Without a match, returns
    /// similar entries.
    #[must_use]
    pub fn find(&self, text: &str) -> Found<'_> {
        self.index().find(text)
    }

    /// The entry of a counter, in any of the spellings that drivers give to queues and ports: `rx_queue_3_drops`, `tx3_xdp_full`,
    /// `[3]: rx_discards`, `port.rx_crc_errors`.
    #[must_use]
    pub fn counter(&self, name: &str) -> Option<&Entry<'static>> {
        self.index().counter(name)
    }

    /// The entry of an error number, without its sign.
    #[must_use]
    pub fn error(&self, number: u16) -> Option<&Entry<'static>> {
        self.index().error(number)
    }

    /// The message that is most similar to a line without an entry.
    #[must_use]
    pub fn similar_message(&self, line: &str) -> Option<&Entry<'static>> {
        self.index().similar_message(line)
    }

    pub(crate) fn index(&self) -> Index<'_> {
        Index::new(&self.entries, &self.names)
    }

    /// A reader for a log.
    #[must_use]
    pub fn log(&self) -> Log<'_> {
        let messages = self.messages.get_or_init(|| stanza::built_in(&[Kind::Message]));
        Log::new(self.index(), Messages::new(messages))
    }
}
