//! The drop-ins: `ss` of iproute2, `netstat` of net-tools and `lstf`, with their options and their output, also when the
//! binary is called by one of these names.
//!
//! What it deliberately does not do: improve on them. What is the same and what is not is in `docs/dropins/`.
//!
//! | file | content |
//! |---|---|
//! | `tool.rs` | which tool a command line asks for |
//! | `ss/`, `netstat/`, `lstf/` | each tool: `options.rs` reads its command line, `run.rs` goes from options to output |
//! | `output/` | the layouts of the three tools: values in, bytes out; no file, clock, environment or stdout |
//! | `getopt.rs` | GNU's `getopt_long`, for `ss` and `netstat` |
//! | `errno.rs` | texts of system errors |
//! | `proc_note.rs` | the note on a missing `/proc` |

mod errno;
mod getopt;
mod lstf;
mod netstat;
pub mod output;
mod proc_note;
mod ss;
#[cfg(test)]
mod tests;
mod tool;

pub use tool::Tool;
