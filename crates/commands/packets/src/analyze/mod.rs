//! `sockeye analyze`: what limited captured transfers.

mod args;
mod comparison;
mod largest;
mod run;

pub use args::AnalyzeArgs;
pub use run::run;
