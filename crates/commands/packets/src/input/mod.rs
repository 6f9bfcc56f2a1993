//! The input of `analyze` and `graph`: captures and a filter from the command line, read packet by packet.

mod comment_owners;
mod reader;
mod selection;
pub(crate) mod skipped;

pub(crate) use reader::{CaptureItem, CaptureReader};
pub(crate) use selection::Selection;
