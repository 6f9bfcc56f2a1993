//! Later evidence that changes a diagnosis: SACK, DSACK, and originals that arrive after their retransmission.

use super::LossTracker;
use super::resent::{Diagnosis, Resent};
use crate::duplicates::DuplicateOrigin;
use crate::event_log::EventLog;
use crate::{Confidence, EventKind};

use super::Retransmission;

impl LossTracker {
    /// A gap between SACKed ranges is acknowledged without a retransmission: the segment was only late.
    pub(super) fn note_reordering(&mut self, from: u64, acked: u64, history: &mut EventLog) {
        if let Some(start) = self.sacked.first_start()
            && from < start
            && start <= acked
        {
            let was_repeated = self.resent.iter().any(|resent| resent.overlaps(from, start));
            let was_captured = self.gap_within(from, start).is_none();
            let is_remembered = from >= self.forgotten;
            if !was_repeated && was_captured && is_remembered && from > 0 {
                self.judgements.reordered += 1;
                let evidence = "SACKed around, then acknowledged without being sent again";
                history.push_of_peer(EventKind::Reordered, Confidence::Proven, evidence);
            }
        }
        self.sacked.remove_up_to(acked);
    }

    /// The first transmission arrives after its retransmission; returns whether it is that.
    pub(super) fn is_late_original(&mut self, first: &Retransmission<'_>, history: &mut EventLog) -> bool {
        let copy = self
            .resent
            .iter_mut()
            .find(|resent| resent.is_filling && resent.start <= first.start && first.end <= resent.end);
        let Some(copy) = copy else {
            // Or another retransmission that was late itself.
            let was_sent_again = self.resent.iter().any(|resent| {
                resent.overlaps(first.start, first.end)
                    && matches!(resent.diagnosis, Diagnosis::Spurious | Diagnosis::Late)
            });
            if was_sent_again {
                self.judgements.reordered += u64::from(first.segs);
                history.push(EventKind::Reordered, Confidence::Proven, OLDER);
            }
            return was_sent_again;
        };
        copy.is_filling = false;
        let was_blamed = copy.diagnosis != Diagnosis::Spurious;
        copy.diagnosis = Diagnosis::Spurious;
        let copy = *copy;
        self.judgements.reordered += u64::from(first.segs);
        history.push(EventKind::Reordered, Confidence::Proven, OLDER);
        if was_blamed {
            self.revise_as_late(&copy, history);
            self.judgements.lost_before = self.judgements.lost_before.saturating_sub(copy.segs.into());
            self.judgements.spurious += u64::from(copy.segs);
            let evidence = "the first copy came after it";
            history.change(copy.event, EventKind::Spurious, Confidence::Proven, evidence);
        }
        true
    }

    /// Later segments arrived before the first copy did. However often it was retransmitted, it counts as
    /// late once.
    pub(super) fn was_late(&mut self, late: &Resent, evidence: &'static str, history: &mut EventLog) {
        let segs = u64::from(late.segs);
        self.only_late += segs;
        let mut was_counted = false;
        for resent in &mut self.resent {
            if resent.overlaps(late.start, late.end) {
                was_counted |= std::mem::replace(&mut resent.is_counted_late, true);
            }
        }
        if !was_counted {
            self.judgements.reordered += segs;
            history.push_of_peer(EventKind::Reordered, Confidence::Proven, evidence);
        }
    }

