//! Tests of `ns`.

mod add;
mod exec;
mod faults;
mod list;
mod monitor;
mod pids;
