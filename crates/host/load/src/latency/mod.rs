//! How long answers take: requests over connections that stay (`rr`), or with a connection for each (`crr`).
//!
//! Without a rate the next request goes out when the answer to the one before is there (`closed.rs`): what a program sees that
//! waits for its answers. With a rate requests go out by schedule, whatever became of those before (`open.rs`), and each
//! delay counts from the time at which the request should have gone out. What a stall holds up is in the figures then; a
//! tester that waits for answers would have left out just the requests that suffer ("coordinated omission").
//!
//! A thread for each connection; nothing is allocated while it is measured.

mod answering;
mod asking;
mod closed;
mod connecting;
mod course;
mod open;
mod pinned;
mod serving;
mod whole;

pub use asking::{Ending, Outcome, Plan, There, run};
pub use course::{Sizes, Tally, Transport};
pub(crate) use serving::answer;
pub use whole::Failure;

/// As many connections as one test may have.
pub const CONNECTIONS_MAX: u32 = serving::CONNECTIONS_MAX;
