//! Our own diagnosis of segments that are repeated, late or missing, in addition to tshark's flags.
//!
//! A retransmitted segment is first taken as lost; later reports of the receiver (DSACK, timestamps) may
//! change that. RFC 2883 (DSACK), RFC 3522 (Eifel), RFC 6675 (SACK).

mod resent;
mod revision;

use crate::duplicates::{DuplicateOrigin, NEAR_IDS};
use crate::event_log::{EventLog, EventNumber};
use crate::loss_episodes::LossEpisodes;
use crate::sacked_ranges::SackedRanges;
use crate::unacked::Transmission;
use crate::{Confidence, EventKind, Judgements};
use resent::{Diagnosis, Resent};
use sockeye_wire::packet::Segment;
use std::collections::VecDeque;

/// Loss state of one direction.
#[derive(Debug, Default)]
pub(crate) struct LossTracker {
    sacked: SackedRanges,
    /// In the order of their numbers
    gaps: VecDeque<Gap>,
    resent: Vec<Resent>,
    next_resent: u16,
    /// Highest end of the ranges that did not fit
    forgotten: u64,
    pub(crate) episodes: LossEpisodes,
    judgements: Judgements,
    /// Number of duplicates that may be made by the capture or the network
    undecided_duplicates: u64,
    /// Of these, packets that take sequence space
    undecided_with_data: u64,
    /// Losses without a captured retransmission, and when
    presumed: (u64, u64),
    /// Event of the last gap that was acknowledged
    last_missing: Option<EventNumber>,
    /// Segments that looked lost but were only late
    only_late: u64,
}

/// A range of skipped sequence numbers.
#[derive(Debug, Clone, Copy)]
struct Gap {
    start: u64,
    end: u64,
    /// Time and frame of the segment that skipped it
    time_ns: u64,
    when: (u64, u64),
    clock: Option<u32>,
    ip_id: Option<u16>,
    /// It has captured segments in between: it is several gaps, which did not fit
    is_coarse: bool,
}

/// A segment that repeats sequence numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retransmission<'a> {
    pub(crate) now_ns: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) segs: u32,
    pub(crate) segment: &'a Segment,
    /// Highest acknowledgement before it
    pub(crate) acked: u64,
    /// First captured transmission that is not acknowledged yet
    pub(crate) original: Option<Transmission>,
    pub(crate) round_trip_ns: u64,
    /// Its IP identification and timestamp are older than those of earlier segments
    pub(crate) is_old: bool,
}

impl LossTracker {
    /// The packet with this range was captured twice.
    pub(crate) fn note_duplicate(
        &mut self,
        now_ns: u64,
        origin: DuplicateOrigin,
        range: (u64, u64),
        history: &mut EventLog,
    ) {
        let (count, kind, evidence) = match origin {
            DuplicateOrigin::Capture | DuplicateOrigin::Either => (
                &mut self.judgements.duplicated_by_capture,
                EventKind::DuplicatedByCapture,
                if origin == DuplicateOrigin::Either {
                    self.undecided_duplicates += 1;
                    self.undecided_with_data += u64::from(range.0 < range.1);
                    DUPLICATE_AT_ONCE
                } else {
                    "all the same but for the hops left, within 100 us"
                },
            ),
            DuplicateOrigin::Network => (
                &mut self.judgements.duplicated_by_network,
                EventKind::DuplicatedByNetwork,
                "all the same, also the IP identification",
            ),
        };
        *count += 1;
        let event = history.push(kind, Confidence::Likely, evidence);
        if range.0 < range.1 {
            self.remember(Resent::new(
                range,
                now_ns,
                1,
                event,
                Diagnosis::Duplicated(origin),
            ));
        }
    }

