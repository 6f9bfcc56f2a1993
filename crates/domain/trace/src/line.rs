//! Sequence numbers of one direction on one line.

use sockeye_wire::packet::{Segment, TcpFlags};

/// Sequence numbers without their wraps; 0 is that of the SYN.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) is_known: bool,
    /// The highest end so far, as it is in segments and as it is here
    pub(crate) high_raw: u32,
    pub(crate) high: u64,
    /// The highest end of data, without FIN
    pub(crate) data: u64,
    /// The highest acknowledgement captured
    pub(crate) acked: u64,
}

impl Line {
    /// Where a segment begins and ends; the first one decides where 0 is.
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
