//! One sample of flows, as it is kept.

use sockeye_flow::FoldedFlows;
use sockeye_model::{ConnectionTotals, Losses, NetnsInode, Pid};
use sockeye_output::{Coverage, Envelope, Summary};
use sockeye_query::listing::ListingReport;
use sockeye_query::sampling::FlowSample;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// What was seen at one time.
#[derive(Debug)]
pub(crate) struct Moment {
    /// Time and origin, for documents.
    pub(crate) envelope: Envelope,
    /// When it was taken.
    pub(crate) taken: Instant,
    /// Its number, from 1; `None`: it was recorded before.
    pub(crate) sample: Option<u64>,
    /// The flows, sorted by their keys.
    pub(crate) flows: FoldedFlows,
    /// Names of the containers of the owners that are in one.
    pub(crate) containers: HashMap<Pid, Arc<str>>,
    /// Whether owners were found; if not, an empty list means unknown.
    pub(crate) has_owners: bool,
    /// Names that network namespaces had then; `None`: those of now.
    pub(crate) netns_names: Option<HashMap<NetnsInode, String>>,
    totals: Option<ConnectionTotals>,
    losses: Losses,
    sources: Vec<(&'static str, &'static str)>,
    coverage: Option<Coverage>,
}

impl Moment {
    /// Keeps a sample, with what its listing reported.
    pub(crate) fn new(
        sample: FlowSample,
        number: Option<u64>,
        containers: HashMap<Pid, Arc<str>>,
        report: &ListingReport,
    ) -> Self {
        let summary = report.summary(&[]);
        Self {
            envelope: sample.envelope,
            taken: sample.taken,
            sample: number,
            flows: sample.flows,
            containers,
            netns_names: None,
            totals: sample.totals,
            has_owners: report.owners_error.is_none(),
            losses: summary.losses,
            coverage: summary.coverage,
            sources: report.sources(),
        }
    }

    /// Returns it with the names that network namespaces had then.
    pub(crate) fn with_netns_names(self, netns_names: Option<HashMap<NetnsInode, String>>) -> Self {
        Self { netns_names, ..self }
    }

    /// Returns its time, in microseconds since 1970.
    pub(crate) const fn time_us(&self) -> u64 {
        self.envelope.time_us
    }

    /// Returns what ends a document about it. `left_out`: flows that are not in the document.
    pub(crate) fn summary(&self, left_out: usize) -> Summary<'_> {
        Summary {
            losses: self.losses,
            sources: &self.sources,
            coverage: self.coverage,
            rows_left_out: left_out,
            connections: self.totals,
            ..Summary::default()
        }
    }

    /// Returns about how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.flows.len() * FLOW_BYTES
    }
}

/// Bytes of a kept flow: 32 of its own, its key, its sums (72), its rates (88) and the list of its owners.
const FLOW_BYTES: usize = 260;
