//! `sockeye capture`, `sockeye analyze` and `sockeye graph`: packets into a file, a verdict for each connection, and its
//! time-sequence graph.
//!
//! What it deliberately does not do: decode packets (`wire`), judge connections (`trace`).

pub mod analyze;
pub mod capture;
pub mod graph;
pub mod output;
#[cfg(test)]
mod tests;
