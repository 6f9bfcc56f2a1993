//! `sockeye events`: opens, closes, resets and retransmissions of connections, as they happen.
//!
//! - `args`: its arguments
//! - `run`: the watch, from its begin to ^C
//! - `source`: where events come from; `by_diag`: without BPF
//! - `owners`: owners of what is older than the watch; `since_start`: what is open when it begins
//! - `selection`: which events a filter accepts
//! - `kinds`: what the kernel is asked for
//! - `command_lines`: of owners
//! - `cgroup_names`: names of cgroups, containers and units
//! - `late_names`: names of containers that start later
//! - `batch`: events that wait for a RST which the kernel sends right after a close
//! - `counted`: what the kernel has counted and not shown
//! - `place`: what identifies a connection
//! - `ended`: closes that a RST can follow later
//! - `summary`: counts for the end, or every so many seconds; `at_least`: which of them may be too low
//! - `output`: columns, and the text of the summary

mod args;
mod at_least;
mod batch;
mod by_diag;
mod cgroup_names;
mod command_lines;
mod counted;
mod ended;
mod kinds;
mod late_names;
pub mod output;
mod owners;
mod place;
mod run;
mod selection;
mod since_start;
mod source;
mod summary;

pub use args::EventsArgs;
pub use run::run;

use sockeye_output::listing::{ColumnNames, column_names};

/// Returns the names of the columns of `events`, for completion.
pub fn columns() -> Vec<ColumnNames> {
    column_names::<output::Events>()
}
