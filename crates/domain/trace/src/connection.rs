//! The result of the analysis of one connection.

use crate::{
    BoundTimes, DelayVariation, Ending, Event, Exchanges, Flag, IcmpReport, NameLookup, Percentiles, Shares,
    Verdict,
};
use sockeye_wire::packet::Segment;
use std::net::IpAddr;

/// One connection, when it or the capture is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// Number in the order of first segments, from 0 (`tcp.stream`)
    pub number: u32,
    /// End that opened the connection; if that was not captured, the one with the port of a client, or that sent first
    pub client: Endpoint,
    /// The other end
    pub server: Endpoint,
    /// First packet, since the first packet of the capture, in nanoseconds
    pub begin_ns: u64,
    /// Last packet, since the first packet of the capture, in nanoseconds
    pub end_ns: u64,
    /// Frame of its first segment, from 1
    pub first_frame: u64,
    /// How the connection ended
    pub ending: Ending,
    /// Parts of the connection that were captured
    pub completeness: Completeness,
    /// What both ends negotiated
    pub negotiated: Negotiated,
    /// From SYN to the last ACK of the handshake, in nanoseconds; `None`: not captured
    pub handshake_ns: Option<u64>,
    /// SYNs of the client
    pub syns: u32,
    /// SYNs of the server
    pub syn_acks: u32,
    /// Whether a SYN or its answer was sent again although nothing was lost, only late
    pub is_syn_needless: bool,
    /// TTL of the client's first SYN, as captured; `None`: not captured
    pub syn_ttl: Option<u8>,
    /// Whether the server answered the SYN of another connection in this capture
    pub has_server_answered: bool,
    /// Number of times that one end sent data after the other
    pub turns: u32,
    /// Requests, answers, and the time between them
    pub exchanges: Exchanges,
    /// Name lookup that the client waited for before its SYN; `None` if none was captured
    pub lookup: Option<Box<NameLookup>>,
    /// ICMP errors that quote segments of this connection
    pub icmp: Vec<IcmpReport>,
    /// Silence before the data that was answered by RST, in nanoseconds; `None` if it ended otherwise
    pub idle_before_reset_ns: Option<u64>,
    /// Segments with an earlier timestamp than the one before
    pub times_backwards: u64,
    /// Client to server
    pub forward: Side,
    /// Server to client
    pub backward: Side,
    /// Events in order, at most [`crate::Options::events_max`]
    pub events: Vec<Event>,
    /// Events that did not fit
    pub events_left_out: u64,
}

/// An address and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Address
    pub ip: IpAddr,
    /// Port
    pub port: u16,
}

impl Endpoint {
    /// Source and destination of a segment.
    #[must_use]
    pub const fn both(segment: &Segment) -> (Self, Self) {
        (
            Self {
                ip: segment.source,
                port: segment.source_port,
            },
            Self {
                ip: segment.destination,
                port: segment.destination_port,
            },
        )
    }
}

/// Captured parts of a connection: tshark's bits (`tcp.completeness`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completeness(pub u8);

#[allow(missing_docs)] // tshark's names
impl Completeness {
    pub const SYN: u8 = 1;
    pub const SYN_ACK: u8 = 2;
    pub const ACK: u8 = 4;
    pub const DATA: u8 = 8;
    pub const FIN: u8 = 16;
    pub const RST: u8 = 32;
}

/// What both ends negotiated in their SYNs; `None`: not captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Negotiated {
    /// Whether windows are scaled
    pub window_scaling: Option<bool>,
    /// Whether SACK is permitted
    pub sack: Option<bool>,
    /// Whether segments carry timestamps
    pub timestamps: Option<bool>,
    /// Whether ECN is in use
    pub ecn: Option<bool>,
}

