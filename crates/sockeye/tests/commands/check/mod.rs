//! Tests of `check`: each fault made on the live kernel.

mod command;
mod counters;
mod devices;
mod diagnosis;
pub(crate) mod faults;
mod healthy;
mod host;
mod sending;
mod sockets;
mod sockets_pace;
mod sockets_queues;
mod two_looks;
mod victims;
mod watched;
