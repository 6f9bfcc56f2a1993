//! tshark's rules: flags and values of each segment.
//!
//! Follows Wireshark 4.0.17 with its defaults, in its order, with its peculiarities: a sequence number 0
//! means unknown, the acknowledgement field is used without ACK as well, and windows are compared unscaled.
//! Where its manual and its code disagree, this follows the code. Not followed: MPTCP, where it tolerates
//! some duplicate ACKs.

use crate::budget::Budget;
use crate::duplicates::takes_space;
use crate::sequence::{after, before, not_after};
use crate::unacked::{Acknowledged, Transmission, Unacked};
use crate::{Flag, Flags, SegmentNotes};
use sockeye_wire::packet::{Segment, TcpFlags};

/// State of the rules for one connection.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) sides: [Side; 2],
    /// The last SYN without ACK
    syn_ns: Option<u64>,
    /// From there to the first ACK without SYN; 0: unknown
    pub(crate) first_round_trip_ns: u64,
}

/// State of the rules for one side.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) unacked: Unacked,
    /// Highest end of sent data; 0: unknown
    pub(crate) next: u32,
    next_frame: u64,
    next_ns: u64,
    /// Highest end without a gap before it, or up to where the other acknowledged
    acknowledgeable: u32,
    /// The last acknowledgement that it sent
    pub(crate) last_ack: u32,
    last_ack_ns: u64,
    last_plain_frame: u64,
    /// Number of duplicate ACKs; `u32::MAX`: it acknowledged data that was not captured
    duplicates: u32,
    /// Window as on the wire; `u32::MAX`: unknown
    window: u32,
    pub(crate) scale: Scale,
    base: Option<u32>,
    push_bytes: u32,
    was_pushed: bool,
    has_loss: bool,
    is_new: bool,
    last_flags: Flags,
    sacked_bytes: u32,
}

/// Window scale of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Unknown,
    Unused,
    By(u8),
}

impl Default for Side {
    fn default() -> Self {
        Self {
            unacked: Unacked::default(),
            next: 0,
            next_frame: 0,
            next_ns: 0,
            acknowledgeable: 0,
            last_ack: 0,
            last_ack_ns: 0,
            last_plain_frame: 0,
            duplicates: 0,
            window: u32::MAX,
            scale: Scale::Unknown,
            base: None,
            push_bytes: 0,
            was_pushed: false,
            has_loss: false,
            is_new: false,
            last_flags: Flags::NONE,
            sacked_bytes: 0,
        }
    }
}

/// A segment with the place and time of its capture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Captured<'a> {
    pub(crate) frame: u64,
    pub(crate) time_ns: u64,
    pub(crate) segment: &'a Segment,
    /// Earlier segments of the same train
    pub(crate) train: u16,
}

impl Rules {
    /// Whether this SYN begins a new connection on the ports of an earlier one.
    pub(crate) fn is_reused(&self, from: usize, segment: &Segment) -> bool {
        is_syn(segment) && self.sides[from].base.is_some_and(|base| base != segment.sequence)
    }

    /// Judges one segment and updates the state. `budget` is that of all connections.
    pub(crate) fn segment(
        &mut self,
        from: usize,
        captured: &Captured<'_>,
        notes: &mut SegmentNotes,
        budget: &mut Budget,
    ) -> Acknowledged {
        let segment = captured.segment;
        let [lower, higher] = &mut self.sides;
        let (side, peer) = if from == 0 {
            (lower, higher)
        } else {
            (higher, lower)
        };
        if segment.flags.has(TcpFlags::SYN) {
            side.syn(segment, notes);
        }
        side.sacked_bytes = 0;
        if side.base.is_none() {
            let is_syn = segment.flags.has(TcpFlags::SYN);
            side.base = Some(segment.sequence.wrapping_sub(u32::from(!is_syn)));
        }
        if peer.base.is_none() && segment.flags.has(TcpFlags::ACK) {
            peer.base = Some(segment.acknowledgement.wrapping_sub(1));
        }

        side.judge_order(peer, segment, notes);
        let ack = segment.acknowledgement;
        if ack != side.last_ack {
            side.last_plain_frame = captured.frame;
            side.duplicates = 0;
        }
        peer.judge_acknowledgement(segment, notes);
        if takes_space(segment) {
            side.judge_repetition(peer, captured, self.first_round_trip_ns, notes);
        }
        side.remember(captured, notes, budget);
        let acknowledged = peer.acknowledged(captured, notes, budget);
        side.measure_flight(peer, segment, notes);
        self.after(from, captured);
        acknowledged
    }

