//! Whole documents of each writer.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

#[path = "../../../../output/src/tests/fixtures.rs"]
mod fixtures;
mod schema;
#[path = "../../../../output/src/tests/schema_check.rs"]
mod schema_check;
#[path = "../../../../output/src/tests/schema_file.rs"]
mod schema_file;

use sockeye_output as output;
