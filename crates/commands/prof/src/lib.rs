//! `sockeye prof`: where the time of processes goes.
//!
//! What it deliberately does not do: attach to the kernel (`sockeye_observe` does), decide what a profile means, which rows
//! its tables have and what changed between two (`sockeye_profile` does).
//!
//! | file | holds |
//! |---|---|
//! | `args.rs` | the options, and which of them exclude each other |
//! | `run.rs` | from the options to the report and the exit status |
//! | `collect.rs` | observes processes until the time is over |
//! | `top.rs` | `--watch`: a report per interval |
//! | `diff.rs` | `--diff`: compares two files |
//! | `flame_file.rs` | `-o`: the file of the flame graph |
//! | `layout.rs` | how many rows, in which format |
//! | `output/` | tables, JSON, CSV, folded stacks, flame graphs; pure |

mod args;
mod collect;
mod diff;
mod flame_file;
mod layout;
pub mod output;
mod run;
#[cfg(test)]
mod tests;
mod top;

pub use args::ProfArgs;
pub use run::run;
