//! Sockets as `ss` of iproute2 6.1 writes them, byte for byte.
//!
//! Formats and orders are those of `misc/ss.c` (iproute2 6.1.0) and of its actual output; the tests of the binary compare
//! with it.

mod column_buffer;
mod inet;
mod line;
mod others;
mod printf;
mod row;
mod tcp;
mod writer;

pub use row::{SsLayout, SsNames, SsOwners, SsRow, SsThread};
pub use writer::SsWriter;
