//! From flags and a filter to sockets: which namespaces to look into, what the filter means in each, which sources
//! answer, and a report of what was lost. All commands that list sockets share it.
//!
//! What it deliberately does not do: print sockets, change anything.

pub mod args;
pub mod cgroup;
pub mod listing;
pub mod lookup;
pub mod notes;
pub mod places;
pub mod rooms;
mod run;
pub mod values;
