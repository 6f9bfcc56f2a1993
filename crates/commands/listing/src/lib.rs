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
