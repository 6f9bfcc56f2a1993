//! Where samples go: the screen, or a script.

use super::rows::Rows;
use crate::state::sample::Details;
use sockeye_model::ConnectionTotals;
use sockeye_output::listing::{Column, Record};
use sockeye_query::listing::ListingReport;
use std::io;

/// What a sample has beyond its rows.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Opens and closes of all connections; `None` if unknown.
    pub(crate) connections: Option<ConnectionTotals>,
    /// Other sums, in words.
    pub(crate) text: String,
    /// The connection that is watched.
    pub(crate) details: Option<Box<Details>>,
}

/// Where the rows of a sample go, whatever they are.
pub(crate) trait Sink {
    type Rows<R: Record>: Rows<R>;

    /// Whether columns are there whose values are not known here, as a script expects of a file.
    fn has_all_columns(&self) -> bool {
        false
    }

    /// Begins a sample with these columns.
    fn begin<R: Record>(&mut self, columns: Vec<&'static Column<R>>) -> io::Result<Self::Rows<R>>;

    /// Ends it.
    fn end<R: Record>(
        &mut self,
        rows: Self::Rows<R>,
        totals: Totals,
        report: &ListingReport,
    ) -> io::Result<()>;
}
