//! `sockeye keepalive` and `sockeye kill`: what changes running sockets. Both show what they are about to do, ask, do it
//! and report each failure.
//!
//! What it deliberately does not do: choose sockets without a filter, touch the sockets of the user's own session.

mod deed;
pub mod keepalive;
pub mod kill;
pub mod output;
mod targets;
mod values;
