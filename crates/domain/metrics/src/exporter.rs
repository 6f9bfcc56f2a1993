//! What the exporter says of itself.

use sockeye_model::Losses;
use std::collections::BTreeMap;
use std::time::Duration;

/// What metrics are made of, and what may be missing here: a kernel may lack it, or rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Owners of sockets, which name services.
    Owners,
    /// Connections that open and close between two samples.
    ShortConnections,
    /// Resets.
    Resets,
    /// Dropped packets.
    Drops,
    /// Findings.
    Findings,
    /// The store of `sockeye record`; only where there is one.
    Recorder,
}

impl Source {
    /// Returns its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owners => "owners",
            Self::ShortConnections => "short_connections",
            Self::Resets => "resets",
            Self::Drops => "drops",
            Self::Findings => "findings",
            Self::Recorder => "recorder",
        }
    }
}

/// The health of `sockeye record`, as its store shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecorderHealth {
    /// Time of its last sample, in milliseconds since 1970; `None`: there is none.
    pub last_sample_ms: Option<u64>,
    /// Time without samples, of the last 24 hours, in milliseconds.
    pub gaps_ms: u64,
    /// Bytes of the store.
    pub bytes: u64,
}

/// The health of the exporter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExporterHealth {
    /// Version of the program.
    pub version: &'static str,
    /// Samples that were taken.
    pub samples: u64,
    /// Samples that failed.
    pub failed_samples: u64,
    /// Duration of the last sample; `None` without one.
    pub duration: Option<Duration>,
    /// When it was taken, in seconds since 1970; `None` without one.
    pub sampled_at_s: Option<f64>,
    /// The recorder on this host; `None`: there is none, or its store cannot be read.
    pub recorder: Option<RecorderHealth>,
    /// What was lost, by kind.
    pub losses: BTreeMap<&'static str, u64>,
    /// Whether each source works.
    pub sources: BTreeMap<Source, bool>,
}

impl ExporterHealth {
    /// Adds what a sample lost, and events that were lost before it.
    pub fn add_losses(&mut self, losses: &Losses, lost_events: u64, unseen_connections: u64) {
        let more = [
            ("events", lost_events),
            ("unseen_connections", unseen_connections),
        ];
        for (kind, count) in losses.counters().into_iter().chain(more) {
            *self.losses.entry(kind).or_default() += count;
        }
    }
}
