//! `sockeye capture`, `sockeye analyze` and `sockeye graph`: packets into a file, a verdict for each connection, and its
//! time-sequence graph.
//!
//! - `capture/`, `analyze/`, `graph/`: a command each: its arguments (`args.rs`) and what it does (`run.rs`).
//! - `input/`: captures and filter from the command line, read packet by packet; for `analyze` and `graph`.
//! - [`output`]: verdicts and graphs as text, JSON, CSV and pictures. It touches no file, clock or terminal.
//!
//! What it deliberately does not do: decode packets (`sockeye_wire`), read capture files (`sockeye_source`), judge connections
//! (`sockeye_trace`).
//!
//! It has more than 10,000 lines because text, JSON, CSV and pictures of verdicts and graphs share the captures' input and one
//! vocabulary of findings; each of `capture/`, `analyze/`, `graph/` can be read alone.

pub mod analyze;
pub mod capture;
pub mod graph;
mod input;
pub mod output;
#[cfg(test)]
mod tests;
