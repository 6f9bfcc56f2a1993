//! Tests of decoding as a whole: the fuzz corpus.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the crate is pure, its tests are not"
)]

mod corpus;
