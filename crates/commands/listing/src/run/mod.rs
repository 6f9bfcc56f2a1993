//! Runs the commands.

mod doctor;
mod flows;
mod no_rows;
mod sockets;

use sockeye_model::counted;

pub use doctor::run as doctor;
pub use flows::{all as all_flows, run as flows};
pub use sockets::run as sockets;

/// Returns the note about rows that `--top` left out.
fn left_out(count: usize, row: &str) -> String {
    let rows = counted(count, &format!("more {row}"));
    format!("sockeye: {rows}; --top 0 shows all\n")
}
