//! Events: our own diagnosis of what happened, with its evidence.

/// An event of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Time since the first packet of the capture, in nanoseconds
    pub time_ns: u64,
    /// Frame that shows it, from 1
    pub frame: u64,
    /// Whether the client's data is concerned (else, the server's)
    pub from_client: bool,
    /// Kind of event
    pub kind: EventKind,
    /// Number of segments that were lost, late or sent again: a captured packet may carry several; 1 for other kinds
    pub segments: u32,
    /// Confidence in the diagnosis
    pub confidence: Confidence,
    /// Evidence in a few words: `never SACKed, sent again, ACK jumped`
    pub evidence: &'static str,
}

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// A segment was lost on the path and retransmitted
    Lost,
    /// A segment arrived later than segments sent after it
    Reordered,
    /// A segment was retransmitted although it had arrived
    Spurious,
    /// A segment was retransmitted, but unknown whether it or its acknowledgement was lost
    Unclear,
    /// The network delivered a segment twice
    DuplicatedByNetwork,
    /// The capture has a segment twice
    DuplicatedByCapture,
    /// The capture lacks a segment that the peer acknowledged
    MissingInCapture,
    /// A retransmission timeout
    Timeout,
    /// Several segments were lost at once: the first of them
    LossBurst {
        /// Number of segments
        segments: u32,
    },
    /// A long pause with data in flight
    Stall {
        /// Duration in nanoseconds
        duration_ns: u64,
    },
    /// The receiver's window was closed
    WindowClosed {
        /// Duration in nanoseconds
        duration_ns: u64,
    },
}

impl EventKind {
    /// Name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Reordered => "reordered",
            Self::Spurious => "spurious",
            Self::Unclear => "unclear",
            Self::DuplicatedByNetwork => "duplicated_by_network",
            Self::DuplicatedByCapture => "duplicated_by_capture",
            Self::MissingInCapture => "missing_in_capture",
            Self::Timeout => "timeout",
            Self::LossBurst { .. } => "loss_burst",
            Self::Stall { .. } => "stall",
            Self::WindowClosed { .. } => "window_closed",
        }
    }
}

/// Confidence in a diagnosis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// Likely, from timing or sequence numbers alone
    Likely,
    /// The other end reported it (SACK, DSACK, timestamps)
    Proven,
}

impl Confidence {
    /// Name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Likely => "likely",
            Self::Proven => "proven",
        }
    }
}