    /// Updates the state after the judgement, as tshark does.
    fn after(&mut self, from: usize, captured: &Captured<'_>) {
        let segment = captured.segment;
        let [lower, higher] = &mut self.sides;
        let (side, peer) = if from == 0 {
            (lower, higher)
        } else {
            (higher, lower)
        };
        let blocks = segment.options.sack.as_slice().iter().take(COUNTED_SACK_BLOCKS);
        side.sacked_bytes = blocks.fold(0, |sum, (start, end)| sum.wrapping_add(end.wrapping_sub(*start)));
        if segment.flags.has(TcpFlags::SYN) {
            side.is_new = true;
            if !segment.flags.has(TcpFlags::ACK) {
                self.syn_ns = Some(captured.time_ns);
            }
        } else if segment.flags.has(TcpFlags::ACK) {
            if let (0, Some(syn_ns)) = (self.first_round_trip_ns, self.syn_ns) {
                self.first_round_trip_ns = captured.time_ns.wrapping_sub(syn_ns);
            }
            side.is_new = false;
        }
        if let Some(shift) = segment.options.window_scale {
            side.scale = Scale::By(shift.min(14));
        }
        // With truncated options, tshark stops before this point.
        if segment.flags.has(TcpFlags::SYN) && !segment.options.is_cut {
            if side.scale == Scale::Unknown {
                (side.scale, peer.scale) = (Scale::Unused, Scale::Unused);
            } else if segment.flags.has(TcpFlags::ACK) && peer.scale == Scale::Unused {
                side.scale = Scale::Unused;
            }
        }
    }
}

impl Side {
    /// A SYN of a known connection.
    fn syn(&mut self, segment: &Segment, notes: &mut SegmentNotes) {
        let Some(base) = self.base else { return };
        let is_same = base == segment.sequence;
        if !segment.flags.has(TcpFlags::ACK) {
            if is_same {
                // A RST may have carried any sequence number (Wireshark issue 17616).
                self.next = self.acknowledgeable;
            }
        } else if !is_same {
            self.base = Some(segment.sequence);
            self.unacked.measure(segment.sequence);
            notes.flags = notes.flags.with(Flag::ReusedPorts);
        }
    }

    /// From ZERO WINDOW PROBE to DUPLICATE ACK.
    fn judge_order(&mut self, peer: &mut Self, segment: &Segment, notes: &mut SegmentNotes) {
        let (seq, len, window) = (segment.sequence, segment.payload_len, u32::from(segment.window));
        let is_marked = segment.flags.has(MARKS);
        let mut flag = |flag| notes.flags = notes.flags.with(flag);
        if segment.flags.has(TcpFlags::ACK) {
            peer.has_loss = false;
        }
        if len == 1 && seq == self.next && peer.window == 0 {
            return flag(Flag::ZeroWindowProbe);
        }
        if window == 0 && !is_marked {
            flag(Flag::ZeroWindow);
        }
        if self.next != 0 && after(seq, self.next) && !segment.flags.has(TcpFlags::RST) {
            flag(Flag::LostSegment);
            self.has_loss = true;
        }
        if is_marked {
            return;
        }
        if len <= 1 && seq == self.next.wrapping_sub(1) {
            flag(Flag::KeepAlive);
        }
        if len > 0 {
            if peer.edge() == Some(seq.wrapping_add(len)) {
                flag(Flag::WindowFull);
            }
            return;
        }
        if seq != self.next || segment.acknowledgement != self.last_ack {
            return;
        }
        if window != self.window {
            if window != 0 {
                flag(Flag::WindowUpdate);
            }
        } else if window == 0 {
            if peer.last_flags.has(Flag::ZeroWindowProbe) {
                flag(Flag::ZeroWindowProbeAck);
            }
        } else if peer.last_flags.has(Flag::KeepAlive) {
            flag(Flag::KeepAliveAck);
        } else {
            self.duplicates = if self.duplicates == BEYOND {
                1
            } else {
                self.duplicates.wrapping_add(1)
            };
            flag(Flag::DuplicateAck);
            notes.duplicate_ack = Some((self.duplicates, self.last_plain_frame));
        }
    }