    /// Records a segment that skips sequence numbers before it.
    pub(crate) fn skips(&mut self, now_ns: u64, range: (u64, u64), segment: &Segment, when: (u64, u64)) {
        if self.gaps.len() < GAPS_MAX {
            let clock = segment.options.timestamps.map(|stamps| stamps.value);
            self.gaps.push_back(Gap {
                start: range.0,
                end: range.1,
                time_ns: now_ns,
                when,
                clock,
                ip_id: segment.ip_id,
                is_coarse: false,
            });
        } else if let Some(last) = self.gaps.back_mut() {
            // What fills it was lost before the capture all the same.
            (last.end, last.is_coarse) = (range.1, true);
            self.judgements.left_out += 1;
        }
    }

    /// Records segments lost before the capture point.
    pub(crate) fn lost_before(&mut self, now_ns: u64, segs: u64, history: &mut EventLog) {
        self.judgements.lost += segs;
        self.judgements.lost_before += segs;
        self.presumed = (segs, now_ns);
        let evidence = "IP identifications missing after a silence";
        let event = history.push(EventKind::Lost, Confidence::Likely, evidence);
        history.count(event, u32::try_from(segs).unwrap_or(u32::MAX));
    }

    /// Records a segment that repeats sequence numbers; returns whether they had been lost.
    pub(crate) fn sent_again(&mut self, resent: &Retransmission<'_>, history: &mut EventLog) -> bool {
        if let Some(place) = self.gap_within(resent.start, resent.end) {
            return self.fill(place, resent, history);
        }
        if resent.is_old && self.is_late_original(resent, history) {
            return false;
        }
        if resent.is_old {
            self.note_duplicate(
                resent.now_ns,
                DuplicateOrigin::Network,
                (resent.start, resent.end),
                history,
            );
            return false;
        }
        let stamps = resent.segment.options.timestamps;
        let original_clock = resent.original.map(|original| original.clock);
        let clocks = stamps
            .map(|stamps| stamps.value)
            .zip(original_clock)
            .filter(|(new, old)| new != old);
        let spurious = if resent.end <= resent.acked {
            Some("acknowledged before it was sent again")
        } else if self.sacked.covers(resent.start, resent.end) {
            Some("SACKed before it was sent again")
        } else {
            None
        };
        let is_beyond = self.sacked.extend_beyond(resent.end);
        // After the FIN that ends the connection, the peer may not be able to report a duplicate.
        let is_fin_only = resent.segment.payload_len == 0;
        let segs = u64::from(resent.segs);
        let (diagnosis, event) = if let Some(evidence) = spurious {
            self.judgements.spurious += segs;
            (
                Diagnosis::Spurious,
                history.push(EventKind::Spurious, Confidence::Proven, evidence),
            )
        } else if is_fin_only {
            self.judgements.unclear += segs;
            (
                Diagnosis::Unclear,
                history.push(EventKind::Unclear, Confidence::Likely, UNCLEAR_END),
            )
        } else {
            self.judgements.lost += segs;
            let (confidence, evidence) = if is_beyond {
                (Confidence::Proven, SENT_AGAIN_BEYOND)
            } else {
                (Confidence::Likely, SENT_AGAIN)
            };
            let diagnosis = if resent.start <= resent.acked {
                Diagnosis::LostFirst
            } else {
                Diagnosis::Lost
            };
            (diagnosis, history.push(EventKind::Lost, confidence, evidence))
        };
        history.count(event, resent.segs);
        self.remember(Resent {
            clocks,
            is_proven: is_beyond,
            ..resent.recorded(event, diagnosis)
        });
        matches!(diagnosis, Diagnosis::Lost | Diagnosis::LostFirst)
    }

