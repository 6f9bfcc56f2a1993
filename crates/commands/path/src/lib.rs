//! `sockeye path`: where the time goes on the way of packets through this host.
//!
//! - `args`: what can be typed
//! - `selection`: which packets the filter selects, and in which direction they go
//! - `watch`: follows packets for a while, and folds their journeys
//! - `queues`: looks at queues that packets do not show
//! - `stuck`: connections whose data stand still meanwhile
//! - `run`: prints what was measured
//! - `output`: the table of hops, its columns, and the picture
//!
//! What it deliberately does not do: fold journeys into hops, which `sockeye_path` does; look into packets; change anything.

mod args;
mod output;
mod queues;
mod run;
mod selection;
mod stuck;
mod watch;

pub use args::PathArgs;
pub use run::run;

use sockeye_output::listing::{ColumnNames, column_names};

/// Returns the names of the columns of `path`, for completion.
pub fn columns() -> Vec<ColumnNames> {
    column_names::<output::Hops>()
}

/// Checks the names of columns of `path`, with commas between them.
///
/// # Errors
/// The first unknown name, with the nearest known one.
pub fn check_columns(list: &str) -> Result<(), String> {
    sockeye_output::listing::check_columns::<output::Hops>(list)
}
