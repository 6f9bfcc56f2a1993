//! Resets by reason.

use sockeye_metrics::HostMetrics;
use sockeye_query::listing::Listing;
use sockeye_query::sampling::{Reset, ResetCounter};

/// Counts resets.
pub(super) struct Resets(ResetCounter);

impl Resets {
    /// Begins to count.
    pub(super) fn begin(listing: &Listing<'_>) -> Result<Self, String> {
        ResetCounter::begin(listing).map(Self)
    }

    /// Adds the resets since the last call. Returns how many events were lost.
    pub(super) fn add_to(
        &mut self,
        listing: &Listing<'_>,
        metrics: &mut HostMetrics,
    ) -> std::io::Result<u64> {
        let found = self.0.take(listing)?;
        for (reset, count) in found.counts {
            let key = match reset {
                Reset::Sent(reason) => ("sent", reason.unwrap_or_default().into()),
                Reset::Received => ("received", Box::default()),
            };
            *metrics.resets.entry(key).or_default() += count;
        }
        Ok(found.lost)
    }
}
