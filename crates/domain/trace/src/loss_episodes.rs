//! Loss episodes: losses until everything sent before them is acknowledged.

use crate::event_log::{EventLog, EventNumber};
use crate::{Confidence, EventKind};

/// The loss episodes of one direction.
#[derive(Debug, Default)]
pub(crate) struct LossEpisodes {
    running: Option<Episode>,
    /// The last finished episode, and its event
    ended: Option<(Episode, Option<EventNumber>)>,
    count: u64,
    lost_after_growth: u64,
    /// Episodes with several losses
    bursts: u64,
}

/// A loss episode.
#[derive(Debug, Clone, Copy)]
struct Episode {
    /// When it began: time and frame of the capture, and the segments' clock
    first: (u64, u64),
    first_ns: u64,
    until: u64,
    segs: u32,
    has_grown: bool,
}

impl LossEpisodes {
    /// Counts lost segments; `until`: end of what was sent before.
    pub(crate) fn lose(&mut self, now_ns: u64, segs: u32, has_grown: bool, until: u64, now: (u64, u64)) {
        self.count += u64::from(self.running.is_none());
        let episode = self.running.get_or_insert(Episode {
            first: now,
            first_ns: now_ns,
            until,
            segs: 0,
            has_grown,
        });
        episode.segs = episode.segs.saturating_add(segs);
        if episode.has_grown {
            self.lost_after_growth += u64::from(segs);
        }
    }

    /// Whether a loss now belongs to a running episode.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Ends the running episode if everything sent before its end is acknowledged.
    pub(crate) fn acknowledged(&mut self, acked: u64, history: &mut EventLog) {
        if self.running.is_some_and(|episode| acked >= episode.until) {
            self.end(history, true);
        }
    }

    /// Ends the running episode; `of_peer`: the current segment is of the other side.
    pub(crate) fn end(&mut self, history: &mut EventLog, of_peer: bool) {
        let Some(episode) = self.running.take() else {
            return;
        };
        let event = episode.burst().and_then(|kind| {
            self.bursts += 1;
            history.push_at(episode.first, of_peer, kind, BURST)
        });
        self.ended = Some((episode, event));
    }

    /// Removes segments that were taken as lost at this time.
    pub(crate) fn remove(&mut self, time_ns: u64, segs: u32, history: &mut EventLog) {
        let running = self.running.as_mut();
        if let Some(episode) = running.filter(|episode| episode.first_ns <= time_ns) {
            episode.segs = episode.segs.saturating_sub(segs);
        } else if let Some((episode, event)) = &mut self.ended {
            let was_burst = episode.burst().is_some();
            episode.segs = episode.segs.saturating_sub(segs);
            if let Some(kind) = episode.burst() {
                history.change(*event, kind, Confidence::Likely, BURST);
            } else if was_burst {
                self.bursts -= 1;
                history.remove(*event);
            }
        }
    }

    /// Number of loss episodes.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Number of episodes with several losses.
    pub(crate) fn bursts(&self) -> u64 {
        self.bursts
    }

    /// Segments lost in episodes right after the window had grown.
    pub(crate) fn lost_after_growth(&self) -> u64 {
        self.lost_after_growth
    }
}

impl Episode {
    /// Returns the event of several losses; `None` for a single one.
    fn burst(&self) -> Option<EventKind> {
        let segments = self.segs;
        (segments > 1).then_some(EventKind::LossBurst { segments })
    }
}

/// Evidence of a loss burst.
const BURST: &str = "sent again before any of what was in flight with it was acknowledged";