/// One direction: what this side sent, and what became of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Side {
    /// Segments
    pub packets: u64,
    /// Data, counted once
    pub bytes: u64,
    /// Data, counted as often as it was sent
    pub bytes_sent: u64,
    /// Segments with data, counted as often as they were sent; a captured packet may carry several
    pub data_segments: u64,
    /// Its MSS option
    pub mss: Option<u16>,
    /// Its window scale option
    pub window_scale: Option<u8>,
    /// Longest segment, in bytes; more than the MSS: captured before segmentation (TSO) or after reassembly
    /// (GRO)
    pub longest_segment: u32,
    /// Number of segments with each flag, in the order of [`Flag::ALL`]
    pub flags: [u64; Flag::ALL.len()],
    /// Times from a segment of this side to its acknowledgement, in nanoseconds
    pub rtt: Percentiles,
    /// Bits per second while data was sent; `None`: too little data
    pub throughput_bit_per_s: Option<u64>,
    /// The most data in flight
    pub in_flight_max_bytes: u32,
    /// Time of the transfer, by limiting factor
    pub shares: Shares,
    /// Time that round trips show as bound by a window or a buffer
    pub bound: BoundTimes,
    /// Time with data in flight, or with data before a closed window: busy time in the terms of `tcp_info`
    pub busy_ns: u64,
    /// What limited the transfer
    pub verdict: Verdict,
    /// Segments by diagnosis
    pub judgements: Judgements,
    /// Whether losses before the capture point show without a gap (by IP identifications); if not, a silence
    /// may be a loss
    pub knows_losses: bool,
    /// Where it was captured: the limiting factor is known better near the sender
    pub vantage: Vantage,
    /// How much delays vary
    pub variation: DelayVariation,
    /// Small writes that waited for delayed acknowledgements
    pub small_writes: SmallWrites,
    /// Acknowledgements with a window of less than a full segment, but more than 0
    pub small_windows: u64,
    /// What shows whether large packets pass
    pub path_mtu: PathMtuEvidence,
    /// Keepalives of this side since the last segment of the other
    pub unanswered_keepalives: u32,
}

/// Small segments that the sender kept until earlier ones were acknowledged (Nagle), while the receiver delayed its
/// acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SmallWrites {
    /// How often
    pub count: u64,
    /// Delays of these acknowledgements together, in nanoseconds
    pub waited_ns: u64,
}

/// What shows whether large packets reach the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathMtuEvidence {
    /// Data of the longest segment that was acknowledged, in bytes
    pub delivered_bytes: u32,
    /// Data of the segment that was retransmitted most often in a row, in bytes; 0 if none was
    pub stuck_bytes: u32,
    /// Its retransmissions
    pub stuck_times: u32,
    /// Whether it, or parts of it, got through in the end
    pub is_delivered: bool,
}

/// Numbers of this side's segments by our own diagnosis; each is an [`Event`] too, unless it did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Judgements {
    /// Lost on the path
    pub lost: u64,
    /// Of these, lost before the capture point
    pub lost_before: u64,
    /// Arrived later than what was sent after them
    pub reordered: u64,
    /// Retransmitted needlessly
    pub spurious: u64,
    /// Retransmitted, but unknown whether they or their acknowledgements were lost
    pub unclear: u64,
    /// Delivered twice by the network
    pub duplicated_by_network: u64,
    /// Captured twice
    pub duplicated_by_capture: u64,
    /// Gaps of acknowledged data that was never captured
    pub missing_in_capture: u64,
    /// Retransmission timeouts
    pub timeouts: u64,
    /// Bursts of several losses
    pub loss_bursts: u64,
    /// Gaps and SACK blocks that did not fit
    pub left_out: u64,
}

/// Capture point, by the parts of the handshake's round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Vantage {
    /// Near the sender of the data
    Sender,
    /// Far from both ends
    Between,
    /// Near the receiver of the data
    Receiver,
    /// The handshake was not captured; treated as near the sender
    #[default]
    Unknown,
}

impl Vantage {
    /// Name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Between => "between",
            Self::Receiver => "receiver",
            Self::Unknown => "unknown",
        }
    }
}
