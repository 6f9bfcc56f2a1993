//! `sockeye keepalive`: lists and changes TCP keepalive of running sockets, and gives it to new connections.

mod args;
mod attach;
mod attached;
mod borrow;
mod change;
mod exec;
mod guard;
mod list;
mod query;
mod run;
mod set;
mod state;
mod summary;
mod system;
mod text;
mod times;
mod unset;

pub use args::KeepaliveArgs;
pub use run::run;
