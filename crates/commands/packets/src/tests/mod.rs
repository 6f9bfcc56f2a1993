//! Whole graphs, and pages in a browser.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod browser;
mod corpus;
#[path = "../../../../output/src/tests/fixtures.rs"]
mod fixtures;
mod graph;
pub(crate) mod transfers;

use sockeye_output as output;
