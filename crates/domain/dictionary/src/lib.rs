//! The dictionary of kernel networking: meaning, causes, checks and remedies of counters, drop reasons,
//! settings, states, errors and log messages. It is part of the binary; no network access is needed.
//!
//! The texts are in `data/`, a file or folder for each kind, in stanzas like Debian's control files ([`stanza`] lists the
//! fields). `build.rs` packs them: an entry that is not needed stays compressed. [`Dictionary`] finds entries by
//! pasted text: names in any spelling, lines of `sysctl` or `nstat`, messages. [`Log`] takes the lines of a log in any format, and counts entries and their values.
//!
//! ```
//! use sockeye_dictionary::{Dictionary, Kind};
//!
//! let dictionary = Dictionary::new();
//! let found = dictionary.find("CLOSE_WAIT");
//! assert_eq!(found.entries[0].kind, Kind::State);
//! ```
//!
//! What it deliberately does not do: read files, query the kernel, print.

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_dictionary;

#[cfg(test)]
mod anchor_table;
mod anchors;
mod blanks;
mod block;
mod counter_name;
mod dictionary;
mod drop_class;
mod entry;
mod error_context;
mod error_text;
mod event;
mod family;
#[cfg(test)]
mod files;
mod kind;
mod line_reader;
mod log;
mod log_line;
mod lookup;
mod messages;
mod names;
mod packed;
mod pattern;
mod replacements;
mod severity;
pub mod stanza;
mod statistics;
#[cfg(test)]
mod tests;
mod unknown;
mod wordings;
mod words;

pub use dictionary::Dictionary;
pub use drop_class::DropClass;
pub use entry::{Entry, Wording};
pub use error_context::ErrorContext;
pub use kind::Kind;
pub use line_reader::{LineReader, ReadLine};
pub use log::{Count, EntryOccurrences, Follower, Log, Trace, Value};
pub use lookup::Found;
pub use pattern::Placeholder;
pub use replacements::Replacements;
pub use severity::Severity;
pub use statistics::{CounterGroup, CounterValue};
pub use unknown::{Reading, UnknownLine};
pub use wordings::WordingOccurrences;
