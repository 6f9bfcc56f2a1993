//! How far the capture is from the sender, by what its segments echo.

use crate::sequence::before;

/// Measures how long the capture is from the sender: from an acknowledgement to the first segment that echoes its clock.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Echo {
    /// The receiver's clock in its last segment
    last: u32,
    /// One that is waited for, and when it was captured
    awaited: Option<(u32, u64)>,
    /// The shortest so far
    pub(crate) shortest_ns: Option<u64>,
    /// As long as it is now, with what waits on the way from the sender to the capture
    pub(crate) present_ns: Option<u64>,
    /// The longest pause between segments while it was waited for, and the last of them
    pause_ns: u64,
    last_ns: u64,
    segments: u32,
}

impl Echo {
    pub(crate) fn expect(&mut self, clock: u32, now_ns: u64) {
        if clock != self.last {
            self.last = clock;
            self.awaited.get_or_insert((clock, now_ns));
        }
    }

    /// Gives whether it has become shorter.
    pub(crate) fn comes(&mut self, clock: u32, now_ns: u64) -> bool {
        let pause_ns = now_ns.saturating_sub(std::mem::replace(&mut self.last_ns, now_ns));
        let Some((awaited, since_ns)) = self.awaited else {
            return false;
        };
        self.pause_ns = self.pause_ns.max(pause_ns.min(now_ns.saturating_sub(since_ns)));
        self.segments = self.segments.saturating_add(1);
        if before(clock, awaited) {
            return false;
        }
        self.awaited = None;
        let took_ns = now_ns.saturating_sub(since_ns);
        // Without a pause in between it was no program that let it wait, but segments before it.
        let is_busy = self.segments >= BUSY_SEGS && self.pause_ns < took_ns / 4;
        (self.pause_ns, self.segments) = (0, 0);
        if clock != awaited {
            return false;
        }
        let is_shorter = self.shortest_ns.is_none_or(|shortest_ns| took_ns < shortest_ns);
        if is_shorter {
            self.shortest_ns = Some(took_ns);
        }
        let is_other = is_busy || self.present_ns.is_none_or(|present_ns| took_ns < present_ns);
        if is_other {
            self.present_ns = Some(took_ns);
        }
        is_shorter || is_other
    }
}

/// Whether acknowledgements reach the sender so much later than they were captured that it matters.
pub(crate) fn is_far(sender_ns: u64, receiver_ns: u64) -> bool {
    sender_ns > SHIFT_NS && sender_ns > receiver_ns / 4
}

/// So many segments in a row show that the path was busy.
const BUSY_SEGS: u32 = 4;

/// A sender nearer than this sees acknowledgements when they are captured.
const SHIFT_NS: u64 = 200_000;
