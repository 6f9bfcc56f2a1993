//! `sockeye drops`: packets that the kernel drops, why and whose, and the counters that they explain.
//!
//! - `args`, `run`: what can be typed, and how it begins; `session`: what is the same for all reports
//! - `reports`: one report, or again and again; `interval`, `report`: what happened in one; `print`: how that looks
//! - `packets`: each packet
//! - `pace`: how often sockets are listed
//! - `sockets`: owners of sockets, by inode and by addresses
//! - `rows`: what the kernel counted, with names and owners
//! - `counters`: counters before and after
//! - `estimates`: numbers where only some drops were counted by more than their reason
//! - `firewall`: rules of the packet filter that drop, and what they counted
//! - `output`: columns

mod args;
mod counters;
mod estimates;
mod firewall;
mod fold;
mod interval;
mod output;
mod pace;
mod packets;
mod print;
mod report;
mod reports;
mod rows;
mod run;
mod session;
mod sockets;

pub use args::DropsArgs;
pub use run::run;

use sockeye_output::listing::{ColumnNames, column_names};

/// Returns the names of the columns of `drops`, for completion.
pub fn columns() -> Vec<ColumnNames> {
    column_names::<output::Drops>()
}
