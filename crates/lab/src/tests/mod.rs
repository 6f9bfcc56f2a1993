//! Tests of the laboratory, compared with `ss` and `/proc`.
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

mod cleanup;
mod middlebox;
mod others;
mod processes;
mod ss;
mod tcp;
