//! Tests that write whole profiles in every form.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod corpus;
mod profile;
mod sampled;
#[path = "../../../../output/src/tests/schema_check.rs"]
mod schema_check;
#[path = "../../../../output/src/tests/schema_file.rs"]
mod schema_file;

use sockeye_output as output;
