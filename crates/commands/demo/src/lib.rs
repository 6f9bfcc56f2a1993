//! `sockeye demo`: a small host with faults to try the other commands on.
//!
//! - `args.rs`: the arguments. `run.rs`: builds the world, prints what to type, waits. `command.rs`: runs a command in the world.
//! - [`output`]: the commands to type, and what each shows.
//!
//! The world itself is `sockeye_load::world`. What it deliberately does not do: touch anything of this host, or leave anything
//! behind, whatever ends it.

mod args;
mod command;
pub mod output;
mod run;

pub use args::DemoArgs;
pub use run::run;
