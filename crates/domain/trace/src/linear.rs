//! Sequence numbers of one direction, extended to 64 bits.

use sockeye_wire::packet::{Segment, TcpFlags};

/// Maps 32-bit sequence numbers to 64 bits, without wraps; 0 is the number of the SYN.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct LinearSequence {
    pub(crate) is_known: bool,
    /// Highest end so far, as on the wire
    pub(crate) high_raw: u32,
    pub(crate) high: u64,
    /// Highest end of data, without FIN
    pub(crate) data: u64,
    /// Highest acknowledgement captured
    pub(crate) acked: u64,
}

impl LinearSequence {
    /// Start and end of a segment; the first segment defines 0.
    pub(crate) fn place(&mut self, segment: &Segment, end: u32) -> (u64, u64) {
        let seq = segment.sequence;
        if !self.is_known {
            let is_syn = segment.flags.has(TcpFlags::SYN);
            self.start(seq.wrapping_sub(u32::from(!is_syn)), seq);
        }
        let start = self.at(seq);
        (start, start + u64::from(end.wrapping_sub(seq)))
    }

    pub(crate) fn start(&mut self, zero: u32, high_raw: u32) {
        self.is_known = true;
        self.high_raw = high_raw;
        self.high = u64::from(high_raw.wrapping_sub(zero));
        self.data = self.high;
    }

    pub(crate) fn at(&self, sequence: u32) -> u64 {
        let distance = i64::from(sequence.wrapping_sub(self.high_raw) as i32);
        self.high.saturating_add_signed(distance)
    }

    pub(crate) fn advance(&mut self, raw: u32, place: u64) {
        if place > self.high {
            (self.high_raw, self.high) = (raw, place);
        }
    }
}
