//! Sockets as `ss` of iproute2 writes them, byte for byte, in the release that [`SsLevel`] names.
//!
//! Formats and orders are those of `misc/ss.c` and of its actual output; the tests of the binary compare
//! with it.

mod column_buffer;
mod inet;
mod level;
mod line;
mod others;
mod printf;
mod row;
mod tcp;
mod writer;

pub use level::SsLevel;
pub use row::{SsLayout, SsNames, SsOwners, SsRow, SsThread};
pub use writer::SsWriter;
