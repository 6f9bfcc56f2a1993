//! Tests of the whole dictionary, against itself and against the running kernel.
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

mod drivers;
mod entries;
mod events;
mod forms;
mod kernel;
mod kernel_source;
mod log_lines;
mod own_entries;
mod program_lines;
mod sizes;
mod source_readings;
mod speed;
mod trial_readings;
