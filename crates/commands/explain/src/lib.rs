//! `sockeye explain`: meaning, causes, checks and remedies of kernel messages, counters, drop reasons, settings and errors.
//!
//! - `args.rs`: the arguments. `run.rs`: from the arguments to the output. `log.rs`: reads a log.
//! - [`output`]: explanations as text, JSON and CSV.
//!
//! What it deliberately does not do: have or find explanations (`sockeye_dictionary`), read the state of this host, use the
//! network.

mod args;
mod log;
pub mod output;
mod run;
#[cfg(test)]
mod tests;

pub use args::ExplainArgs;
pub use run::run;

use sockeye_dictionary::{Dictionary, Kind};

/// Returns the names that are explained, other than those of messages, for completion: `ETIMEDOUT`, `TCPLossProbes`, `tcp_mem`.
#[must_use]
pub fn names() -> Vec<String> {
    let dictionary = Dictionary::new();
    let entries = dictionary.entries();
    let named = entries.filter(|entry| entry.kind != Kind::Message);
    let mut names: Vec<String> = named.map(|entry| entry.name.to_string()).collect();
    names.sort_unstable();
    names.dedup();
    names
}
