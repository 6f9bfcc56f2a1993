//! Resets of connections between two samples, as the kernel's events report them.

use super::watched::{Watched, watched};
use crate::listing::Listing;
use rustix::io::Errno;
use sockeye_model::{ConnectionEvent, ConnectionEventKind};
use sockeye_tracepoints::ConnectionCollector;
use sockeye_wire::connections::kind;
use std::collections::{BTreeMap, HashMap};

/// Counts the RSTs of connections.
#[derive(Debug)]
pub struct ResetCounter {
    collector: ConnectionCollector,
    is_here: bool,
    /// Names of `enum sk_rst_reason`; empty before Linux 6.11.
    reasons: HashMap<u32, String>,
}

/// A kind of RST.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reset {
    /// It was sent, with the kernel's reason in capitals; `None` if it gives none.
    Sent(Option<String>),
    /// It was received: no RST says why.
    Received,
}

/// RSTs since the last time.
#[derive(Debug, Default)]
pub struct ResetCounts {
    /// How many of each kind.
    pub counts: BTreeMap<Reset, u64>,
    /// Events that were lost.
    pub lost: u64,
}

impl ResetCounter {
    /// Begins to count.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn begin(listing: &Listing<'_>) -> Result<Self, String> {
        let kinds = vec![kind::RESET_SENT, kind::RESET_RECEIVED];
        let Watched { options, is_here } = watched(listing, kinds, false)?;
        let engine = &listing.context.engine;
        let collector = ConnectionCollector::begin(engine, &options).map_err(|error| error.to_string())?;
        let reasons = engine
            .enumerators("sk_rst_reason")
            .unwrap_or_default()
            .into_iter();
        Ok(Self {
            collector,
            is_here,
            reasons: reasons
                .filter_map(|(number, name)| {
                    Some((u32::try_from(number).ok()?, short_name(&name).to_owned()))
                })
                .collect(),
        })
    }

    /// Returns the RSTs since the last call in the namespaces of a listing.
    ///
    /// # Errors
    /// The errno of `bpf(2)` with which counts are read.
    pub fn take(&mut self, listing: &Listing<'_>) -> Result<ResetCounts, Errno> {
        let collected = self.collector.take()?;
        let mut found = ResetCounts {
            lost: collected.lost,
            ..ResetCounts::default()
        };
        for event in collected.records().filter_map(ConnectionEvent::from_wire) {
            if !self.is_here && !listing.selects(&event.socket) {
                continue;
            }
            if let Some(reset) = self.reset(&event) {
                *found.counts.entry(reset).or_default() += 1;
            }
        }
        Ok(found)
    }

    fn reset(&self, event: &ConnectionEvent) -> Option<Reset> {
        match event.kind {
            ConnectionEventKind::ResetSent => {
                let reason = event.reset_reason.and_then(|reason| self.reasons.get(&reason));
                Some(Reset::Sent(reason.cloned()))
            }
            ConnectionEventKind::ResetReceived => Some(Reset::Received),
            _ => None,
        }
    }
}

/// Returns the name of an enumerator without the prefix that all have.
fn short_name(enumerator: &str) -> &str {
    enumerator.strip_prefix("SK_RST_REASON_").unwrap_or(enumerator)
}