    /// Processes an acknowledgement from `before` up to `acked`.
    pub(crate) fn acknowledged(
        &mut self,
        now_ns: u64,
        before: u64,
        acked: u64,
        echo: Option<u32>,
        round_trip_ns: u64,
        history: &mut EventLog,
    ) {
        self.note_reordering(before, acked, history);
        while let Some(gap) = self.gaps.pop_front_if(|gap| gap.start < acked) {
            if gap.is_coarse {
                continue;
            }
            self.judgements.missing_in_capture += 1;
            let evidence = "acknowledged, but never captured";
            self.last_missing = history.push_of_peer_at(
                gap.when,
                EventKind::MissingInCapture,
                Confidence::Proven,
                evidence,
            );
        }
        for place in 0..self.resent.len() {
            let resent = self.resent[place];
            if resent.end > acked || !matches!(resent.diagnosis, Diagnosis::Lost | Diagnosis::LostFirst) {
                continue;
            }
            // If the acknowledgement is too early for the retransmission, its timestamp shows the first copy.
            let is_of_first = match (resent.clocks, echo) {
                (Some((new, old)), Some(echo)) => {
                    (echo.wrapping_sub(new) as i32) < 0 && (echo.wrapping_sub(old) as i32) >= 0
                }
                _ => false,
            };
            if resent.diagnosis == Diagnosis::LostFirst && is_of_first {
                self.resent[place].diagnosis = Diagnosis::Spurious;
                self.revise_as_late(&resent, history);
                self.judgements.spurious += u64::from(resent.segs);
                let evidence = "the timestamp echoed is that of the first copy";
                history.change(resent.event, EventKind::Spurious, Confidence::Proven, evidence);
                if resent.is_proven {
                    let evidence = "SACKed around and sent again, but the first copy came";
                    self.was_late(&resent, evidence, history);
                }
            } else {
                self.resent[place].diagnosis = Diagnosis::Decided;
            }
        }
        if !self.resent.is_empty() {
            let wait_ns = round_trip_ns.saturating_mul(4).max(DSACK_WAIT_NS);
            self.resent.retain_mut(|resent| {
                if resent.end > acked {
                    return true;
                }
                // After a jump of the delay, the copies and their reports take as long as the first transmission.
                let took_ns = now_ns.saturating_sub(resent.first_ns);
                let until_ns = *resent
                    .until_ns
                    .get_or_insert_with(|| now_ns.saturating_add(wait_ns.max(took_ns)));
                now_ns <= until_ns
            });
        }
        self.episodes.acknowledged(acked, history);
    }

    /// Processes SACK blocks; the first may be a DSACK.
    pub(crate) fn selectively(
        &mut self,
        blocks: impl Iterator<Item = (u64, u64)> + Clone,
        acked: u64,
        history: &mut EventLog,
    ) {
        let second = blocks.clone().nth(1);
        for (number, (start, end)) in blocks.enumerate() {
            if end <= start || end - start > ABSURD_BLOCK {
                continue;
            }
            let is_within = second.is_some_and(|second| second.0 <= start && end <= second.1);
            if number == 0 && (end <= acked || is_within) {
                self.arrived_twice(start, end, history);
            } else if end > acked && !self.sacked.add(start.max(acked), end) {
                self.judgements.left_out += 1;
            }
        }
    }

    /// A segment that the capture has behind later ones: nothing about the path.
    pub(crate) fn misplaced(&mut self, start: u64, end: u64, history: &mut EventLog) {
        if let Some(place) = self.gap_within(start, end) {
            self.narrow(place, start, end);
        } else if self.judgements.missing_in_capture > 0 {
            // Its acknowledgement came first.
            self.judgements.missing_in_capture -= 1;
            history.remove(self.last_missing.take());
        }
    }

    /// Records an acknowledgement of data that was never captured.
    pub(crate) fn note_missing_in_capture(&mut self, history: &mut EventLog) {
        self.judgements.missing_in_capture += 1;
        let evidence = "acknowledged, but never captured";
        self.last_missing = history.push_of_peer(EventKind::MissingInCapture, Confidence::Proven, evidence);
    }

