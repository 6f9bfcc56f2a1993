//! The handshake of a connection: when its segments came, and what they offered.

use crate::Negotiated;
use sockeye_wire::packet::{Segment, TcpFlags};

/// Times of the handshake's segments.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Handshake {
    pub(super) syn_ns: Option<u64>,
    pub(super) syn_ack_ns: Option<u64>,
    pub(super) ack_ns: Option<u64>,
    /// Options of both SYNs, by end
    pub(super) offers: [Option<SynOptions>; 2],
    pub(super) syns: u32,
    pub(super) syn_acks: u32,
    /// A SYN was captured in part: its options end before any window scale
    pub(super) is_scale_cut: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SynOptions {
    pub(super) mss: Option<u16>,
    pub(super) window_scale: Option<u8>,
    pub(super) sack: bool,
    pub(super) timestamps: bool,
    pub(super) ecn: bool,
}

impl Handshake {
    /// Records a SYN, or the answer to it, of end `from`.
    #[cold]
    pub(super) fn syn(&mut self, from: usize, segment: &Segment, time_ns: u64) {
        let has = |flag| segment.flags.has(flag);
        let count = if has(TcpFlags::ACK) {
            &mut self.syn_acks
        } else {
            &mut self.syns
        };
        let before_ns = if has(TcpFlags::ACK) {
            self.syn_ack_ns
        } else {
            self.syn_ns
        };
        // No SYN is sent again so soon: it was captured twice.
        let is_copy = before_ns.is_some_and(|before_ns| time_ns.abs_diff(before_ns) <= SYN_COPY_NS);
        *count = count.saturating_add(u32::from(!is_copy));
        let options = &segment.options;
        let ecn = if has(TcpFlags::ACK) {
            has(TcpFlags::ECE) && !has(TcpFlags::CWR)
        } else {
            has(TcpFlags::ECE) && has(TcpFlags::CWR)
        };
        let offer = SynOptions {
            mss: options.mss,
            window_scale: options.window_scale,
            sack: options.sack_permitted,
            timestamps: options.timestamps.is_some(),
            ecn,
        };
        if options.is_cut {
            self.is_scale_cut |= options.window_scale.is_none();
        } else {
            self.offers[from] = Some(offer);
        }
        if has(TcpFlags::ACK) {
            self.syn_ack_ns.get_or_insert(time_ns);
        } else if self.syn_ack_ns.is_none() {
            // The last SYN before the answer; earlier ones were lost.
            self.syn_ns = Some(time_ns);
        }
    }

    /// Time from which data may flow; `None` if the handshake was not captured.
    pub(super) fn ready_ns(&self) -> Option<u64> {
        self.ack_ns
    }

    /// The same; `begin_ns` if the handshake was over before the capture began.
    pub(super) fn ready_or(&self, begin_ns: u64) -> Option<u64> {
        self.ack_ns
            .or((self.syns + self.syn_acks == 0).then_some(begin_ns))
    }

    pub(super) fn round_trip_ns(&self) -> Option<u64> {
        Some(self.ack_ns?.saturating_sub(self.syn_ns?))
    }

    pub(super) fn negotiated(&self) -> Negotiated {
        let [one, other] = self.offers;
        let both = |has: fn(&SynOptions) -> bool| match (one, other) {
            (Some(one), Some(other)) => Some(has(&one) && has(&other)),
            // An option that only one end offered is off.
            (Some(only), None) | (None, Some(only)) => (!has(&only)).then_some(false),
            (None, None) => None,
        };
        Negotiated {
            window_scaling: both(|offer| offer.window_scale.is_some()),
            sack: both(|offer| offer.sack),
            timestamps: both(|offer| offer.timestamps),
            ecn: both(|offer| offer.ecn),
        }
    }
}

/// SYNs this close to each other are the same one.
const SYN_COPY_NS: u64 = 1_000_000;
