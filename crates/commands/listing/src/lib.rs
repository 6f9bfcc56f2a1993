//! `sockeye flows`, `sockeye sockets` and `sockeye doctor`: connections folded into host flows, one row for each socket,
//! and which sources work here.
//!
//! It deliberately does not change anything, and does not judge what it shows: `check` does.
//!
//! - `args`: arguments of the commands
//! - `run`: reads flows and sockets, and probes the sources
//! - `output`: the report of `doctor`; the columns of flows and sockets are in `sockeye_output`

mod args;
mod output;
mod run;

pub use args::{DoctorArgs, FlowOptions, FlowsArgs, SocketsArgs};
pub use run::{all_flows, doctor, flows, sockets};

use sockeye_output::flow::Flows;
use sockeye_output::listing::{ColumnNames, check_columns, column_names};

/// Returns the names of the columns of `flows`, which are also its sort keys, for completion.
pub fn flow_columns() -> Vec<ColumnNames> {
    column_names::<Flows>()
}

/// Returns the names of the columns of `sockets`, which are also its sort keys, for completion.
pub fn socket_columns() -> Vec<ColumnNames> {
    column_names::<sockeye_output::socket::Sockets>()
}

/// Checks the names of columns of `flows`, with commas between them.
///
/// # Errors
/// The first unknown name, with the nearest known one.
pub fn check_flow_columns(list: &str) -> Result<(), String> {
    check_columns::<Flows>(list)
}

/// Checks the names of columns of `sockets`, with commas between them.
///
/// # Errors
/// The first unknown name, with the nearest known one.
pub fn check_socket_columns(list: &str) -> Result<(), String> {
    check_columns::<sockeye_output::socket::Sockets>(list)
}