    pub(super) fn arrived_twice(&mut self, start: u64, end: u64, history: &mut EventLog) {
        let overlaps = |resent: &Resent| resent.overlaps(start, end) && resent.diagnosis != Diagnosis::Late;
        // Keep-alives and window probes are repeated on purpose.
        if end - start <= 1
            && !self
                .resent
                .iter()
                .any(|resent| overlaps(resent) && resent.end - resent.start == 1)
        {
            return;
        }
        let evidence = "the receiver reported a duplicate (DSACK)";
        let blamed =
            |resent: &Resent| !matches!(resent.diagnosis, Diagnosis::Spurious | Diagnosis::Duplicated(_));
        let place = (self
            .resent
            .iter()
            .position(|resent| overlaps(resent) && blamed(resent)))
        .or_else(|| self.resent.iter().position(overlaps));
        let Some(resent) = place.map(|place| &mut self.resent[place]) else {
            self.judgements.duplicated_by_network += 1;
            let evidence = "got twice (DSACK), but sent once";
            history.push_of_peer(EventKind::DuplicatedByNetwork, Confidence::Proven, evidence);
            return;
        };
        match resent.diagnosis {
            Diagnosis::Spurious | Diagnosis::Late => {}
            Diagnosis::Duplicated(origin) => {
                if origin == DuplicateOrigin::Either {
                    self.undecided_duplicates = self.undecided_duplicates.saturating_sub(1);
                }
                if origin != DuplicateOrigin::Network {
                    self.judgements.duplicated_by_capture =
                        self.judgements.duplicated_by_capture.saturating_sub(1);
                    self.judgements.duplicated_by_network += 1;
                }
                resent.diagnosis = Diagnosis::Duplicated(DuplicateOrigin::Network);
                history.change(
                    resent.event,
                    EventKind::DuplicatedByNetwork,
                    Confidence::Proven,
                    evidence,
                );
            }
            Diagnosis::Unclear => {
                resent.diagnosis = Diagnosis::Spurious;
                let resent = *resent;
                let segs = u64::from(resent.segs);
                self.judgements.unclear = self.judgements.unclear.saturating_sub(segs);
                self.judgements.spurious += segs;
                history.change(resent.event, EventKind::Spurious, Confidence::Proven, evidence);
            }
            // The skipped range never arrived separately: this copy was duplicated.
            Diagnosis::Lost | Diagnosis::LostFirst | Diagnosis::Decided if resent.is_filling => {
                // Unless it is known which packet was the needless one.
                let is_known = self.resent.iter().any(|resent| {
                    overlaps(resent)
                        && matches!(resent.diagnosis, Diagnosis::Duplicated(_) | Diagnosis::Spurious)
                });
                if !is_known {
                    self.judgements.duplicated_by_network += 1;
                    history.push_of_peer(EventKind::DuplicatedByNetwork, Confidence::Proven, evidence);
                }
            }
            Diagnosis::Lost | Diagnosis::LostFirst | Diagnosis::Decided => {
                resent.diagnosis = Diagnosis::Spurious;
                let resent = *resent;
                self.revise_as_late(&resent, history);
                self.judgements.spurious += u64::from(resent.segs);
                history.change(resent.event, EventKind::Spurious, Confidence::Proven, evidence);
                if resent.is_proven {
                    let evidence = "SACKed around and sent again, then got twice (DSACK)";
                    self.was_late(&resent, evidence, history);
                } else {
                    self.mark_others_unclear(history);
                }
            }
        }
    }

    /// A needless copy shows that acknowledgements are lost: for other retransmissions without further
    /// evidence it becomes unclear what was lost.
    fn mark_others_unclear(&mut self, history: &mut EventLog) {
        for place in 0..self.resent.len() {
            let resent = self.resent[place];
            if resent.is_lost() && !resent.is_proven {
                self.resent[place].diagnosis = Diagnosis::Unclear;
                self.revise_as_late(&resent, history);
                self.judgements.unclear += u64::from(resent.segs);
                history.change(resent.event, EventKind::Unclear, Confidence::Likely, UNCLEAR);
            }
        }
    }

    /// A segment that was taken as lost was not.
    pub(super) fn revise_as_late(&mut self, resent: &Resent, history: &mut EventLog) {
        self.judgements.lost = self.judgements.lost.saturating_sub(resent.segs.into());
        self.episodes.remove(resent.time_ns, resent.segs, history);
    }
}

/// Evidence of packets that arrived after their retransmission.
const OLDER: &str = "its IP identification and timestamp are older than of its copy that came before it";

/// Evidence of unclear cases.
const UNCLEAR: &str = "sent again without an answer; another one was sent again without need";
