//! Hands the sockets of a sample to the metrics.

use sockeye_metrics::HostSample;
use sockeye_model::{Direction, Entry};
use sockeye_output::text::harmless;
use sockeye_query::sampling::SampleVisitor;

/// A sample that is being filled.
pub(super) struct Visitor<'a>(pub(super) HostSample<'a>);

impl SampleVisitor for Visitor<'_> {
    fn listener(&mut self, entry: &Entry<'_>) {
        let owner = entry.owners.and_then(|owners| owners.first());
        let name = owner.map(|owner| harmless(owner.process.comm.as_bytes()));
        self.0
            .listener(entry.socket, name.as_deref().filter(|name| !name.is_empty()));
    }

    fn connection(&mut self, entry: &Entry<'_>, direction: Direction) {
        self.0.connection(entry.socket, direction);
    }

    fn request(&mut self, entry: &Entry<'_>) {
        self.0.request(entry.socket);
    }
}