    /// Ends the analysis; `packets`: total of the direction, and `data_packets` of these that take sequence space.
    pub(crate) fn finish(&mut self, packets: u64, data_packets: u64, history: &mut EventLog) {
        self.episodes.end(history, false);
        // Not every DSACK is sent, and not every one arrives.
        if self.judgements.lost > 0 && ONLY_LATE_EVERY * self.judgements.lost <= self.only_late {
            self.judgements.unclear += std::mem::take(&mut self.judgements.lost);
            self.judgements.lost_before = 0;
            for evidence in [SENT_AGAIN_BEYOND, SENT_AGAIN] {
                history.change_all((EventKind::Lost, EventKind::Unclear), evidence, UNCLEAR_LATE);
            }
        }
        // Of acknowledgements only adjacent duplicates are found.
        let has_all_data = self.undecided_with_data >= DUPLICATED_DATA_MIN
            && DUPLICATES_EVERY * self.undecided_with_data >= data_packets;
        let are_few = DUPLICATES_EVERY * self.undecided_duplicates < packets && !has_all_data;
        if self.undecided_duplicates > 0 && are_few {
            self.judgements.duplicated_by_capture -= self
                .undecided_duplicates
                .min(self.judgements.duplicated_by_capture);
            self.judgements.duplicated_by_network += self.undecided_duplicates;
            let kinds = (EventKind::DuplicatedByCapture, EventKind::DuplicatedByNetwork);
            history.change_all(
                kinds,
                DUPLICATE_AT_ONCE,
                "all the same within 100 us, which few others are",
            );
        }
    }

    pub(crate) fn judgements(&self) -> Judgements {
        Judgements {
            loss_bursts: self.episodes.bursts(),
            ..self.judgements
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.sacked.heap_bytes()
            + self.gaps.capacity() * size_of::<Gap>()
            + self.resent.capacity() * size_of::<Resent>()
    }

    /// The first gap with any of these numbers.
    fn gap_within(&self, start: u64, end: u64) -> Option<usize> {
        let place = self.gaps.partition_point(|gap| gap.end <= start);
        self.gaps.get(place).filter(|gap| gap.start < end).map(|_| place)
    }

    /// Takes these numbers out of a gap; returns the gap as it was.
    fn narrow(&mut self, place: usize, from: u64, until: u64) -> Gap {
        let gap = self.gaps[place];
        self.gaps.remove(place);
        for (start, end) in [(until, gap.end), (gap.start, from)] {
            if start < end && self.gaps.len() < GAPS_MAX {
                self.gaps.insert(place, Gap { start, end, ..gap });
            }
        }
        gap
    }

    /// A gap is filled: by a late segment, or by the retransmission of one lost before the capture point.
    fn fill(&mut self, place: usize, resent: &Retransmission<'_>, history: &mut EventLog) -> bool {
        let gap = self.narrow(place, resent.start, resent.end);
        let late_ns = resent.now_ns.saturating_sub(gap.time_ns);
        let clock = resent.segment.options.timestamps.map(|stamps| stamps.value);
        let clock_order = clock
            .zip(gap.clock)
            .map(|(this, that)| this.wrapping_sub(that) as i32);
        let id_order = resent
            .segment
            .ip_id
            .zip(gap.ip_id)
            .filter(|(this, that)| *this != 0 && *that != 0);
        let id_order = id_order
            .map(|(this, that)| this.wrapping_sub(that) as i16)
            .filter(|order| order.abs() < NEAR_IDS);
        let (is_late, confidence, evidence) = match (clock_order, id_order) {
            (Some(order), _) if order < 0 => (
                true,
                Confidence::Proven,
                "its timestamp is older than of what came before it",
            ),
            (Some(order), _) if order > 0 && late_ns > SAME_TICK_NS => (
                false,
                Confidence::Proven,
                "came after what followed it, with a newer timestamp",
            ),
            (_, Some(order)) if order < 0 => (
                true,
                Confidence::Likely,
                "its IP identification is older than of what came before it",
            ),
            (_, Some(_)) => (
                false,
                Confidence::Likely,
                "came after what followed it, with a newer IP identification",
            ),
            _ if late_ns < (resent.round_trip_ns / 2).max(LATE_NS) => {
                (true, Confidence::Likely, "came soon after what followed it")
            }
            _ => (false, Confidence::Likely, "came long after what followed it"),
        };
        let segs = u64::from(resent.segs);
        let (presumed, since_ns) = self.presumed;
        let is_counted = gap.time_ns >= since_ns
            && gap.time_ns - since_ns <= (2 * resent.round_trip_ns).max(PRESUMED_NS)
            && !is_late;
        let new = if is_counted {
            self.presumed.0 = presumed.saturating_sub(segs);
            segs.saturating_sub(presumed)
        } else {
            segs
        };
        let (count, kind) = if is_late {
            (&mut self.judgements.reordered, EventKind::Reordered)
        } else {
            (&mut self.judgements.lost, EventKind::Lost)
        };
        *count += new;
        if !is_late {
            self.judgements.lost_before += new;
        }
        let event = history.push(kind, confidence, evidence);
        history.count(event, u32::try_from(new).unwrap_or(u32::MAX));
        let diagnosis = if is_late {
            Diagnosis::Late
        } else {
            Diagnosis::Decided
        };
        self.remember(Resent {
            is_proven: true,
            is_filling: !is_late,
            ..resent.recorded(event, diagnosis)
        });
        !is_late
    }

    fn remember(&mut self, resent: Resent) {
        if self.resent.len() < RESENT_MAX {
            self.resent.push(resent);
        } else {
            let place = &mut self.resent[usize::from(self.next_resent) % RESENT_MAX];
            self.forgotten = self.forgotten.max(place.end);
            *place = resent;
            self.next_resent = (self.next_resent + 1) % RESENT_MAX as u16;
        }
    }
}

impl Retransmission<'_> {
    fn recorded(&self, event: Option<EventNumber>, diagnosis: Diagnosis) -> Resent {
        Resent {
            first_ns: self.original.map_or(self.now_ns, |original| original.time_ns),
            ..Resent::new((self.start, self.end), self.now_ns, self.segs, event, diagnosis)
        }
    }
}

