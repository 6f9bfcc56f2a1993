//! Entry point of the crate: parses the built-in texts of all kinds and answers look-ups for `explain`.
//! The index of names is built at the first look-up, because reading a log does not need it.

use crate::lookup::Names;
use crate::messages::Messages;
use crate::{Entry, Found, Kind, Log, stanza};
use std::sync::OnceLock;

/// All entries, with indices to find them.
#[derive(Debug)]
pub struct Dictionary {
    entries: Vec<Entry<'static>>,
    /// Built at the first lookup of a name.
    names: OnceLock<Names>,
}

impl Dictionary {
    /// The dictionary in the binary.
    ///
    /// Entries that cannot be parsed are omitted; the tests check that there are none.
    #[must_use]
    pub fn new() -> Self {
        let entries = Kind::ALL
            .into_iter()
            .flat_map(|kind| stanza::entries(kind, kind.file().1))
            .flatten()
            .collect();
        Self {
            entries,
            names: OnceLock::new(),
        }
    }

    /// All entries by kind, in the order of the files.
    #[must_use]
    pub fn entries(&self) -> &[Entry<'static>] {
        &self.entries
    }

    /// Looks up a text: a name in any spelling, or a line of a tool or a log. Without a match, returns
    /// similar entries.
    #[must_use]
    pub fn find(&self, text: &str) -> Found<'_> {
        self.names().find(&self.entries, text)
    }

    /// The entry of an error number, without its sign.
    #[must_use]
    pub fn error(&self, number: u16) -> Option<&Entry<'static>> {
        let found = self.named(&format!("errno {number}"));
        found.into_iter().find(|entry| entry.kind == Kind::Error)
    }

    /// The message that is most similar to a line without an entry.
    #[must_use]
    pub fn similar_message(&self, line: &str) -> Option<&Entry<'static>> {
        self.names().similar_message(&self.entries, line)
    }

    /// The entries with this name in its usual spellings.
    pub(crate) fn named(&self, name: &str) -> Vec<&Entry<'static>> {
        self.names().named(&self.entries, name)
    }

    fn names(&self) -> &Names {
        self.names.get_or_init(|| Names::new(&self.entries))
    }

    /// A reader for a log.
    #[must_use]
    pub fn log(&self) -> Log<'_> {
        Log::new(self, Messages::new(&self.entries))
    }
}

impl Default for Dictionary {
    fn default() -> Self {
        Self::new()
    }
}
