//! What every command needs of a terminal: standard output, notes on standard error, progress, confirmation, usage
//! errors, output files, and the flags that go with them.
//!
//! What it deliberately does not do: list sockets, look names up, decide what is printed.

pub mod args;
pub mod confirm;
pub mod exit;
pub mod notes;
pub mod progress;
pub mod replacement;
pub mod stdout;
pub mod usage;
pub mod values;
