//! Tests that run the binary: what each command does on the live kernel, and the binary as a whole.
//!
//! Run them with `scripts/run-tests` (for example `scripts/run-tests commands::check`), which gives each test a process of its own:
//! between fork and exec a child of one test holds the descriptors of every other test in the process, and those are what these
//! tests count.
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

mod commands;
mod fixtures;
mod interface;
