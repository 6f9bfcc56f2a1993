//! What is remembered of a segment that was sent again.

use crate::duplicates::DuplicateOrigin;
use crate::event_log::EventNumber;

/// A retransmitted segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resent {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) time_ns: u64,
    /// Time of the first transmission; of this one if it was not captured
    pub(super) first_ns: u64,
    /// Until when a report of a duplicate may come; `None` before it is acknowledged
    pub(super) until_ns: Option<u64>,
    /// The sender's timestamp then, and at the first transmission
    pub(super) clocks: Option<(u32, u32)>,
    pub(super) segs: u32,
    pub(super) event: Option<EventNumber>,
    pub(super) diagnosis: Diagnosis,
    /// The receiver reported that it lacked the segment and got later ones
    pub(super) is_proven: bool,
    /// It fills a gap
    pub(super) is_filling: bool,
    /// Its lateness is already counted
    pub(super) is_counted_late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Diagnosis {
    Lost,
    /// It was the first missing one: the timestamp in the acknowledgement shows which copy arrived
    LostFirst,
    Decided,
    Spurious,
    /// It or its acknowledgement was lost
    Unclear,
    /// It was not retransmitted, it arrived late
    Late,
    /// It was not retransmitted, it was duplicated
    Duplicated(DuplicateOrigin),
}

impl Resent {
    pub(super) const fn new(
        (start, end): (u64, u64),
        time_ns: u64,
        segs: u32,
        event: Option<EventNumber>,
        diagnosis: Diagnosis,
    ) -> Self {
        Self {
            start,
            end,
            time_ns,
            first_ns: time_ns,
            until_ns: None,
            clocks: None,
            segs,
            event,
            diagnosis,
            is_proven: false,
            is_filling: false,
            is_counted_late: false,
        }
    }

    pub(super) const fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }

    /// Whether it is counted as lost.
    pub(super) const fn is_lost(&self) -> bool {
        matches!(
            self.diagnosis,
            Diagnosis::Lost | Diagnosis::LostFirst | Diagnosis::Decided
        )
    }
}
