//! Fields of `struct tcp_info` with units in their names, from `inet_diag`, a BPF walk or partly `/proc/net`.
//! The macro lists each field once, so that struct, conversions, names and `visit` cannot differ.

use crate::State;
use sockeye_wire::tcp_info::TcpInfo as Wire;
use sockeye_wire::walk::TcpRaw;

macro_rules! tcp_info {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $wire:ident;)*) => {
        /// The state of a TCP connection; `None` if this kernel does not report a field, or its number means "unknown".
        ///
        /// Field names are the kernel's (`tcpi_...`) with the unit at the end.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct TcpInfo {
            $($(#[$doc])* pub $name: Option<$type>,)*
        }

        impl TcpInfo {
            /// Names of the fields, in the order of [`TcpInfo::visit`].
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Calls `visit` with each field's name and value, in the kernel's order.
            #[inline]
            pub fn visit(&self, mut visit: impl FnMut(&'static str, Option<u64>)) {
                $(visit(stringify!($name), self.$name.map(u64::from));)*
            }

            #[inline]
            fn read(wire: &Wire<'_>) -> Self {
                Self { $($name: wire.$wire(),)* }
            }

            #[inline]
            fn read_raw(raw: &TcpRaw<'_>) -> Self {
                Self { $($name: raw.$wire(),)* }
            }
        }
    };
}

tcp_info! {
    /// Congestion state machine, see [`TcpInfo::ca_state`]
    ca_state: u8 = ca_state;
    /// Retransmissions of the segment at the head of the queue, timer-driven, since the last progress
    retransmits: u8 = retransmits;
    /// Unanswered zero window or keepalive probes
    probes: u8 = probes;
    /// Doublings of the retransmission timeout
    backoff: u8 = backoff;
    /// Negotiated options as bits: 1 timestamps, 2 SACK, 4 window scale, 8 ECN, 16 ECN seen, 32 SYN data
    options: u8 = options;
    /// Window scale of the peer
    snd_wscale: u8 = snd_wscale;
    /// Our window scale
    rcv_wscale: u8 = rcv_wscale;
    /// Whether the delivery rate was limited by the application having nothing to send
    delivery_rate_app_limited: bool = delivery_rate_app_limited;
    /// Why TCP Fast Open failed: 0 not used or fine, 1 cookie unavailable, 2 data not acked, 3 SYN retransmitted
    fastopen_client_fail: u8 = fastopen_client_fail;
    /// Retransmission timeout
    rto_us: u32 = rto;
    /// Delayed ACK timeout
    ato_us: u32 = ato;
    /// Maximum segment size sent
    snd_mss_bytes: u32 = snd_mss;
    /// Largest segment received lately, the estimate for delayed ACKs
    rcv_mss_bytes: u32 = rcv_mss;
    /// Segments in flight or lost, not acknowledged
    unacked_segs: u32 = unacked;
    /// Of these, segments that SACK reported
    sacked_segs: u32 = sacked;
    /// Of these, segments considered lost
    lost_segs: u32 = lost;
    /// Of these, segments retransmitted
    retrans_segs: u32 = retrans;
    /// Forward acknowledged segments (0 since Linux 4.15)
    fackets_segs: u32 = fackets;
    /// Time since data was last sent
    last_data_sent_ms: u32 = last_data_sent;
    /// Time since an ACK was last sent (the kernel does not store it: always 0)
    last_ack_sent_ms: u32 = last_ack_sent;
    /// Time since data was last received
    last_data_recv_ms: u32 = last_data_recv;
    /// Time since an ACK was last received
    last_ack_recv_ms: u32 = last_ack_recv;
    /// Path MTU
    pmtu_bytes: u32 = pmtu;
    /// Slow start threshold of the receive window
    rcv_ssthresh_bytes: u32 = rcv_ssthresh;
    /// Smoothed round trip time
    rtt_us: u32 = rtt;
    /// Mean deviation of the round trip time
    rttvar_us: u32 = rttvar;
    /// Slow start threshold; `None` also before the first loss, when there is none
    snd_ssthresh_segs: u32 = snd_ssthresh;
    /// Congestion window
    snd_cwnd_segs: u32 = snd_cwnd;
    /// Maximum segment size advertised
    advmss_bytes: u32 = advmss;
    /// Reordering tolerated before a segment is considered lost
    reordering_segs: u32 = reordering;
    /// Round trip time estimated by the receiver
    rcv_rtt_us: u32 = rcv_rtt;
    /// Target of receive buffer auto-tuning
    rcv_space_bytes: u32 = rcv_space;
    /// Retransmissions since the start of the connection
    total_retrans_segs: u32 = total_retrans;
    /// Pacing rate; `None` also if it is unlimited
    pacing_rate_bytes_per_s: u64 = pacing_rate;
    /// Limit of the pacing rate (`SO_MAX_PACING_RATE`); `None` also if it is unlimited
    max_pacing_rate_bytes_per_s: u64 = max_pacing_rate;
    /// Data acknowledged by the peer
    bytes_acked: u64 = bytes_acked;
    /// Data received in order
    bytes_received: u64 = bytes_received;
    /// Segments sent
    segs_out: u32 = segs_out;
    /// Segments received
    segs_in: u32 = segs_in;
    /// Data in the send queue that was not sent yet
    notsent_bytes: u32 = notsent_bytes;
    /// Smallest round trip time of the last minutes (`net.ipv4.tcp_min_rtt_wlen`); `None` if none was measured
    min_rtt_us: u32 = min_rtt;
    /// Segments received with data
    data_segs_in: u32 = data_segs_in;
    /// Segments sent with data
    data_segs_out: u32 = data_segs_out;
    /// Latest delivery rate
    delivery_rate_bytes_per_s: u64 = delivery_rate;
    /// Time with data in flight or waiting to be sent
    busy_time_us: u64 = busy_time;
    /// Of this, time limited by the peer's receive window
    rwnd_limited_us: u64 = rwnd_limited;
    /// Of this, time limited by our send buffer
    sndbuf_limited_us: u64 = sndbuf_limited;
    /// Segments delivered, counting retransmitted ones
    delivered_segs: u32 = delivered;
    /// Of these, segments marked by ECN
    delivered_ce_segs: u32 = delivered_ce;
    /// Data sent, counting retransmissions
    bytes_sent: u64 = bytes_sent;
    /// Of this, data retransmitted
    bytes_retrans: u64 = bytes_retrans;
    /// Duplicates the peer reported (DSACK): retransmissions that were not needed
    dsack_dups: u32 = dsack_dups;
    /// Reordering events seen
    reord_seen: u32 = reord_seen;
    /// Segments received out of order
    rcv_ooopack: u32 = rcv_ooopack;
    /// Window the peer advertises
    snd_wnd_bytes: u32 = snd_wnd;
    /// Window we advertise
    rcv_wnd_bytes: u32 = rcv_wnd;
    /// Changes of the transmit hash after path problems
    rehash: u32 = rehash;
    /// Retransmission timeouts
    total_rto: u16 = total_rto;
    /// Of these, recoveries that ended
    total_rto_recoveries: u16 = total_rto_recoveries;
    /// Time spent in these recoveries
    total_rto_time_ms: u32 = total_rto_time;
    /// Segments received that were marked by ECN (AccECN)
    received_ce_segs: u32 = received_ce;
    /// Data delivered with ECT(1)
    delivered_e1_bytes: u32 = delivered_e1_bytes;
    /// Data delivered with ECT(0)
    delivered_e0_bytes: u32 = delivered_e0_bytes;
    /// Data delivered with CE
    delivered_ce_bytes: u32 = delivered_ce_bytes;
    /// Data received with ECT(1)
    received_e1_bytes: u32 = received_e1_bytes;
    /// Data received with ECT(0)
    received_e0_bytes: u32 = received_e0_bytes;
    /// Data received with CE
    received_ce_bytes: u32 = received_ce_bytes;
    /// Why AccECN is off, as bits
    accecn_fail_mode: u16 = accecn_fail_mode;
    /// AccECN options seen: 0 none, 1 empty, 2 counters
    accecn_opt_seen: u16 = accecn_opt_seen;
}

impl TcpInfo {
    /// Converts the kernel's struct, for a socket in `state`.
    ///
    /// For a listener the kernel stores the accept queue and the backlog in `tcpi_unacked` and
    /// `tcpi_sacked`; they are [`crate::Queues::Accept`] here and absent from this struct.
    #[must_use]
    pub fn from_wire(wire: &Wire<'_>, state: State) -> Self {
        Self::read(wire).known(state)
    }

    /// Converts the fields that a walk read from the kernel's socket.
    #[must_use]
    pub fn from_walk(raw: &TcpRaw<'_>, state: State) -> Self {
        Self::read_raw(raw).known(state)
    }

    /// Replaces numbers with another meaning by `None`.
    fn known(mut self, state: State) -> Self {
        self.min_rtt_us = self.min_rtt_us.filter(|&us| us != u32::MAX);
        // Infinite, and `~0UL` of sk_pacing_rate: no limit, and no number to sum up or to sort by.
        self.snd_ssthresh_segs = self
            .snd_ssthresh_segs
            .filter(|&segs| segs < TCP_INFINITE_SSTHRESH);
        self.pacing_rate_bytes_per_s = self.pacing_rate_bytes_per_s.filter(|&rate| rate != u64::MAX);
        self.max_pacing_rate_bytes_per_s = self.max_pacing_rate_bytes_per_s.filter(|&rate| rate != u64::MAX);
        if state == State::Listen {
            (self.unacked_segs, self.sacked_segs) = (None, None);
        }
        self
    }

    /// Returns the state of congestion control.
    #[must_use]
    pub fn ca_state(&self) -> Option<CaState> {
        self.ca_state.map(CaState::from_number)
    }
}

/// State of TCP's congestion control (`enum tcp_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaState {
    /// No problem
    Open,
    /// Duplicate ACKs or SACKs
    Disorder,
    /// Window reduced after ECN or local congestion
    Cwr,
    /// Fast recovery
    Recovery,
    /// After a retransmission timeout
    Loss,
    /// An unknown number
    Unknown(u8),
}

