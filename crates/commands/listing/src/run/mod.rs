//! Runs the commands.

mod doctor;
mod flows;
mod no_rows;
mod opens;
mod sockets;

pub use doctor::run as doctor;
pub use flows::{all as all_flows, run as flows};
pub use sockets::run as sockets;
