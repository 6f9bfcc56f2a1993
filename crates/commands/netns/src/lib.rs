//! `sockeye ns`: lists, creates and deletes network namespaces, and runs programs in them, in many at once.
//!
//! It deliberately does not configure what is inside a namespace, beyond `lo` and one veth pair, and does not end the
//! processes in it unless asked to (`del --kill`).
//!
//! - `args`, `run`: arguments, and the dispatch to the subcommands
//! - `list`, `pids`, `identify`, `monitor`: show namespaces, their processes and their names
//! - `add`, `del`, `attach`: create and delete; `workers` does it on several threads, `guard` repairs what a `kill -9`
//!   leaves unfinished
//! - `exec`: runs a program in one namespace or in many
//! - `names`: the names on the command line
//! - `output`: columns of `list`, its notes, and lists of names

mod add;
mod args;
mod attach;
mod del;
mod exec;
mod guard;
mod identify;
mod list;
mod monitor;
mod names;
pub mod output;
mod pids;
mod run;
#[cfg(test)]
mod tests;
mod workers;

pub use args::NsArgs;
pub use run::run;

/// Returns the names of the columns of `ns list`, which are also its sort keys, for completion.
pub fn namespace_columns() -> Vec<sockeye_output::listing::ColumnNames> {
    sockeye_output::listing::column_names::<output::Namespaces>()
}

/// Checks the names of columns of `ns list`, with commas between them.
///
/// # Errors
/// The first unknown name, with the nearest known one.
pub fn check_columns(list: &str) -> Result<(), String> {
    sockeye_output::listing::check_columns::<output::Namespaces>(list)
}
