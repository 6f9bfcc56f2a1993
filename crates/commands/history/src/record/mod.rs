//! `sockeye record`: takes samples and adds them to a store.

mod args;
mod checked_words;
mod checks;
mod clocks;
mod netns_names;
mod observer;
mod run;
mod sampler;

pub use args::RecordArgs;
pub use run::run;
