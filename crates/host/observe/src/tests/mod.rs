//! Tests against real processes and the live kernel.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod calls;
mod functions;
mod sampler;
mod symbols;
