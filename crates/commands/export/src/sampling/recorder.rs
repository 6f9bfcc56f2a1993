//! The health of the recorder on this host, as its store shows it.

use sockeye_metrics::{HostMetrics, RecorderHealth, Source};
use sockeye_query::past;
use sockeye_store::{StoreError, StoreReader, Toward};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The store of the recorder.
#[derive(Debug)]
pub(super) struct RecorderWatch {
    /// That of an option; `None`: that of the host, or of the user.
    named: Option<PathBuf>,
    due: Instant,
}

impl RecorderWatch {
    pub(super) fn new(named: Option<&Path>) -> Self {
        Self {
            named: named.map(Path::to_owned),
            due: Instant::now(),
        }
    }

    /// Looks at it, now and then. Without a store nothing is known; one that cannot be read is a source that is missing.
    pub(super) fn add_to(&mut self, metrics: &mut HostMetrics, now_ms: u64) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + INTERVAL;
        let exporter = &mut metrics.exporter;
        let store = past::readable_store(self.named.as_deref()).ok();
        let store = store.filter(|path| self.named.is_some() || path.exists());
        let Some(store) = store else {
            exporter.recorder = None;
            exporter.sources.remove(&Source::Recorder);
            return;
        };
        exporter.recorder = health(&store, now_ms).ok();
        exporter
            .sources
            .insert(Source::Recorder, exporter.recorder.is_some());
    }
}

fn health(path: &Path, now_ms: u64) -> Result<RecorderHealth, StoreError> {
    let store = StoreReader::open(path)?;
    // A clock that was set back may have left later ones.
    let last_sample_ms = store.next_sample(now_ms.saturating_add(DAY_MS), Toward::Past)?;
    let since_ms = now_ms.saturating_sub(DAY_MS);
    let gaps = store.gaps_within((since_ms, now_ms))?;
    let lasted = |from_ms: u64, to_ms: u64| to_ms.min(now_ms).saturating_sub(from_ms.max(since_ms));
    Ok(RecorderHealth {
        last_sample_ms,
        gaps_ms: gaps.iter().map(|gap| lasted(gap.from_ms, gap.to_ms)).sum(),
        bytes: std::fs::metadata(path).map_or(0, |file| file.len()),
    })
}

const DAY_MS: u64 = 86_400_000;
/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(30);
