//! `sockeye flows`, `sockeye sockets` and `sockeye doctor`: connections folded into host flows, one row for each socket,
//! and which sources work here.
//!
//! What it deliberately does not do: change anything, judge what it shows.

mod args;
mod doctor;
mod flows;
pub mod output;
mod sockets;
#[cfg(test)]
mod tests;
mod values;

pub use args::{DoctorArgs, FlowOptions, FlowsArgs, SocketsArgs};
pub use doctor::run as doctor;
pub use flows::{all as all_flows, run as flows};
pub use sockets::run as sockets;

use sockeye_output::listing::Record;

/// Names of the columns of `flows`, for completion.
pub fn flow_columns() -> impl Iterator<Item = &'static str> {
    output::Flows::columns().iter().map(|column| column.name)
}

/// Names of the sort keys of `flows`, for completion.
pub fn flow_sort_keys() -> impl Iterator<Item = &'static str> {
    sockeye_flow::SortKey::NAMES.iter().map(|(name, _)| *name)
}

/// Names of the columns of `sockets`, which are its sort keys too, for completion.
pub fn socket_columns() -> impl Iterator<Item = &'static str> {
    sockeye_output::socket::Sockets::columns()
        .iter()
        .map(|column| column.name)
}
