//! From flags and a filter to sockets, for all commands that list sockets: it finds the namespaces, resolves the filter
//! in each, runs the sources, and reports what was lost.
//!
//! It deliberately does not print sockets and changes nothing.
//!
//! - `args`, `values`: flags and their parsers
//! - `namespaces`: from `--netns` to namespaces; `cgroup`: from an argument to a cgroup
//! - `context`: namespaces, sources and names; `netns_targets`: the filter as resolved in each namespace
//! - `workloads`: containers, cgroups, units and executables of sockets
//! - `listing`, `scan`: a listing and one pass of it; `report`, `notes`: what it lost, and the notes about it

pub mod args;
pub mod cgroup;
pub mod context;
pub mod listing;
pub mod namespaces;
pub mod netns_targets;
pub mod notes;
mod report;
mod scan;
pub mod values;
mod workloads;