impl CaState {
    /// Converts from the kernel's number.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Open,
            1 => Self::Disorder,
            2 => Self::Cwr,
            3 => Self::Recovery,
            4 => Self::Loss,
            unknown => Self::Unknown(unknown),
        }
    }
}

impl CaState {
    /// Returns its name; `None` for an unknown number.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Open => "open",
            Self::Disorder => "disorder",
            Self::Cwr => "cwr",
            Self::Recovery => "recovery",
            Self::Loss => "loss",
            Self::Unknown(_) => return None,
        })
    }
}

/// `include/net/tcp.h`
const TCP_INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_wire::tcp_info::{FIELDS, LEN};

    #[test]
    fn every_wire_field_has_a_name() {
        // The wire's table lacks the four bit fields and has `state`, which is a field of the socket.
        assert_eq!(TcpInfo::NAMES.len(), FIELDS.len() - 1 + 4);
        let mut all_present = 0;
        let bytes = [1; LEN];
        TcpInfo::from_wire(&Wire::new(&bytes), State::Established).visit(|name, value| {
            assert!(value.is_some(), "{name} is absent from the longest struct");
            all_present += 1;
        });
        assert_eq!(all_present, TcpInfo::NAMES.len());
    }

    #[test]
    fn unknown_numbers_are_none() {
        let bytes = [0xff; LEN];
        assert_eq!(
            TcpInfo::from_wire(&Wire::new(&bytes), State::Established).min_rtt_us,
            None
        );
        let unlimited = TcpInfo::from_wire(&Wire::new(&bytes), State::Established);
        assert_eq!(
            (
                unlimited.snd_ssthresh_segs,
                unlimited.pacing_rate_bytes_per_s,
                unlimited.max_pacing_rate_bytes_per_s
            ),
            (None, None, None)
        );
        assert!(
            TcpInfo::from_wire(&Wire::new(&bytes[..148]), State::Established)
                .segs_in
                .is_some()
        );
        let listener = TcpInfo::from_wire(&Wire::new(&bytes), State::Listen);
        assert_eq!((listener.unacked_segs, listener.sacked_segs), (None, None));
        TcpInfo::from_wire(&Wire::new(&[]), State::Established)
            .visit(|name, value| assert_eq!(value, None, "{name}"));
    }

    #[test]
    fn a_walk_reads_the_same_fields() {
        let now = sockeye_wire::walk::KernelClock {
            hz: 250,
            jiffies: 1 << 32,
            ktime_ns: 0,
        };
        let mut bytes = [0xff; 304];
        bytes[4] = 1;
        let info = TcpInfo::from_walk(&TcpRaw::new(&bytes, now).unwrap(), State::Established);
        let has_no_number = [
            "min_rtt_us",
            "snd_ssthresh_segs",
            "pacing_rate_bytes_per_s",
            "max_pacing_rate_bytes_per_s",
        ];
        info.visit(|name, value| assert_eq!(value.is_none(), has_no_number.contains(&name), "{name}"));
        assert_eq!(
            (info.rtt_us, info.snd_cwnd_segs),
            (Some(u32::MAX >> 3), Some(u32::MAX))
        );
        assert_eq!(
            (info.lost_segs, info.bytes_sent),
            (Some(u32::MAX), Some(u64::MAX))
        );
        bytes[4] = 10;
        let listener = TcpInfo::from_walk(&TcpRaw::new(&bytes, now).unwrap(), State::Listen);
        assert_eq!((listener.unacked_segs, listener.sacked_segs), (None, None));
        assert_eq!(
            (listener.rtt_us, listener.snd_cwnd_segs),
            (Some(0), Some(u32::MAX))
        );
    }
}
