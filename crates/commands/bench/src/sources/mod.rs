//! `sockeye bench sources`: the cost of each source of the socket table.

mod args;
mod output;
mod run;

pub(crate) use args::SourcesArgs;
pub(crate) use run::run;
