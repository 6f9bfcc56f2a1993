//! The layouts of ss, netstat and lstf.

pub mod lstf;
pub mod netstat;
mod ss;

pub use ss::{SsHolders, SsLayout, SsNames, SsRow, SsThread, SsWriter};
