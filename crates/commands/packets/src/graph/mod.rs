//! `sockeye graph`: a drawing of one captured connection.

mod args;
mod run;
mod terminal;

pub use args::GraphArgs;
pub use run::run;
