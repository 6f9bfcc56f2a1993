//! What came twice, late or never: our opinion beside tshark's flags.
//!
//! A repeated segment is first taken for lost; what the other end says later (DSACK, timestamps) changes that. RFC 2883
//! (DSACK), RFC 3522 (Eifel), RFC 6675 (SACK).

use crate::history::{EventNumber, History};
use crate::twins::{NEAR_IDS, Twin};
use crate::unacked::Transmission;
use crate::{Confidence, EventKind, Opinions};
use sockeye_wire::packet::Segment;

/// What is remembered of one direction.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// Selectively acknowledged, in order, apart from each other
    sacked: Vec<(u64, u64)>,
    gaps: Vec<Gap>,
    again: Vec<Again>,
    next_again: u16,
    /// Of those that there was no room for, the highest end
    forgotten: u64,
    episode: Option<Episode>,
    /// The last one that is over, and its event
    ended: Option<(Episode, Option<EventNumber>)>,
    opinions: Opinions,
    lost_after_growth: u64,
    episodes: u64,
    /// Of those that came twice, so many may be the capture's or the network's
    undecided_twins: u64,
    /// Counted as lost without having been seen to be sent again, and when
    presumed: (u64, u64),
    /// So many that looked lost had only been late
    only_late: u64,
}

/// Sequence numbers that were skipped.
#[derive(Debug, Clone, Copy)]
struct Gap {
    start: u64,
    end: u64,
    /// When, by what
    time_ns: u64,
    when: (u64, u64),
    clock: Option<u32>,
    ip_id: Option<u16>,
}

/// A segment that was sent again.
#[derive(Debug, Clone, Copy)]
struct Again {
    start: u64,
    end: u64,
    time_ns: u64,
    /// The sender's clock then, and when it was first sent
    clocks: Option<(u32, u32)>,
    segs: u32,
    event: Option<EventNumber>,
    opinion: Opinion,
    /// The other end said that it lacked it, and got what followed
    is_proven: bool,
    /// It was sent again for what had been skipped
    is_filling: bool,
    /// That it was late has been counted
    is_told_late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opinion {
    Lost,
    /// It was the first that was missing: the clock in the acknowledgement tells which copy arrived
    LostFirst,
    Decided,
    Spurious,
    /// It was lost, or the acknowledgement of it
    Unclear,
    /// It was not sent again, it came late
    Late,
    /// It was not sent again, it came twice
    Twice(Twin),
}

/// Losses until all that was sent by then is acknowledged.
#[derive(Debug, Clone, Copy)]
struct Episode {
    /// When it began: of the capture, and the frame; of the clock that segments have
    first: (u64, u64),
    first_ns: u64,
    until: u64,
    segs: u32,
    has_grown: bool,
}

/// A segment that repeats sequence numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeat<'a> {
    pub(crate) now_ns: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) segs: u32,
    pub(crate) segment: &'a Segment,
    /// What was acknowledged before
    pub(crate) acked: u64,
    /// When it was captured first, if it was and is not acknowledged
    pub(crate) original: Option<Transmission>,
    pub(crate) round_trip_ns: u64,
    /// By its IP identification and clock it is older than others that came before
    pub(crate) is_old: bool,
}

impl Repeats {
    /// The packet with this range came twice.
    pub(crate) fn came_twice(&mut self, now_ns: u64, twin: Twin, range: (u64, u64), history: &mut History) {
        let (count, kind, evidence) = match twin {
            Twin::Capture | Twin::Either => {
                let evidence = if twin == Twin::Either {
                    self.undecided_twins += 1;
                    TWICE_AT_ONCE
                } else {
                    "all the same but for the hops left, within 100 us"
                };
                (
                    &mut self.opinions.duplicated_by_capture,
                    EventKind::DuplicatedByCapture,
                    evidence,
                )
            }
            Twin::Network => {
                let evidence = "all the same, also the IP identification";
                (
                    &mut self.opinions.duplicated_by_network,
                    EventKind::DuplicatedByNetwork,
                    evidence,
                )
            }
        };
        *count += 1;
        let event = history.push(kind, Confidence::Likely, evidence);
        if range.0 < range.1 {
            self.remember(Again {
                start: range.0,
                end: range.1,
                time_ns: now_ns,
                clocks: None,
                segs: 1,
                event,
                opinion: Opinion::Twice(twin),
                is_proven: false,
                is_filling: false,
                is_told_late: false,
            });
        }
    }

