//! Flags and values that tshark shows for a segment.

use crate::named::named;

named! {
    /// One of tshark's `tcp.analysis` flags, with its condition in the order in which they are decided (Wireshark 4.0,
    /// `epan/dissectors/packet-tcp.c`, `tcp_analyze_sequence_number`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Flag {
        /// One byte at the next sequence number, towards a closed window
        ZeroWindowProbe = "zero_window_probe",
        /// Its window is 0
        ZeroWindow = "zero_window",
        /// Something before it was not captured
        LostSegment = "lost_segment",
        /// At most one byte, just before the next sequence number
        KeepAlive = "keep_alive",
        /// Changes only the window
        WindowUpdate = "window_update",
        /// Its data fills the peer's window
        WindowFull = "window_full",
        /// Answers a keep-alive
        KeepAliveAck = "keep_alive_ack",
        /// Answers a zero window probe
        ZeroWindowProbeAck = "zero_window_probe_ack",
        /// Repeats an acknowledgement
        DuplicateAck = "duplicate_ack",
        /// Acknowledges what was not captured
        AckLostSegment = "ack_lost_segment",
        /// Retransmits data that was acknowledged before
        SpuriousRetransmission = "spurious_retransmission",
        /// Retransmits after duplicate acknowledgements
        FastRetransmission = "fast_retransmission",
        /// Arrives later than data that follows it
        OutOfOrder = "out_of_order",
        /// Retransmits data
        Retransmission = "retransmission",
        /// A SYN on ports that an earlier connection used
        ReusedPorts = "reused_ports",
    }
}

/// A set of flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u16);

impl Flags {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// The set with this flag added.
    #[must_use]
    pub const fn with(self, flag: Flag) -> Self {
        Self(self.0 | 1 << flag as u16)
    }

    /// Whether the set contains this flag.
    #[must_use]
    pub const fn has(self, flag: Flag) -> bool {
        self.0 & 1 << flag as u16 != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All flags of the set.
    pub fn iter(self) -> impl Iterator<Item = Flag> {
        Flag::ALL.into_iter().filter(move |flag| self.has(*flag))
    }
}

/// The flags and values of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentNotes {
    /// Its flags
    pub flags: Flags,
    /// Number of its connection, in the order of first segments (`tcp.stream`)
    pub connection: u32,
    /// The frame with the acknowledged data (`acks_frame`)
    pub acks_frame: Option<u64>,
    /// Time since that frame (`ack_rtt`), in nanoseconds
    pub ack_rtt_ns: Option<u64>,
    /// Time since the oldest unacknowledged segment (`rto`), in nanoseconds
    pub rto_ns: Option<u64>,
    /// Frame of that segment (`rto_frame`)
    pub rto_frame: Option<u64>,
    /// Data in flight after it (`bytes_in_flight`)
    pub bytes_in_flight: Option<u32>,
    /// Data since the last PSH (`push_bytes_sent`)
    pub push_bytes_sent: Option<u32>,
    /// Number of this duplicate acknowledgement (`duplicate_ack_num`), and the frame that it repeats
    pub duplicate_ack: Option<(u32, u64)>,
}
