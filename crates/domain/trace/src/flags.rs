//! What tshark says of a segment.

/// One of tshark's `tcp.analysis` flags, with its condition in the order in which they are decided (Wireshark 4.0,
/// `epan/dissectors/packet-tcp.c`, `tcp_analyze_sequence_number`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flag {
    /// One byte at the next sequence number, towards a closed window
    ZeroWindowProbe,
    /// Its window is 0
    ZeroWindow,
    /// Something before it was not captured
    LostSegment,
    /// At most one byte, just before the next sequence number
    KeepAlive,
    /// Nothing but another window
    WindowUpdate,
    /// Its data fills the peer's window
    WindowFull,
    /// Answers a keep-alive
    KeepAliveAck,
    /// Answers a zero window probe
    ZeroWindowProbeAck,
    /// Repeats an acknowledgement
    DuplicateAck,
    /// Acknowledges what was not captured
    AckLostSegment,
    /// Sends what was acknowledged before
    SpuriousRetransmission,
    /// Sends again after duplicate acknowledgements
    FastRetransmission,
    /// Comes later than what follows it
    OutOfOrder,
    /// Sends again
    Retransmission,
    /// A SYN of a connection whose ports were in use before
    ReusedPorts,
}

impl Flag {
    /// Each of them, in the order in which they are decided.
    pub const ALL: [Self; 15] = [
        Self::ZeroWindowProbe,
        Self::ZeroWindow,
        Self::LostSegment,
        Self::KeepAlive,
        Self::WindowUpdate,
        Self::WindowFull,
        Self::KeepAliveAck,
        Self::ZeroWindowProbeAck,
        Self::DuplicateAck,
        Self::AckLostSegment,
        Self::SpuriousRetransmission,
        Self::FastRetransmission,
        Self::OutOfOrder,
        Self::Retransmission,
        Self::ReusedPorts,
    ];

    /// As tshark calls it, behind `tcp.analysis.`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ZeroWindowProbe => "zero_window_probe",
            Self::ZeroWindow => "zero_window",
            Self::LostSegment => "lost_segment",
            Self::KeepAlive => "keep_alive",
            Self::WindowUpdate => "window_update",
            Self::WindowFull => "window_full",
            Self::KeepAliveAck => "keep_alive_ack",
            Self::ZeroWindowProbeAck => "zero_window_probe_ack",
            Self::DuplicateAck => "duplicate_ack",
            Self::AckLostSegment => "ack_lost_segment",
            Self::SpuriousRetransmission => "spurious_retransmission",
            Self::FastRetransmission => "fast_retransmission",
            Self::OutOfOrder => "out_of_order",
            Self::Retransmission => "retransmission",
            Self::ReusedPorts => "reused_ports",
        }
    }
}

/// A set of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u16);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);

    /// With this one.
    #[must_use]
    pub const fn with(self, flag: Flag) -> Self {
        Self(self.0 | 1 << flag as u16)
    }

    /// Whether this one is among them.
    #[must_use]
    pub const fn has(self, flag: Flag) -> bool {
        self.0 & 1 << flag as u16 != 0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Flag> {
        Flag::ALL.into_iter().filter(move |flag| self.has(*flag))
    }
}

/// What is said of one segment, with tshark's values beside the flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentNotes {
    /// Its flags
    pub flags: Flags,
    /// Which connection it is of, in the order of their first segments (`tcp.stream`)
    pub connection: u32,
    /// The frame whose data it acknowledges (`acks_frame`)
    pub acks_frame: Option<u64>,
    /// Since that frame (`ack_rtt`), in nanoseconds
    pub ack_rtt_ns: Option<u64>,
    /// Since the oldest segment that was not acknowledged (`rto`), in nanoseconds
    pub rto_ns: Option<u64>,
    /// That segment's frame (`rto_frame`)
    pub rto_frame: Option<u64>,
    /// Data on its way after it (`bytes_in_flight`)
    pub bytes_in_flight: Option<u32>,
    /// Data since the last PSH (`push_bytes_sent`)
    pub push_bytes_sent: Option<u32>,
    /// Which duplicate it is (`duplicate_ack_num`), and of which frame
    pub duplicate_ack: Option<(u32, u64)>,
}
