//! How many answers are computed, and kept in memory while they are sent, at a time.

use crate::http::query::field;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Turns of answers. What may take long has its own: live data never waits for it.
#[derive(Debug)]
pub(super) struct Turns {
    quick: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// How an answer is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// From memory.
    Quick,
    /// By a command, from the store, or after host names were looked up.
    Slow,
}

impl Turns {
    pub(super) fn new() -> Self {
        let of = |count| Arc::new(Semaphore::new(count));
        Self {
            quick: of(QUICK_MAX),
            slow: of(SLOW_MAX),
            large: of(LARGE_MAX),
        }
    }

    /// Waits for the turn to compute an answer; `None`: the server ends.
    pub(super) async fn take(&self, work: Work) -> Option<OwnedSemaphorePermit> {
        let turns = match work {
            Work::Quick => &self.quick,
            Work::Slow => &self.slow,
        };
        Arc::clone(turns).acquire_owned().await.ok()
    }

    /// Waits for the place of a large answer, which it has until it is sent; `None`: the others are still being read.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.large).acquire_owned();
        timeout(PLACE_TIMEOUT, place).await.ok()?.ok()
    }
}

/// Whether an answer may be so large that few of them may be in memory.
pub(super) fn may_be_large(path: &str, query: &str) -> bool {
    path == "/api/sockets" || field(query, "download").is_some()
}

/// Answers that are computed from memory at a time.
const QUICK_MAX: usize = 2;
/// Answers that may take long, at a time.
const SLOW_MAX: usize = 2;
/// Large answers in memory, together with those that are being sent.
const LARGE_MAX: usize = 4;
/// How long one waits for its place.
const PLACE_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downloads_and_connections_may_be_large() {
        assert!(may_be_large("/api/sockets", ""));
        assert!(may_be_large("/api/flows", "at=7&download=csv"));
        assert!(!may_be_large("/api/flows", "limit=200"));
    }
}