    /// ACKED LOST PACKET: called for the side that sent the acknowledged data.
    fn judge_acknowledgement(&mut self, segment: &Segment, notes: &mut SegmentNotes) {
        let is_beyond = self.acknowledgeable != 0
            && after(segment.acknowledgement, self.acknowledgeable)
            && segment.flags.has(TcpFlags::ACK);
        if !is_beyond {
            return;
        }
        if before(self.acknowledgeable, self.next) {
            self.acknowledgeable = self.next;
        } else {
            let was_reported = std::mem::replace(&mut self.duplicates, BEYOND) != 0;
            if was_reported {
                return;
            }
        }
        notes.flags = notes.flags.with(Flag::AckLostSegment);
    }

    /// SPURIOUS and FAST RETRANSMISSION, OUT OF ORDER, RETRANSMISSION.
    fn judge_repetition(
        &self,
        peer: &Self,
        captured: &Captured<'_>,
        round_trip_ns: u64,
        notes: &mut SegmentNotes,
    ) {
        let segment = captured.segment;
        let (seq, len) = (segment.sequence, segment.payload_len);
        if notes.flags.has(Flag::KeepAlive) {
            return;
        }
        let mut flag = |flag| notes.flags = notes.flags.with(flag);
        if len > 0 && peer.last_ack != 0 && not_after(seq.wrapping_add(len), peer.last_ack) {
            return flag(Flag::SpuriousRetransmission);
        }
        // One byte of it may have been sent as a window probe.
        let is_probed = len > 1 && self.next.wrapping_sub(1) == seq;
        if self.next == 0 || !before(seq, self.next) || is_probed {
            return;
        }
        // Time that goes backwards makes these huge, as in tshark.
        let since_ack_ns = captured.time_ns.wrapping_sub(peer.last_ack_ns);
        if peer.duplicates >= 2 && peer.last_ack == seq && since_ack_ns < FAST_NS {
            return flag(Flag::FastRetransmission);
        }
        let since_next_ns = captured.time_ns.wrapping_sub(self.next_ns);
        let limit_ns = if round_trip_ns == 0 {
            UNKNOWN_ROUND_TRIP_NS
        } else {
            round_trip_ns
        };
        if since_next_ns < limit_ns && self.next != end_of(segment) {
            return flag(Flag::OutOfOrder);
        }
        flag(Flag::Retransmission);
        let oldest = self
            .unacked
            .oldest()
            .map_or((self.next_frame, self.next_ns), |sent| (sent.frame, sent.time_ns));
        // tshark shows neither for the same time, and a negative time if that goes backwards.
        if captured.time_ns != oldest.1 {
            notes.rto_ns = captured.time_ns.checked_sub(oldest.1);
            notes.rto_frame = Some(oldest.0);
        }
    }

    fn remember(&mut self, captured: &Captured<'_>, notes: &SegmentNotes, budget: &mut Budget) {
        let segment = captured.segment;
        let seq = segment.sequence;
        let mut next = seq.wrapping_add(segment.payload_len);
        if takes_space(segment) && self.unacked.len() < UNACKED_MAX {
            next = end_of(segment);
            if budget.take() {
                let sent = Transmission {
                    time_ns: captured.time_ns,
                    frame: captured.frame,
                    start: seq,
                    end: next,
                    clock: segment.options.timestamps.map_or(0, |stamps| stamps.value),
                    ip_id: segment.ip_id.unwrap_or(0),
                    train: captured.train,
                };
                self.unacked.push(sent, self.base.unwrap_or(0));
            }
        }
        let is_probe = notes.flags.has(Flag::ZeroWindowProbe);
        if (after(next, self.next) || self.next == 0) && !is_probe {
            self.next = next;
            self.next_frame = captured.frame;
            self.next_ns = captured.time_ns;
        }
        if (seq == self.acknowledgeable || self.acknowledgeable == 0) && !is_probe {
            self.acknowledgeable = self.next;
        }
        self.window = u32::from(segment.window);
        self.last_ack = segment.acknowledgement;
        self.last_ack_ns = captured.time_ns;
        self.last_flags = notes.flags;
    }