/// Evidence of losses, unless something contradicts.
const SENT_AGAIN_BEYOND: &str = "never SACKed while what followed was, sent again";
const SENT_AGAIN: &str = "sent again before it was acknowledged";

/// With this many late segments per lost one, the lost one was probably late, too.
const ONLY_LATE_EVERY: u64 = 3;

/// Evidence of duplicated packets.
const DUPLICATE_AT_ONCE: &str = "all the same within 100 us";

/// A capture with duplicates duplicates at least one packet in this many.
const DUPLICATES_EVERY: u64 = 4;

/// Duplicated packets with data that are no coincidence.
const DUPLICATED_DATA_MIN: u64 = 3;

/// Evidence of unclear cases.
const UNCLEAR_LATE: &str = "sent again without an answer; almost all others that were had only been late";
const UNCLEAR_END: &str = "FIN sent again: it was lost, or its acknowledgement";

/// A loss detected after a silence may leave a gap in data within this time.
const PRESUMED_NS: u64 = 500_000_000;

/// A window of 16 MB with every third segment lost has fewer.
const GAPS_MAX: usize = 4_096;
const RESENT_MAX: usize = 256;

/// A longer block is no SACK of data in flight.
const ABSURD_BLOCK: u64 = 1 << 30;

/// Timestamps of 1 ms may differ for two segments sent at once.
const SAME_TICK_NS: u64 = 1_000_000;

/// Lateness up to this is reordering, without further evidence.
const LATE_NS: u64 = 3_000_000;

/// Time to wait for a DSACK.
const DSACK_WAIT_NS: u64 = 500_000_000;