    /// The segment leaves out sequence numbers before it.
    pub(crate) fn skips(&mut self, now_ns: u64, range: (u64, u64), segment: &Segment, when: (u64, u64)) {
        if self.gaps.len() < GAPS_MAX {
            let clock = segment.options.timestamps.map(|stamps| stamps.value);
            self.gaps.push(Gap {
                start: range.0,
                end: range.1,
                time_ns: now_ns,
                when,
                clock,
                ip_id: segment.ip_id,
            });
        } else {
            self.opinions.left_out += 1;
        }
    }

    /// So many were lost before they got to the capture.
    pub(crate) fn lost_before(&mut self, now_ns: u64, segs: u64, history: &mut History) {
        self.opinions.lost += segs;
        self.opinions.lost_before += segs;
        self.presumed = (segs, now_ns);
        let evidence = "IP identifications missing after a silence";
        history.push(EventKind::Lost, Confidence::Likely, evidence);
    }

    /// The segment repeats sequence numbers; gives whether they had been lost.
    pub(crate) fn sent_again(&mut self, again: &Repeat<'_>, history: &mut History) -> bool {
        if let Some(place) = self
            .gaps
            .iter()
            .position(|gap| gap.start < again.end && again.start < gap.end)
        {
            return self.fill(place, again, history);
        }
        if again.is_old && self.comes_after_its_copy(again, history) {
            return false;
        }
        if again.is_old {
            self.came_twice(again.now_ns, Twin::Network, (again.start, again.end), history);
            return false;
        }
        let stamps = again.segment.options.timestamps;
        let original_clock = again.original.map(|original| original.clock);
        let clocks = stamps
            .map(|stamps| stamps.value)
            .zip(original_clock)
            .filter(|(new, old)| new != old);
        let is_sacked = self
            .sacked
            .iter()
            .any(|(start, end)| *start <= again.start && again.end <= *end);
        let spurious = if again.end <= again.acked {
            Some("acknowledged before it was sent again")
        } else if is_sacked {
            Some("SACKed before it was sent again")
        } else {
            None
        };
        let is_beyond = self.sacked.last().is_some_and(|(_, end)| *end > again.end);
        // Whoever got a FIN that ends the connection may have no way left to say that it got it twice.
        let is_mere_end = again.segment.payload_len == 0;
        let segs = u64::from(again.segs);
        let (opinion, event) = if let Some(evidence) = spurious {
            self.opinions.spurious += segs;
            (
                Opinion::Spurious,
                history.push(EventKind::Spurious, Confidence::Proven, evidence),
            )
        } else if is_mere_end {
            self.opinions.unclear += segs;
            (
                Opinion::Unclear,
                history.push(EventKind::Unclear, Confidence::Likely, UNCLEAR_END),
            )
        } else {
            self.opinions.lost += segs;
            let (confidence, evidence) = if is_beyond {
                (Confidence::Proven, SENT_AGAIN_BEYOND)
            } else {
                (Confidence::Likely, SENT_AGAIN)
            };
            let opinion = if again.start <= again.acked {
                Opinion::LostFirst
            } else {
                Opinion::Lost
            };
            (opinion, history.push(EventKind::Lost, confidence, evidence))
        };
        self.remember(Again {
            start: again.start,
            end: again.end,
            time_ns: again.now_ns,
            clocks,
            segs: again.segs,
            event,
            opinion,
            is_proven: is_beyond,
            is_filling: false,
            is_told_late: false,
        });
        matches!(opinion, Opinion::Lost | Opinion::LostFirst)
    }

