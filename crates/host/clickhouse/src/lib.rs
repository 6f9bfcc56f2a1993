//! A ClickHouse server: statements and rows to it, rows from it, over HTTP.
//!
//! - [`Server`]: where it is, who asks; [`Server::insert`], [`Server::query`], [`Server::execute`]
//! - [`ServerError`]: why there is no answer; [`ServerError::is_refusal`]: whether asking again is of no use
//!
//! It deliberately knows no table. The official crate (`clickhouse` 0.15) is not used:
//! it would add 57 packages to a binary that has an HTTP client, for rows whose bytes `sockeye_fleet` writes from one table of
//! columns, and it compresses with LZ4 only.

mod error;
mod server;

pub use error::ServerError;
pub use server::{ANSWER_BYTES, Server};
