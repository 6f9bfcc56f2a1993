//! The drop-ins compared with the real `ss`, `netstat` and `lstf`, on the same live sockets.
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

#[path = "../fixtures/mod.rs"]
mod fixtures;

mod lstf;
mod netstat;
mod ss;
