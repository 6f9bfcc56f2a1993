//! Result for one TCP connection: `Trace` puts it in its queue, the commands `analyze` and `graph` take it
//! out and print or draw it.

use crate::{Connection, Series};

/// A finished connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Result of its analysis
    pub connection: Connection,
    /// Points of its graph, if selected and not dropped
    pub series: Option<Box<Series>>,
}
