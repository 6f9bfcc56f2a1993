//! Tests on what real kernels said, and on the fuzz corpus.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the crate is pure, its tests are not"
)]
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

mod corpus;
mod golden;
