//! Dropped packets by reason.

use sockeye_drops::classes;
use sockeye_metrics::{HostMetrics, Source};
use sockeye_query::drops::{DropObserver, DropSelection};
use sockeye_query::listing::Listing;

/// Counts dropped packets.
pub(super) struct DropCounter {
    observer: DropObserver,
    selection: DropSelection,
}

impl DropCounter {
    /// Begins to count.
    pub(super) fn begin(listing: &Listing<'_>) -> Result<Self, String> {
        let observer = DropObserver::begin(&listing.context.engine).map_err(|error| error.to_string())?;
        Ok(Self {
            observer,
            selection: DropSelection::of(listing),
        })
    }

    /// Adds what was dropped since the last call, and what of it is not known.
    pub(super) fn add_to(&mut self, metrics: &mut HostMetrics) {
        for victim in self.observer.since_last(&self.selection) {
            let (reason, place) = (victim.event.reason, victim.event.place);
            let class = classes::class(reason.as_deref(), place.as_deref());
            let class = class.map_or("", |class| class.name());
            let key = (reason.unwrap_or_default().into(), class);
            *metrics.drops.entry(key).or_default() += victim.event.count;
        }
        let losses = self.observer.losses();
        let exporter = &mut metrics.exporter;
        exporter.sources.insert(Source::Drops, losses.failure.is_none());
        exporter.losses.insert("evicted_drop_keys", losses.evicted_keys);
        let sampled = exporter.losses.entry("sampled_drop_intervals").or_default();
        *sampled += u64::from(losses.sampled_every > 1);
    }
}
