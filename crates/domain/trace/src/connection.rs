//! What is known of a connection when it is over, or the capture is.

use crate::{Ending, Event, Flag, Shares, Verdict};
use std::net::IpAddr;

/// One connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// Its number, in the order of first segments, from 0 (`tcp.stream`)
    pub number: u32,
    /// Who opened it, or sent first
    pub client: Endpoint,
    /// The other
    pub server: Endpoint,
    /// Since the first packet of the capture, in nanoseconds
    pub begin_ns: u64,
    /// Until its last packet
    pub end_ns: u64,
    /// Frame of its first segment, from 1
    pub first_frame: u64,
    /// How it ended
    pub ending: Ending,
    /// What of it was captured
    pub completeness: Completeness,
    /// What both agreed upon
    pub negotiated: Negotiated,
    /// From SYN to the last ACK of the handshake, in nanoseconds
    pub handshake_ns: Option<u64>,
    /// SYNs of the client
    pub syns: u32,
    /// SYNs of the server
    pub syn_acks: u32,
    /// How often one end sent data after the other had
    pub turns: u32,
    /// Client to server
    pub forward: Side,
    /// Server to client
    pub backward: Side,
    /// What happened, in order, as far as there was room
    pub events: Vec<Event>,
    /// Events that there was no room for
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

/// Which of the two directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Client to server
    Forward,
    /// Server to client
    Backward,
}

/// What of a connection was captured: tshark's bits (`tcp.completeness`).
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

/// What both agreed upon in their SYNs; `None`: not captured.
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

/// What one side sent, and what became of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Side {
    /// Segments
    pub packets: u64,
    /// Data, counted once
    pub bytes: u64,
    /// Data, counted as often as it was sent
    pub bytes_sent: u64,
    /// Its MSS option
    pub mss: Option<u16>,
    /// Its window scale option
    pub window_scale: Option<u8>,
    /// Longest segment, in bytes; more than the MSS: captured before it was cut up (TSO) or after it was put together (GRO)
    pub longest_segment: u32,
    /// How many segments have each flag, in the order of [`Flag::ALL`]
    pub flags: [u64; Flag::ALL.len()],
    /// Times from a segment of this side to its acknowledgement
    pub rtt: Percentiles,
    /// Data a second while there was any, in bits
    pub throughput_bit_per_s: Option<u64>,
    /// The most data in flight
    pub in_flight_max_bytes: u32,
    /// How its time was spent
    pub shares: Shares,
    /// How long there was data in flight, or a closed window before it: what `tcp_info` calls busy
    pub busy_ns: u64,
    /// What held it back
    pub verdict: Verdict,
    /// How many segments have met with what
    pub opinions: Opinions,
    /// Whether losses before it was captured show even without a gap; elsewhere silence may be loss
    pub knows_losses: bool,
    /// Where it was captured: what held it back is known better near the sender
    pub vantage: Vantage,
}

/// Our own opinion of one side's segments, counted; each is an [`Event`] too, as far as there was room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Opinions {
    /// Lost on the path
    pub lost: u64,
    /// Of these, the ones that got lost before they came to where was captured
    pub lost_before: u64,
    /// Came later than what was sent after them
    pub reordered: u64,
    /// Sent again without need
    pub spurious: u64,
    /// Sent again, and it cannot be told whether they or their acknowledgements were lost
    pub unclear: u64,
    /// Delivered twice by the network
    pub duplicated_by_network: u64,
    /// Captured twice
    pub duplicated_by_capture: u64,
    /// Acknowledged, but never captured: gaps, however many segments each
    pub missing_in_capture: u64,
    /// Retransmission timeouts
    pub timeouts: u64,
    /// Several losses at once
    pub loss_bursts: u64,
    /// Gaps and SACK blocks that there was no room for
    pub left_out: u64,
}

/// Where a capture was made, by the parts of the handshake's round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Vantage {
    /// Near the sender of the data
    Sender,
    /// Far from both ends
    Between,
    /// Near the receiver of the data
    Receiver,
    /// The handshake was not captured; taken as near the sender
    #[default]
    Unknown,
}

impl Vantage {
    /// Its name in JSON.
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

/// Of many times, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the names say it all
pub struct Percentiles {
    pub count: u64,
    pub min_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}
