//! Connections that were opened, failed and were reset between two samples of `flows --watch`, by the counters of the
//! network namespaces: these also count connections that are too short for any sample.

use sockeye_model::{ConnectionTotals, Counter, Counters, counted};
use sockeye_query::listing::Listing;
use sockeye_source::vitals;
use std::time::Duration;

/// Sums of the counters of all listed namespaces; `None` if a counter of one could not be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opens {
    active: u64,
    passive: u64,
    fails: u64,
    resets: u64,
}

impl Opens {
    /// Reads the counters of the namespaces that are listed.
    pub(super) fn read(listing: &Listing<'_>) -> Option<Self> {
        let selection = &listing.context.namespaces;
        let mut sum = Self {
            active: 0,
            passive: 0,
            fails: 0,
            resets: 0,
        };
        for netns in selection.iter() {
            let counters = match netns {
                None => vitals::counters(),
                Some(netns) => selection
                    .open(netns, |place| sockeye_source::within(place, vitals::counters))
                    .ok()?
                    .ok()?,
            };
            sum.add(&counters)?;
        }
        Some(sum)
    }

    fn add(&mut self, counters: &Counters) -> Option<()> {
        for (sum, counter) in [
            (&mut self.active, Counter::TcpActiveOpens),
            (&mut self.passive, Counter::TcpPassiveOpens),
            (&mut self.fails, Counter::TcpAttemptFails),
            (&mut self.resets, Counter::TcpEstabResets),
        ] {
            *sum += counters.value(counter)?;
        }
        Some(())
    }

    /// Returns what was counted since `before`. `seen`: connections that only the later sample has.
    pub(super) fn since(&self, before: &Self, seen: u64, interval: Duration) -> ConnectionTotals {
        let (active, passive) = (
            self.active.saturating_sub(before.active),
            self.passive.saturating_sub(before.passive),
        );
        let fails = self.fails.saturating_sub(before.fails);
        let opened = active.saturating_add(passive).saturating_sub(fails);
        ConnectionTotals {
            active_opens: active,
            passive_opens: passive,
            attempt_fails: fails,
            resets: self.resets.saturating_sub(before.resets),
            unseen: opened.saturating_sub(seen),
            interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// The totals as a line: `254 connections opened (127 active, 127 passive), ...`. With a filter they are still those of all
/// connections: the counters have no addresses.
pub(super) fn line(totals: &ConnectionTotals, is_filtered: bool) -> String {
    let opened = totals.active_opens + totals.passive_opens;
    let mut line = format!(
        "{} opened ({} active, {} passive), {} failed, {} reset in {:.1}s",
        counted(opened, "connection"),
        totals.active_opens,
        totals.passive_opens,
        totals.attempt_fails,
        totals.resets,
        totals.interval_ms as f64 / 1000.0
    );
    if is_filtered {
        line += ", with and without a match of the filter";
    }
    if totals.unseen > 0 {
        line += &format!(
            "; {} too short to be seen: Opened/s and Closed/s of the flows are unknown, the other rates at least those shown",
            totals.unseen
        );
    }
    line.push('\n');
    line
}
