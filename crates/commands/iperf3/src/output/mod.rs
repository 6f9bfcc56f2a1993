//! Text and JSON of tests.

mod document;
mod lines;

pub use document::{document, failed_document};
pub(crate) use lines::{request_line, result_lines, summary};
