//! Tests of whole graphs, pages in a browser, and the fuzz corpus.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod browser;
mod corpus;
#[path = "../../../../output/src/tests/fixtures.rs"]
mod fixtures;
mod graph;
#[path = "../../../../output/src/tests/schema_file.rs"]
mod schema_file;
pub(crate) mod transfers;

use sockeye_output as output;
