//! Whole documents of each writer.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the crate is pure, its tests are not"
)]
#![allow(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod fixtures;
mod flows;
mod flows_schema;
mod reports;
mod schema;
mod schema_check;
mod schema_file;
mod sockets;

use crate as output;
