//! `sockeye events`: opens, closes, resets and retransmissions of connections, as they happen.

mod args;
mod run;

pub use args::EventsArgs;
pub use run::run;
