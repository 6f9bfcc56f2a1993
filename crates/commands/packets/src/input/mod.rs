//! The input of `analyze` and `graph`: captures and a filter from the command line, read block by block and analysed
//! on all processors: `pipeline.rs` has the threads.

mod comment_owners;
mod digest;
mod pipeline;
mod read_progress;
mod reader;
mod selection;
mod shard_work;
pub(crate) mod skipped;

pub(crate) use reader::{CaptureItem, CaptureReader};
pub(crate) use selection::Selection;
pub(crate) use shard_work::ReportedSegments;
