//! The handshake of a connection: when its segments came, and what they offered.

use crate::Negotiated;
use sockeye_wire::packet::{Segment, TcpFlags};

/// Times of the handshake's segments.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Handshake {
    pub(super) syn_ns: Option<u64>,
    pub(super) first_syn_ns: Option<u64>,
    pub(super) syn_ack_ns: Option<u64>,
    pub(super) ack_ns: Option<u64>,
    /// Timestamp of the first SYN-ACK, and the echo in the ACK after it
    pub(super) syn_ack_clock: Option<u32>,
    pub(super) ack_echo: Option<u32>,
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
            if self.syn_ack_ns.is_none() {
                self.syn_ack_ns = Some(time_ns);
                self.syn_ack_clock = options.timestamps.map(|stamps| stamps.value);
            }
        } else if self.syn_ack_ns.is_none() {
            // The last SYN before the answer; earlier ones were lost.
            self.syn_ns = Some(time_ns);
            self.first_syn_ns.get_or_insert(time_ns);
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

    /// From the first SYN to the last one before the answer, in nanoseconds.
    pub(super) fn repeated_ns(&self) -> u64 {
        let since_ns = self.syn_ns.zip(self.first_syn_ns);
        since_ns.map_or(0, |(last_ns, first_ns)| last_ns.saturating_sub(first_ns))
    }

    /// Whether a SYN or its answer was sent again although nothing was lost. `answer_delayed_ns`: how much longer than usual
    /// the path took for the first SYN-ACK; `round_trip_ns`: the shortest round trip between capture and server.
    pub(super) fn is_needless(&self, answer_delayed_ns: u64, round_trip_ns: u64) -> bool {
        let (Some(first_ns), Some(last_ns), Some(answer_ns)) =
            (self.first_syn_ns, self.syn_ns, self.syn_ack_ns)
        else {
            return false;
        };
        // It came too soon after the last SYN to be an answer to that, or was sent before.
        let since_last_ns = answer_ns.saturating_sub(last_ns);
        let is_of_earlier = last_ns > first_ns
            && (since_last_ns < round_trip_ns / 2
                || answer_delayed_ns > since_last_ns && answer_delayed_ns >= LATE_NS);
        // Near the server, the client's answer shows which SYN-ACK arrived.
        let is_near_server = self
            .ack_ns
            .is_some_and(|ack_ns| answer_ns.saturating_sub(first_ns) < ack_ns.saturating_sub(answer_ns) / 4);
        let is_first_echoed = self.syn_ack_clock.is_some() && self.ack_echo == self.syn_ack_clock;
        is_of_earlier || is_near_server && is_first_echoed && self.syns + self.syn_acks > 2
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

/// A shorter delay is that of a busy machine.
const LATE_NS: u64 = 100_000_000;

/// SYNs this close to each other are the same one.
const SYN_COPY_NS: u64 = 1_000_000;
