//! The dictionary of kernel networking: what a counter, a drop reason, a setting, a state, an error or a message of the
//! log means, what causes it, how to check, what to do. It is in the binary; nothing is asked of any network.
//!
//! The words are in `data/`, one file a kind, in stanzas as of Debian's control files ([`stanza`] tells the fields). [`Dictionary`] holds
//! them and finds entries by what people paste: names in any spelling, lines of `sysctl` or `nstat`, messages. [`Log`]
//! takes the lines of a log, whatever wrote them, and says which entries they are, how often, with which values.
//!
//! ```
//! use sockeye_dictionary::{Dictionary, Kind};
//!
//! let dictionary = Dictionary::new();
//! let found = dictionary.find("CLOSE_WAIT");
//! assert_eq!(found.entries[0].kind, Kind::State);
//! ```
//!
//! What it deliberately does not do: read files, ask the kernel for a value, print.

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_dictionary;

mod dictionary;
mod entry;
mod kind;
mod log;
mod lookup;
mod pattern;
mod severity;
pub mod stanza;
#[cfg(test)]
mod tests;

pub use dictionary::Dictionary;
pub use entry::Entry;
pub use kind::Kind;
pub use log::{Count, Log, Met, Value};
pub use lookup::Found;
pub use pattern::Placeholder;
pub use severity::Severity;