    /// So many of what was sent again had been lost.
    pub(crate) fn lose(&mut self, now_ns: u64, segs: u32, has_grown: bool, until: u64, now: (u64, u64)) {
        self.episodes += u64::from(self.episode.is_none());
        let episode = self.episode.get_or_insert(Episode {
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

    /// Whether a loss now is one of several at once.
    pub(crate) fn is_in_episode(&self) -> bool {
        self.episode.is_some()
    }

    /// Acknowledged: everything up to there; before, less.
    pub(crate) fn acknowledged(
        &mut self,
        now_ns: u64,
        before: u64,
        acked: u64,
        echo: Option<u32>,
        round_trip_ns: u64,
        history: &mut History,
    ) {
        if !self.sacked.is_empty() {
            self.note_reordering(before, acked, history);
        }
        while let Some(place) = self.gaps.iter().position(|gap| gap.start < acked) {
            let gap = self.gaps.swap_remove(place);
            self.opinions.missing_in_capture += 1;
            let evidence = "acknowledged, but never captured";
            history.push_of_peer_at(
                gap.when,
                EventKind::MissingInCapture,
                Confidence::Proven,
                evidence,
            );
        }
        for place in 0..self.again.len() {
            let again = self.again[place];
            if again.end > acked || !matches!(again.opinion, Opinion::Lost | Opinion::LostFirst) {
                continue;
            }
            // An acknowledgement before the repetition can have made its round trip: of the first copy, by its clock.
            let is_of_first = match (again.clocks, echo) {
                (Some((new, old)), Some(echo)) => {
                    (echo.wrapping_sub(new) as i32) < 0 && (echo.wrapping_sub(old) as i32) >= 0
                }
                _ => false,
            };
            if again.opinion == Opinion::LostFirst && is_of_first {
                self.again[place].opinion = Opinion::Spurious;
                self.acquit(&again, history);
                self.opinions.spurious += u64::from(again.segs);
                let evidence = "the timestamp echoed is that of the first copy";
                history.amend(again.event, EventKind::Spurious, Confidence::Proven, evidence);
                if again.is_proven {
                    let evidence = "SACKed around and sent again, but the first copy came";
                    self.was_late(&again, evidence, history);
                }
            } else {
                self.again[place].opinion = Opinion::Decided;
            }
        }
        if !self.again.is_empty() {
            let wait_ns = round_trip_ns.saturating_mul(4).max(DSACK_WAIT_NS);
            self.again
                .retain(|again| again.end > acked || now_ns.saturating_sub(again.time_ns) <= wait_ns);
        }
        if self.episode.is_some_and(|episode| acked >= episode.until) {
            self.end_episode(history, true);
        }
    }

    /// Acknowledged as well: these, the first of which may have arrived twice.
    pub(crate) fn selectively(
        &mut self,
        blocks: impl Iterator<Item = (u64, u64)> + Clone,
        acked: u64,
        history: &mut History,
    ) {
        let second = blocks.clone().nth(1);
        for (number, (start, end)) in blocks.enumerate() {
            if end <= start || end - start > ABSURD_BLOCK {
                continue;
            }
            let is_within = second.is_some_and(|second| second.0 <= start && end <= second.1);
            if number == 0 && (end <= acked || is_within) {
                self.arrived_twice(start, end, history);
            } else if end > acked {
                self.sack(start.max(acked), end);
            }
        }
    }

    /// The other end acknowledges more than was captured.
    pub(crate) fn never_captured(&mut self, history: &mut History) {
        self.opinions.missing_in_capture += 1;
        let evidence = "acknowledged, but never captured";
        history.push_of_peer(EventKind::MissingInCapture, Confidence::Proven, evidence);
    }

    /// Nothing more will come; there were so many packets in all.
    pub(crate) fn finish(&mut self, packets: u64, history: &mut History) {
        self.end_episode(history, false);
        // Not every DSACK arrives, nor is every one sent.
        if self.opinions.lost > 0 && ONLY_LATE_EVERY * self.opinions.lost <= self.only_late {
            self.opinions.unclear += std::mem::take(&mut self.opinions.lost);
            self.opinions.lost_before = 0;
            for evidence in [SENT_AGAIN_BEYOND, SENT_AGAIN] {
                history.restate((EventKind::Lost, EventKind::Unclear), evidence, UNCLEAR_LATE);
            }
        }
        if self.undecided_twins > 0 && TWINS_EVERY * self.undecided_twins < packets {
            self.opinions.duplicated_by_capture -=
                self.undecided_twins.min(self.opinions.duplicated_by_capture);
            self.opinions.duplicated_by_network += self.undecided_twins;
            let kinds = (EventKind::DuplicatedByCapture, EventKind::DuplicatedByNetwork);
            history.restate(
                kinds,
                TWICE_AT_ONCE,
                "all the same within 100 us, which few others are",
            );
        }
    }

    pub(crate) fn opinions(&self) -> Opinions {
        self.opinions
    }

    /// How often anything was lost, several at once counted once.
    pub(crate) fn episodes(&self) -> u64 {
        self.episodes
    }

    pub(crate) fn lost_after_growth(&self) -> u64 {
        self.lost_after_growth
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.sacked.capacity() * size_of::<(u64, u64)>()
            + self.gaps.capacity() * size_of::<Gap>()
            + self.again.capacity() * size_of::<Again>()
    }

    /// What was skipped comes: late, or sent again because it was lost before it got to the capture.
    fn fill(&mut self, place: usize, again: &Repeat<'_>, history: &mut History) -> bool {
        let gap = self.gaps[place];
        self.gaps.swap_remove(place);
        for (start, end) in [(gap.start, again.start), (again.end, gap.end)] {
            if start < end && self.gaps.len() < GAPS_MAX {
                self.gaps.push(Gap { start, end, ..gap });
            }
        }
        let late_ns = again.now_ns.saturating_sub(gap.time_ns);
        let clock = again.segment.options.timestamps.map(|stamps| stamps.value);
        let clock_order = clock
            .zip(gap.clock)
            .map(|(this, that)| this.wrapping_sub(that) as i32);
        let id_order = again
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
            _ if late_ns < (again.round_trip_ns / 2).max(LATE_NS) => {
                (true, Confidence::Likely, "came soon after what followed it")
            }
            _ => (false, Confidence::Likely, "came long after what followed it"),
        };
        let segs = u64::from(again.segs);
        let (presumed, since_ns) = self.presumed;
        let is_counted = gap.time_ns >= since_ns
            && gap.time_ns - since_ns <= (2 * again.round_trip_ns).max(PRESUMED_NS)
            && !is_late;
        let new = if is_counted {
            self.presumed.0 = presumed.saturating_sub(segs);
            segs.saturating_sub(presumed)
        } else {
            segs
        };
        let (count, kind) = if is_late {
            (&mut self.opinions.reordered, EventKind::Reordered)
        } else {
            (&mut self.opinions.lost, EventKind::Lost)
        };
        *count += new;
        if !is_late {
            self.opinions.lost_before += new;
        }
        let event = history.push(kind, confidence, evidence);
        self.remember(Again {
            start: again.start,
            end: again.end,
            time_ns: again.now_ns,
            clocks: None,
            segs: again.segs,
            event,
            opinion: if is_late { Opinion::Late } else { Opinion::Decided },
            is_proven: true,
            is_filling: !is_late,
            is_told_late: false,
        });
        !is_late
    }

    /// What was SACKed around is acknowledged without having been sent again: it only was late.
    fn note_reordering(&mut self, from: u64, acked: u64, history: &mut History) {
        if let Some((start, _)) = self.sacked.first().copied()
            && from < start
            && start <= acked
        {
            let was_repeated = self
                .again
                .iter()
                .any(|again| again.start < start && from < again.end);
            let was_captured = !self.gaps.iter().any(|gap| gap.start < start && from < gap.end);
            let is_remembered = from >= self.forgotten;
            if !was_repeated && was_captured && is_remembered && from > 0 {
                self.opinions.reordered += 1;
                let evidence = "SACKed around, then acknowledged without being sent again";
                history.push_of_peer(EventKind::Reordered, Confidence::Proven, evidence);
            }
        }
        self.sacked.retain_mut(|(start, end)| {
            *start = acked.max(*start);
            *end > acked
        });
    }

    /// What has been sent again because it was late comes as it was sent first; gives whether it is that.
    fn comes_after_its_copy(&mut self, first: &Repeat<'_>, history: &mut History) -> bool {
        let copy = self
            .again
            .iter_mut()
            .find(|again| again.is_filling && again.start <= first.start && first.end <= again.end);
        let Some(copy) = copy else {
            // Or a copy of it that was late itself, of several.
            let was_sent_again = self.again.iter().any(|again| {
                again.start < first.end
                    && first.start < again.end
                    && matches!(again.opinion, Opinion::Spurious | Opinion::Late)
            });
            if was_sent_again {
                self.opinions.reordered += u64::from(first.segs);
                history.push(EventKind::Reordered, Confidence::Proven, OLDER);
            }
            return was_sent_again;
        };
        copy.is_filling = false;
        let was_blamed = copy.opinion != Opinion::Spurious;
        copy.opinion = Opinion::Spurious;
        let copy = *copy;
        self.opinions.reordered += u64::from(first.segs);
        history.push(EventKind::Reordered, Confidence::Proven, OLDER);
        if was_blamed {
            self.acquit(&copy, history);
            self.opinions.lost_before = self.opinions.lost_before.saturating_sub(copy.segs.into());
            self.opinions.spurious += u64::from(copy.segs);
            let evidence = "the first copy came after it";
            history.amend(copy.event, EventKind::Spurious, Confidence::Proven, evidence);
        }
        true
    }

    /// What followed had arrived before its first copy did. However often it was sent again, it was late once.
    fn was_late(&mut self, late: &Again, evidence: &'static str, history: &mut History) {
        let segs = u64::from(late.segs);
        self.only_late += segs;
        let mut is_told = false;
        for again in &mut self.again {
            if again.start < late.end && late.start < again.end {
                is_told |= std::mem::replace(&mut again.is_told_late, true);
            }
        }
        if !is_told {
            self.opinions.reordered += segs;
            history.push_of_peer(EventKind::Reordered, Confidence::Proven, evidence);
        }
    }

    fn arrived_twice(&mut self, start: u64, end: u64, history: &mut History) {
        let overlaps =
            |again: &Again| again.start < end && start < again.end && again.opinion != Opinion::Late;
        // Keep-alives and probes of closed windows arrive twice on purpose.
        if end - start <= 1
            && !self
                .again
                .iter()
                .any(|again| overlaps(again) && again.end - again.start == 1)
        {
            return;
        }
        let evidence = "the receiver said that it got it twice (DSACK)";
        let blamed = |again: &Again| !matches!(again.opinion, Opinion::Spurious | Opinion::Twice(_));
        let place = (self
            .again
            .iter()
            .position(|again| overlaps(again) && blamed(again)))
        .or_else(|| self.again.iter().position(overlaps));
        let Some(again) = place.map(|place| &mut self.again[place]) else {
            self.opinions.duplicated_by_network += 1;
            let evidence = "got twice (DSACK), but sent once";
            history.push_of_peer(EventKind::DuplicatedByNetwork, Confidence::Proven, evidence);
            return;
        };
        match again.opinion {
            Opinion::Spurious | Opinion::Late => {}
            Opinion::Twice(twin) => {
                if twin == Twin::Either {
                    self.undecided_twins = self.undecided_twins.saturating_sub(1);
                }
                if twin != Twin::Network {
                    self.opinions.duplicated_by_capture =
                        self.opinions.duplicated_by_capture.saturating_sub(1);
                    self.opinions.duplicated_by_network += 1;
                }
                again.opinion = Opinion::Twice(Twin::Network);
                history.amend(
                    again.event,
                    EventKind::DuplicatedByNetwork,
                    Confidence::Proven,
                    evidence,
                );
            }
            Opinion::Unclear => {
                again.opinion = Opinion::Spurious;
                let again = *again;
                let segs = u64::from(again.segs);
                self.opinions.unclear = self.opinions.unclear.saturating_sub(segs);
                self.opinions.spurious += segs;
                history.amend(again.event, EventKind::Spurious, Confidence::Proven, evidence);
            }
            // What was skipped here never came: it was this copy of which two were made.
            Opinion::Lost | Opinion::LostFirst | Opinion::Decided if again.is_filling => {
                // Unless it is known which packet was one too many.
                let is_known = self.again.iter().any(|again| {
                    overlaps(again) && matches!(again.opinion, Opinion::Twice(_) | Opinion::Spurious)
                });
                if !is_known {
                    self.opinions.duplicated_by_network += 1;
                    history.push_of_peer(EventKind::DuplicatedByNetwork, Confidence::Proven, evidence);
                }
            }
            Opinion::Lost | Opinion::LostFirst | Opinion::Decided => {
                again.opinion = Opinion::Spurious;
                let again = *again;
                self.acquit(&again, history);
                self.opinions.spurious += u64::from(again.segs);
                history.amend(again.event, EventKind::Spurious, Confidence::Proven, evidence);
                if again.is_proven {
                    let evidence = "SACKed around and sent again, then got twice (DSACK)";
                    self.was_late(&again, evidence, history);
                } else {
                    self.doubt(history);
                }
            }
        }
    }

    fn sack(&mut self, start: u64, end: u64) {
        // Most add to what is there already.
        if self.sacked.iter().any(|range| range.0 <= start && end <= range.1) {
            return;
        }
        let (mut low, mut high) = (start, end);
        self.sacked.retain(|range| {
            let is_apart = range.1 < low || high < range.0;
            if !is_apart {
                (low, high) = (low.min(range.0), high.max(range.1));
            }
            is_apart
        });
        if self.sacked.len() >= SACKED_MAX {
            self.opinions.left_out += 1;
            return;
        }
        let place = self.sacked.partition_point(|range| range.0 < low);
        self.sacked.insert(place, (low, high));
    }

    fn remember(&mut self, again: Again) {
        if self.again.len() < AGAIN_MAX {
            self.again.push(again);
        } else {
            let place = &mut self.again[usize::from(self.next_again) % AGAIN_MAX];
            self.forgotten = self.forgotten.max(place.end);
            *place = again;
            self.next_again = (self.next_again + 1) % AGAIN_MAX as u16;
        }
    }

    fn end_episode(&mut self, history: &mut History, of_peer: bool) {
        let Some(episode) = self.episode.take() else {
            return;
        };
        let mut event = None;
        if episode.segs > 1 {
            self.opinions.loss_bursts += 1;
            let kind = EventKind::LossBurst {
                segments: episode.segs,
            };
            event = history.push_at(episode.first, of_peer, kind, BURST);
        }
        self.ended = Some((episode, event));
    }

    /// One copy too many shows that acknowledgements are lost: of other repetitions for which there is no more than
    /// silence, it cannot be told what was lost.
    fn doubt(&mut self, history: &mut History) {
        for place in 0..self.again.len() {
            let again = self.again[place];
            let is_lost = matches!(
                again.opinion,
                Opinion::Lost | Opinion::LostFirst | Opinion::Decided
            );
            if is_lost && !again.is_proven {
                self.again[place].opinion = Opinion::Unclear;
                self.acquit(&again, history);
                self.opinions.unclear += u64::from(again.segs);
                history.amend(again.event, EventKind::Unclear, Confidence::Likely, UNCLEAR);
            }
        }
    }

    /// What was taken for lost was not.
    fn acquit(&mut self, again: &Again, history: &mut History) {
        let segs = u64::from(again.segs);
        self.opinions.lost = self.opinions.lost.saturating_sub(segs);
        if let Some(episode) = self
            .episode
            .as_mut()
            .filter(|episode| episode.first_ns <= again.time_ns)
        {
            episode.segs = episode.segs.saturating_sub(again.segs);
        } else if let Some((episode, event)) = &mut self.ended {
            let was_burst = episode.segs > 1;
            episode.segs = episode.segs.saturating_sub(again.segs);
            if episode.segs > 1 {
                let kind = EventKind::LossBurst {
                    segments: episode.segs,
                };
                history.amend(*event, kind, Confidence::Likely, BURST);
            } else if was_burst {
                self.opinions.loss_bursts -= 1;
                history.withdraw(*event);
            }
        }
    }
}

/// Evidence of a burst.
const BURST: &str = "sent again before any of what was in flight with it was acknowledged";

/// Evidence of packets that came behind their copies.
const OLDER: &str = "its IP identification and timestamp are older than of its copy that came before it";

/// Evidence of losses, as long as nothing speaks against it.
const SENT_AGAIN_BEYOND: &str = "never SACKed while what followed was, sent again";
const SENT_AGAIN: &str = "sent again before it was acknowledged";

/// Where so many are only late for each one lost, that one will not have been lost either.
const ONLY_LATE_EVERY: u64 = 3;

/// Evidence of packets that came twice.
const TWICE_AT_ONCE: &str = "all the same within 100 us";

/// A capture that has packets twice has one in so many of them twice at least.
const TWINS_EVERY: u64 = 4;

/// Evidence that is not enough.
const UNCLEAR: &str = "sent again without an answer; another one was sent again without need";
const UNCLEAR_LATE: &str = "sent again without an answer; almost all others that were had only been late";
const UNCLEAR_END: &str = "FIN sent again: it was lost, or its acknowledgement";

/// What was found missing after a silence may leave a gap in what comes within this.
const PRESUMED_NS: u64 = 500_000_000;

const GAPS_MAX: usize = 256;
const AGAIN_MAX: usize = 256;
const SACKED_MAX: usize = 128;

/// A longer block is no SACK of anything in flight.
const ABSURD_BLOCK: u64 = 1 << 30;

/// Clocks of 1 ms tick between two segments sent at once.
const SAME_TICK_NS: u64 = 1_000_000;

/// What is late by no more than this was overtaken, if nothing else tells.
const LATE_NS: u64 = 3_000_000;

/// So long a DSACK is waited for.
const DSACK_WAIT_NS: u64 = 500_000_000;