    /// Processes an acknowledgement by the other side.
    fn acknowledged(
        &mut self,
        captured: &Captured<'_>,
        notes: &mut SegmentNotes,
        budget: &mut Budget,
    ) -> Acknowledged {
        let acknowledged = self
            .unacked
            .acknowledge(captured.segment.acknowledgement, self.base.unwrap_or(0));
        budget.release(acknowledged.removed);
        if let Some((frame, sent_ns)) = acknowledged.exactly {
            notes.acks_frame = Some(frame);
            notes.ack_rtt_ns = captured.time_ns.checked_sub(sent_ns).filter(|rtt_ns| *rtt_ns > 0);
        }
        acknowledged
    }

    fn measure_flight(&mut self, peer: &Self, segment: &Segment, notes: &mut SegmentNotes) {
        let len = segment.payload_len;
        if len == 0 || self.has_loss {
            return;
        }
        let Some(span) = self.unacked.in_flight() else {
            return;
        };
        let in_flight = span.wrapping_sub(peer.sacked_bytes);
        if (1..ABSURD_FLIGHT).contains(&in_flight) {
            let without_mark = in_flight - u32::from(segment.flags.has(SYN_OR_FIN));
            notes.bytes_in_flight = Some(without_mark).filter(|bytes| *bytes > 0);
        }
        let is_pushed = segment.flags.has(TcpFlags::PSH);
        self.push_bytes = if self.was_pushed {
            len
        } else {
            self.push_bytes.wrapping_add(len)
        };
        self.was_pushed = is_pushed;
        notes.push_bytes_sent = notes.bytes_in_flight.map(|_| self.push_bytes);
    }

    /// The end of this side's window, if known.
    fn edge(&self) -> Option<u32> {
        let shift = match self.scale {
            Scale::Unknown => return None,
            Scale::By(shift) if !self.is_new => shift,
            _ => 0,
        };
        Some(
            self.last_ack
                .wrapping_add(self.window.wrapping_shl(u32::from(shift))),
        )
    }
}

/// SYN without ACK.
pub(crate) fn is_syn(segment: &Segment) -> bool {
    segment.flags.has(TcpFlags::SYN) && !segment.flags.has(TcpFlags::ACK)
}

/// Sequence number after its last byte; SYN and FIN together count as one.
pub(crate) fn end_of(segment: &Segment) -> u32 {
    let mark = u32::from(segment.flags.has(SYN_OR_FIN));
    segment
        .sequence
        .wrapping_add(segment.payload_len)
        .wrapping_add(mark)
}

const SYN_OR_FIN: TcpFlags = TcpFlags::SYN.or(TcpFlags::FIN);
const MARKS: TcpFlags = SYN_OR_FIN.or(TcpFlags::RST);

/// `duplicates` of a side that acknowledged data that was not captured; the large number makes
/// retransmissions fast ones.
const BEYOND: u32 = u32::MAX;

/// A retransmission within this time after duplicate ACKs is a fast one.
const FAST_NS: u64 = 20_000_000;

/// Assumed round-trip time of connections without a captured handshake.
const UNKNOWN_ROUND_TRIP_NS: u64 = 3_000_000;

/// Transmissions that tshark keeps per side.
const UNACKED_MAX: usize = 10_000;

/// More than this in flight is an error of the capture.
const ABSURD_FLIGHT: u32 = 2_000_000_000;

/// SACK blocks that tshark stores.
const COUNTED_SACK_BLOCKS: usize = 3;
