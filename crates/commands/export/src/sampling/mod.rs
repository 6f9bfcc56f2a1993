//! From samples of the host to its metrics.
//!
//! - `repeat`: one sample after the other, until the program is ended
//! - `sampler`: a sample; `visitor`: its sockets; `resets`, `drops`: what happened since the one before
//! - `findings`: checks, on a thread of their own
//! - `events`: what happened, one by one
//! - `recorder`: whether `sockeye record` works

mod drops;
mod events;
mod findings;
mod recorder;
mod repeat;
mod resets;
mod sampler;
mod visitor;

#[cfg(test)]
pub(crate) use events::tests::finding;
pub(crate) use events::{EventSelection, FindingChange, FindingEvent, HostEvents};
pub(crate) use repeat::repeat;
