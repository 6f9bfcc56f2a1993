//! `sockeye kill`: closes sockets of running processes.

mod args;
mod run;
mod session;

pub use args::KillArgs;
pub use run::run;
