//! The drop-ins: `ss` of iproute2, `netstat` of net-tools and `lstf`, with their options and their output, also when the
//! binary is called by one of these names.
//!
//! What it deliberately does not do: improve on them. What is the same and what is not is in `docs/dropins/`.

mod getopt;
mod lstf;
mod netstat;
pub mod output;
mod ss;
mod tool;

pub use tool::Tool;
