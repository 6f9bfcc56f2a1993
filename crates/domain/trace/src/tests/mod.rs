//! Tests on whole transfers: made by hand, simulated, from the fuzz corpus.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the crate is pure, its tests are not"
)]
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

mod anything;
mod corpus;
mod flags;
mod hand;
mod shards;
mod simulation;
mod translated;
mod world;
