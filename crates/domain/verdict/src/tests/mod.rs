//! Tests of every rule on sockets made by hand, and of random ones.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the crate is pure, its tests are not"
)]
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

mod connections;
mod generated;
pub(crate) mod made;
mod queues;
mod sending;
mod transfers;
mod waiting;
