//! Calls of functions, by uprobes and kprobes.
//!
//! The selection of functions by pattern and file happens here; BPF programs (`bpf/functions.bpf.c`) follow the calls in the
//! kernel.

mod counts;
mod entry;
mod exits;
mod file_traits;
mod filter;
mod instruction;
mod kernel;
mod kernel_probes;
mod links;
mod overhead;
mod pattern;
mod probe_scope;
mod probes;
mod selection;
mod startup_files;
mod support;
mod unwatched;
mod watch;

#[cfg(test)]
pub(crate) use counts::FunctionCounts;
pub use filter::FunctionFilter;
pub use startup_files::startup_files;
pub(crate) use support::{kernel_mechanism, user_mechanism};
pub(crate) use watch::Functions;
