//! From samples of the host to its metrics.
//!
//! - `repeat`: one sample after the other, until the program is ended
//! - `sampler`: a sample; `visitor`: its sockets; `resets`, `drops`: what happened since the one before
//! - `findings`: checks, on a thread of their own

mod drops;
mod findings;
mod repeat;
mod resets;
mod sampler;
mod visitor;

pub(crate) use repeat::repeat;
