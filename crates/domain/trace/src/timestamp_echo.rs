//! Distance from the capture to the sender, measured by echoed timestamps.

use crate::sequence::before;

/// Measures the time from an acknowledgement to the sender's first segment that echoes its timestamp.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct TimestampEcho {
    /// The receiver's timestamp in its last segment
    last: u32,
    /// Timestamp of the awaited echo, and when it was captured
    awaited: Option<(u32, u64)>,
    /// Shortest time so far
    pub(crate) shortest_ns: Option<u64>,
    /// Latest time, including queues between the sender and the capture
    pub(crate) present_ns: Option<u64>,
    /// Longest pause between segments while the echo was awaited, and the last segment
    pause_ns: u64,
    last_ns: u64,
    segments: u32,
}

impl TimestampEcho {
    pub(crate) fn expect(&mut self, clock: u32, now_ns: u64) {
        if clock != self.last {
            self.last = clock;
            self.awaited.get_or_insert((clock, now_ns));
        }
    }

    /// Records a segment of the sender; returns whether the shortest time became shorter.
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
        // Without a pause in between, the segment waited for earlier segments, not for a program.
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

/// Whether acknowledgements reach the sender so much later than the capture that it matters.
pub(crate) fn is_far(sender_ns: u64, receiver_ns: u64) -> bool {
    sender_ns > SHIFT_NS && sender_ns > receiver_ns / 4
}

/// Segments in a row that show a busy path.
const BUSY_SEGS: u32 = 4;

/// A sender nearer than this sees acknowledgements when they are captured.
const SHIFT_NS: u64 = 200_000;
