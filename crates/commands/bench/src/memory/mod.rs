//! `sockeye bench memory`: the speed of setting and copying memory.

mod args;
mod output;
mod run;

pub(crate) use args::MemoryArgs;
pub(crate) use run::run;
