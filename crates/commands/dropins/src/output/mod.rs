//! The layouts of ss, netstat and lstf.

mod address;
pub mod lstf;
pub mod netstat;
mod ss;

pub use ss::{SsLayout, SsLevel, SsNames, SsOwners, SsRow, SsThread, SsWriter};
