//! From flags and a filter to sockets, for all commands that list sockets: it finds the namespaces, resolves the filter
//! in each, runs the sources, and reports what was lost.
//!
//! It deliberately does not print sockets and changes nothing.
//!
//! - `args`, `values`: flags and their parsers; `watch_args`: those of commands that watch by BPF programs
//! - `namespaces`: from `--netns` to namespaces; `cgroup`: from an argument to a cgroup
//! - `context`: namespaces, sources and names; `netns_targets`: the filter as resolved in each namespace
//! - `workloads`: containers, cgroups, units and executables of sockets
//! - `event_processes`: group, executable, container and unit of the processes of events
//! - `sample_owners`: owners of sockets from one sample to the next
//! - `sampling`: flows of one sample after the other, and what happened between them
//! - `drops`, `vitals`: what is dropped between two samples; counters and devices of namespaces
//! - `when`: times as people write them; `past`, `look_back`, `replay`: a recorded moment in place of the kernel's
//!   sockets; `recorded_totals`: sums of talkers that match a filter
//! - `findings`: the host is read and judged
//! - `listing`, `scan`: a listing and one pass of it; `report`, `notes`: what it lost, and the notes about it

pub mod args;
pub mod cgroup;
pub mod context;
pub mod drops;
mod ended;
mod entry_threads;
pub mod event_processes;
pub mod findings;
pub mod listing;
pub mod look_back;
pub mod namespaces;
pub mod netns_counters;
pub mod netns_targets;
pub mod notes;
mod packet_program;
pub mod past;
pub mod recorded_totals;
pub mod refusals;
mod replay;
mod report;
pub mod sample_owners;
pub mod sampling;
mod scan;
pub mod values;
pub mod vitals;
pub mod watch_args;
pub mod when;
mod workloads;

pub use packet_program::packet_program;
