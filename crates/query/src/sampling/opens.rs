//! Connections that were opened, failed and were reset between two samples, by the counters of the network
//! namespaces: these also count connections that are too short for any sample.

use super::between::EndedCounts;
use crate::listing::Listing;
use sockeye_model::{ConnectionTotals, Counter, Counters};
use sockeye_source::vitals;
use std::io::ErrorKind;
use std::time::Duration;

/// The counters of each listed namespace, in the order of the selection; `None` for one that is gone.
#[derive(Debug)]
pub(super) struct Opens(Vec<Option<Counted>>);

/// The counters of one namespace, or sums of them.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    active: u64,
    passive: u64,
    fails: u64,
    resets: u64,
}

impl Opens {
    /// Reads the counters of the namespaces that are listed. Returns `None` if those of one may not be read.
    pub(super) fn read(listing: &Listing<'_>) -> Option<Self> {
        let selection = &listing.context.namespaces;
        let all = selection.iter().map(|netns| {
            let Some(netns) = netns else {
                return Counted::of(&vitals::counters()).map(Some);
            };
            match selection.open(netns, |place| sockeye_source::within(place, vitals::counters)) {
                Ok(Ok(counters)) => Counted::of(&counters).map(Some),
                Ok(Err(_)) => None,
                Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
                // It ended, maybe while it was opened.
                Err(_) => Some(None),
            }
        });
        all.collect::<Option<_>>().map(Self)
    }

    /// Returns the sums of what the namespaces have counted since `before`. One that is gone has counted nothing that could be read.
    fn difference(&self, before: &Self) -> Counted {
        let pairs = self.0.iter().zip(&before.0);
        let known = pairs.filter_map(|(now, before)| Some((now.as_ref()?, before.as_ref()?)));
        known.fold(Counted::default(), |sum, (now, before)| Counted {
            active: sum.active + now.active.saturating_sub(before.active),
            passive: sum.passive + now.passive.saturating_sub(before.passive),
            fails: sum.fails + now.fails.saturating_sub(before.fails),
            resets: sum.resets + now.resets.saturating_sub(before.resets),
        })
    }

    /// Returns what was counted since `before`, both read after their sample: each connection is counted in one interval. `begun` was read
    /// before the later sample. `seen`: connections that only that one has, or an event. `ended`: what events counted, if there are any.
    pub(super) fn since(
        &self,
        begun: &Self,
        before: &Self,
        seen: u64,
        ended: Option<EndedCounts>,
        interval: Duration,
    ) -> ConnectionTotals {
        let Counted {
            active,
            passive,
            fails,
            resets,
        } = self.difference(before);
        // What opens while the sample is read can be in it or not.
        let until = begun.difference(before);
        let opened = until.active.saturating_add(until.passive);
        let opened = opened.saturating_sub(until.fails);
        ConnectionTotals {
            active_opens: active,
            passive_opens: passive,
            attempt_fails: fails,
            resets,
            // The counters have also connections that are not established yet: events are right, if none was lost.
            unseen: match ended {
                Some(EndedCounts {
                    lost: 0, undecided, ..
                }) => undecided,
                _ => opened.saturating_sub(seen),
            },
            short: ended.map(|ended| ended.short),
            lost_events: ended.map(|ended| ended.lost),
            interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl Counted {
    /// Returns the counters of a namespace; `None` if the kernel does not have them.
    fn of(counters: &Counters) -> Option<Self> {
        Some(Self {
            active: counters.value(Counter::TcpActiveOpens)?,
            passive: counters.value(Counter::TcpPassiveOpens)?,
            fails: counters.value(Counter::TcpAttemptFails)?,
            resets: counters.value(Counter::TcpEstabResets)?,
        })
    }
}
