//! `sockeye keepalive` and `sockeye kill`: they change running sockets. Both preview what they are about to do, ask, do it
//! and report each failure.
//!
//! They deliberately do not select sockets without a filter, nor touch the sockets of the user's own session.
//!
//! - `targets`, `action`, `outcome`: find the sockets, preview and confirm the action, report its outcomes
//! - `kill`, `keepalive`: the commands
//! - `output`: columns of their listings; `values`: parsers of their option values

mod action;
pub mod keepalive;
pub mod kill;
mod outcome;
pub mod output;
mod targets;
mod values;
