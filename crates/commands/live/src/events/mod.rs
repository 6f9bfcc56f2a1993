//! `sockeye events`: opens, closes, resets and retransmissions of connections, as they happen.
//!
//! - `args`: its arguments
//! - `run`: the watch, from its begin to ^C
//! - `owners`: owners of what is older than the watch
//! - `batch`: events that wait for a RST which the kernel sends right after a close
//! - `summary`: counts for the end
//! - `output`: columns, and the text of the summary

mod args;
mod batch;
pub mod output;
mod owners;
mod run;
mod summary;

pub use args::EventsArgs;
pub use run::run;

use sockeye_output::listing::{ColumnNames, column_names};

/// Returns the names of the columns of `events`, for completion.
pub fn columns() -> Vec<ColumnNames> {
    column_names::<output::Events>()
}
