//! `sockeye bench file`: sending a file to a socket, by every available method.

mod args;
mod output;
mod run;

pub(crate) use args::FileArgs;
pub(crate) use run::run;
