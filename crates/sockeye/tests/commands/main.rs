//! What each command does on the live kernel: a module per command, with what its tests share beside them.
//!
//! Run them with `scripts/run-tests` (for example `scripts/run-tests commands::check`), which gives each test a process of its
//! own: between fork and exec a child of one test holds the descriptors of every other test in the process, and those are what
//! these tests count.
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

#[path = "../fixtures/mod.rs"]
mod fixtures;

mod actions;
mod bench;
mod check;
mod dropins;
mod explain;
mod iperf3;
mod listing;
mod netns;
mod packets;
mod prof;
