//! Latency: requests and answers over persistent connections (`rr`), or with one connection each (`crr`).
//!
//! Without a rate, the next request is sent when the answer to the one before has arrived (`closed_loop.rs`). With a rate,
//! requests are sent by a schedule that does not depend on answers (`open_loop.rs`), and each delay counts from the time at
//! which the request was due. So the figures include the requests that a stall holds up; a closed loop would omit just
//! those ("coordinated omission").
//!
//! Each connection has a thread. Nothing is allocated during the measurement.

mod answer;
mod client;
mod closed_loop;
mod connect_loop;
mod exact_io;
mod open_loop;
mod run_state;
mod server;

pub use client::{EarlyEnd, Outcome, Plan, ServerLoad, run};
pub use exact_io::Failure;
pub use run_state::{Sizes, Tally};
#[cfg(any(test, fuzzing))]
pub(crate) use server::Request;
pub(crate) use server::answer;

/// Most connections of one test.
pub const CONNECTIONS_MAX: u32 = server::CONNECTIONS_MAX;
