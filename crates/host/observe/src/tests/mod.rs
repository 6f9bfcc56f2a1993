//! Tests on real processes, compared with strace, with nm, and with programs that count and time themselves.
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

mod calls;
mod functions;
mod sampler;
mod symbols;
